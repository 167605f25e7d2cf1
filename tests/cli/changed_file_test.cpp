// A model file that is cut while `orrery run` answers from it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "support/paths.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::cli {
namespace {

TEST(ChangedFile, EndsTheAnswerWithOneSentence) {
  const test::TempDir folder;
  test::TinyGguf model(2);
  std::vector<std::string> texts = test::TinyGguf::texts();
  texts[2] = "x";  // no end of text: the answer goes on for seconds
  model.set("tokenizer.ggml.tokens", texts).drop("tokenizer.ggml.eos_token_id");
  const std::string path = folder.write("m.gguf", model.build());
  const std::string errors = folder.file("errors");
  const std::string command = test::program() + " run " + path +
                              " --raw --quiet --temp 0 -p ab -n 200000 --on-overflow shift 2>" +
                              errors;
  FILE* answer = ::popen(command.c_str(), "r");
  ASSERT_NE(answer, nullptr);
  ASSERT_NE(std::fgetc(answer), EOF);
  ASSERT_EQ(::truncate(path.c_str(), 65'536), 0);
  std::size_t more_text = 0;
  while (std::fgetc(answer) != EOF) ++more_text;
  EXPECT_LT(more_text, 100'000U) << "it went on";  // a full pipe stopped it at 64 KiB before
  const int status = ::pclose(answer);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  std::ifstream file(errors);
  std::string line, more;
  std::getline(file, line);
  EXPECT_EQ(line.rfind("error[E_CHANGED]: m.gguf: the model file was changed or cut", 0), 0U)
      << line;
  EXPECT_FALSE(std::getline(file, more)) << more;
}

}  // namespace
}  // namespace orrery::cli
