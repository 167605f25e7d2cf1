// A model file that is cut, written to or replaced while `orrery run` answers from it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::cli {
namespace {

constexpr int kTokens = 12'000;  // of one byte each: more than are on their way

class ChangedFile : public testing::Test {
 protected:
  ChangedFile() {
    test::TinyGguf model(2);
    std::vector<std::string> texts = test::TinyGguf::texts();
    texts[2] = "x";  // no end of text: the answer is as long as it may be
    model.set("tokenizer.ggml.tokens", texts).drop("tokenizer.ggml.eos_token_id");
    path_ = folder_.write("m.gguf", model.build());
    // So that a write of now is a later one, whatever the clock of the file system.
    std::filesystem::last_write_time(
        path_, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }

  struct Answer {
    std::string text, error;  // the first line on stderr
    bool more_errors = false;
    int exit_code = -1;
  };
  // `after_one` runs when the first byte of the answer is there. Until then the answer stops at 8
  // KiB, in a full pipe and the buffer of its reader.
  Answer answer(int tokens, const std::function<void()>& after_one) const {
    const std::string errors = folder_.file("errors");
    const std::string command =
        test::program() + " run " + path_ +
        " --raw --quiet --temp 0 --threads 1 -p ab --on-overflow shift -n " +
        std::to_string(tokens) + " 2>" + errors;
    Answer answer;
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return answer;
    EXPECT_EQ(::fcntl(::fileno(pipe), F_SETPIPE_SZ, 4096), 4096);
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
      answer.text.push_back(static_cast<char>(c));
      if (answer.text.size() == 1) after_one();
    }
    const int status = ::pclose(pipe);
    answer.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::ifstream file(errors);
    std::string more;
    std::getline(file, answer.error);
    answer.more_errors = static_cast<bool>(std::getline(file, more));
    return answer;
  }

  void expect_changed(const Answer& answer) {
    EXPECT_EQ(answer.exit_code, 1);
    EXPECT_EQ(answer.error.rfind("error[E_CHANGED]: m.gguf: the model file was changed or cut", 0),
              0U)
        << answer.error;
    EXPECT_FALSE(answer.more_errors);
  }

  test::TempDir folder_;
  std::string path_;
};

TEST_F(ChangedFile, ACutEndsTheAnswerWithOneSentence) {
  const Answer cut = answer(200'000, [&] { ASSERT_EQ(::truncate(path_.c_str(), 65'536), 0); });
  EXPECT_LT(cut.text.size(), 100'000U) << "it went on";
  expect_changed(cut);
}

TEST_F(ChangedFile, AWriteIsSaidAtTheEndOfTheAnswer) {
  expect_changed(answer(kTokens, [&] {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-4, std::ios::end);
    file << "....";
  }));
}

TEST_F(ChangedFile, ANewFileUnderTheNameChangesNothing) {
  const std::string whole = answer(kTokens, [] {}).text;
  EXPECT_GE(whole.size(), std::size_t{kTokens});
  const Answer replaced = answer(
      kTokens, [&] { std::filesystem::rename(folder_.write("new.gguf", "no model"), path_); });
  EXPECT_EQ(replaced.exit_code, 0) << replaced.error;
  EXPECT_EQ(replaced.text, whole);
}

}  // namespace
}  // namespace orrery::cli
