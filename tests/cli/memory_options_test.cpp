// --seal, --pin and --memory of `orrery run`.
#include <gtest/gtest.h>

#include "cli/refusal.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::cli {
namespace {

using test::Outcome;
using test::run_program;

class MemoryOptions : public testing::Test {
 protected:
  Outcome run(const std::vector<std::string>& options) const {
    std::vector<std::string> arguments = {"run",    path, "--raw", "-n", "6",
                                          "--temp", "0",  "-p",    "ab"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments);
  }

  test::TempDir folder;
  std::string path = folder.write("m.gguf", test::TinyGguf(2).quantize(DType::q4_0).build());
};

TEST_F(MemoryOptions, SealedModelsAnswerAsOthersDo) {
  const Outcome plain = run({}), sealed = run({"--seal"});
  ASSERT_EQ(sealed.exit_code, 0) << sealed.err;
  EXPECT_EQ(sealed.out, plain.out);
  EXPECT_NE(sealed.err.find("into a sealed memory file"), std::string::npos) << sealed.err;
  EXPECT_NE(sealed.err.find("packed in a sealed memory file"), std::string::npos) << sealed.err;
  EXPECT_EQ(run({"--seal", "--load", "map"}).exit_code, 2);
}

TEST_F(MemoryOptions, PinningSaysWhatBecameOfIt) {
  const Outcome pinned = run({"--pin"});
  ASSERT_EQ(pinned.exit_code, 0) << pinned.err;
  EXPECT_NE(pinned.err.find("MiB pinned"), std::string::npos) << pinned.err;
}

TEST_F(MemoryOptions, WhatDoesNotFitIsRefused) {
  expect_refused({"run", path, "-p", "ab", "--memory", "1K"}, path,
                 {.kind = "E_MEMORY", .says = "leaves nothing of 1024 for the cache"});
  expect_refused({"run", path, "-p", "ab", "--memory", "1K", "--load", "direct"}, path,
                 {.kind = "E_MEMORY", .says = "leaves nothing of 1024 for the cache"});
  EXPECT_EQ(run({"--memory", "64M"}).exit_code, 0);
  for (const char* wrong : {"", "x", "1X", "-1", "0", "1e30", "nan"}) {
    EXPECT_EQ(run({"--memory", wrong}).exit_code, 2) << wrong;
  }
}

}  // namespace
}  // namespace orrery::cli
