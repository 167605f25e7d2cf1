// `orrery bench load`, `bench copies`, `bench restore` and `inspect memory` as scripts use them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace orrery::cli {
namespace {

using test::Outcome;
using test::run_program;

std::string tiny_model() {
  return test::shared_dir() + "/data/golden/llama/llama-f16.gguf";
}

class Loading : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(tiny_model())) GTEST_SKIP() << "needs ../shared/data/golden";
  }
};

TEST_F(Loading, BenchLoadTimesEveryWayWarmAndCold) {
  const Outcome outcome = run_program({"bench", "load", tiny_model(), "--repeat", "2", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto rows = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(rows.size(), 6U);
  for (const auto& row : rows) {
    EXPECT_EQ(row["starts"].size(), 2U);
    for (const auto& start : row["starts"]) {
      EXPECT_GT(start["open_seconds"], 0);
      EXPECT_GE(start["total_seconds"], start["open_seconds"]);
      EXPECT_NEAR(start["total_seconds"],
                  start["open_seconds"].get<double>() + start["prompt_seconds"].get<double>(),
                  1e-9);
    }
  }
  EXPECT_EQ(rows[0]["load"], "map");
  EXPECT_EQ(rows[0]["cold"], false);
  EXPECT_EQ(rows[5]["load"], "direct");
  EXPECT_EQ(rows[5]["cold"], true);
  const Outcome table = run_program({"bench", "load", tiny_model(), "--repeat", "1"});
  EXPECT_NE(table.out.find("auto   warm"), std::string::npos) << table.out;
}

TEST_F(Loading, BenchCopiesCountsWhatPackingRewrites) {
  const auto moved = [](const std::string& out, const std::string& stage) {
    const std::size_t at = out.find(stage);
    if (at == std::string::npos) return -1;
    return static_cast<int>(std::strtol(out.c_str() + at + 34, nullptr, 10));
  };
  const test::TempDir folder;
  const std::string quantized = folder.file("q.gguf");
  const Outcome made = run_program({"quantize", tiny_model(), quantized, "Q8_0", "--no-eval"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const Outcome packed = run_program({"bench", "copies", quantized, "--layout", "packed"});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_EQ(moved(packed.out, "disk to memory"), 0) << packed.out;
  EXPECT_GT(moved(packed.out, "weights, packed"), 0) << packed.out;
  const Outcome file = run_program({"bench", "copies", quantized, "--layout", "file"});
  EXPECT_EQ(moved(file.out, "weights, packed"), 0) << file.out;
  EXPECT_EQ(moved(file.out, "weights, used"), 0) << file.out;
}

TEST_F(Loading, BenchRestoreGoesOnFromASavedContext) {
  const test::TempDir folder;
  const Outcome outcome =
      run_program({"bench", "restore", tiny_model(), "--tokens", "100", "--repeat", "2", "--json"},
                  "", {"TMPDIR=" + folder.path()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto rows = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(rows.size(), 2U);
  for (const auto& row : rows) {
    EXPECT_EQ(row["tokens"], 100);
    EXPECT_GT(row["mapped_bytes"].get<int>() + row["read_bytes"].get<int>(), 0);
    EXPECT_GT(row["restore_seconds"], 0);
    EXPECT_GT(row["token_seconds"], 0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const Outcome nowhere = run_program({"bench", "restore", tiny_model(), "--tokens", "100"}, "",
                                      {"TMPDIR=" + folder.file("none")});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_NE(nowhere.err.find("TMPDIR"), std::string::npos) << nowhere.err;
}

TEST_F(Loading, InspectMemorySaysHowTheFileLies) {
  const Outcome outcome = run_program({"inspect", "memory", tiny_model()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("in the page cache"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("--load direct would read by "), std::string::npos) << outcome.out;
}

TEST_F(Loading, EveryWayAnswersAlike) {
  std::string first;
  for (const std::string way : {"map", "direct", "auto"}) {
    const Outcome outcome = run_program(
        {"run", tiny_model(), "--raw", "-n", "6", "--temp", "0", "-p", "ab", "--load", way});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const bool is_direct = outcome.err.find("read by ") != std::string::npos;
    EXPECT_EQ(is_direct, way == "direct") << outcome.err;
    if (first.empty()) first = outcome.out;
    EXPECT_EQ(outcome.out, first);
  }
  EXPECT_EQ(run_program({"run", tiny_model(), "-p", "ab", "--load", "fast"}).exit_code, 2);
}

}  // namespace
}  // namespace orrery::cli
