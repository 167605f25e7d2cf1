// orrery quantize and imatrix as a user runs them: what they print, what they refuse, and that a
// run that dies leaves no file.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "cli/refusal.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::cli {
namespace {

using test::run_program;

std::size_t files_in(const std::string& folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

TEST(QuantizeCommand, WritesAndCompares) {
  const test::TempDir folder;
  const std::string in = folder.write("in.gguf", test::TinyGguf().build());
  const std::string text = folder.write("text", std::string(300, 'a') + std::string(300, 'b'));
  const std::string out = folder.file("out.gguf"), imatrix = folder.file("imatrix.gguf");
  const auto measured = run_program({"imatrix", in, "--file", text, "-o", imatrix, "-c", "64"});
  EXPECT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_NE(measured.out.find("weights 8\n"), std::string::npos) << measured.out;
  const auto done =
      run_program({"quantize", in, out, "q8_0", "--imatrix", imatrix, "--eval", text, "-c", "64"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  for (const char* line : {"before 0.", "after 0.", "bits per weight", "8 Q8_0", "\nperplexity ",
                           "\nperplexity_before ", "\nkl_mean "}) {
    EXPECT_NE(done.out.find(line), std::string::npos) << line << done.out;
  }
  const auto again = run_program({"quantize", out, folder.file("again.gguf"), "Q4_0", "--no-eval"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_NE(again.err.find("quantized already"), std::string::npos) << again.err;
  EXPECT_EQ(again.out.find("perplexity"), std::string::npos);
}

TEST(QuantizeCommand, RefusesInOneSentence) {
  const test::TempDir folder;
  const std::string in = folder.write("in.gguf", test::TinyGguf().build());
  const std::string out = folder.file("out.gguf");
  expect_refused({"quantize", in, in, "Q8_0"}, in, {"E_SAME", "name another file"});
  std::filesystem::create_symlink(in, folder.file("link"));
  expect_refused({"quantize", in, folder.file("link"), "Q8_0"}, in, {"E_SAME", "is the model"});
  expect_refused({"quantize", in, folder.file("no/out.gguf"), "Q8_0"}, in, {"E_NOTFOUND", "write"});
  expect_refused({"quantize", in, out, "Q8_0", "--imatrix", in}, in,
                 {"E_IMATRIX", "orrery imatrix"});
  expect_refused({"quantize", in, folder.path(), "Q8_0"}, in, {"E_NOTFILE", "name another"});
  const auto type = run_program({"quantize", in, out, "Q9_0"});
  EXPECT_EQ(type.exit_code, 2);
  EXPECT_NE(type.err.find("\"Q9_0\" is no type that can be written; these are: F32, F16, "),
            std::string::npos)
      << type.err;
  EXPECT_EQ(files_in(folder.path()), 2U);
}

// The system ends a process that writes beyond its limit, as a kill at this moment would.
TEST(QuantizeCommand, LeavesNoHalfFileWhenItDies) {
  const test::TempDir folder;
  const std::string in = folder.write("in.gguf", test::TinyGguf().build());
  const std::string out = folder.write("out.gguf", "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{64 << 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto died = run_program({"quantize", in, out, "F32"});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(died.exit_code, 128 + SIGXFSZ) << died.err;
  EXPECT_EQ(test::slurp(out), "old");
  EXPECT_EQ(files_in(folder.path()), 2U);
}

}  // namespace
}  // namespace orrery::cli
