// `orrery embed` on the tiny models of tests/golden/make_dense.py.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/refusal.hpp"
#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::run_program;

std::string bert() {
  return test::source_dir() + "/tests/golden/bert";
}

std::vector<std::vector<double>> rows_of(const std::string& text) {
  std::vector<std::vector<double>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    rows.emplace_back();
    for (double x = 0; numbers >> x;) rows.back().push_back(x);
  }
  return rows;
}

double length(const std::vector<double>& row) {
  double sum = 0.0;
  for (const double x : row) sum += x * x;
  return std::sqrt(sum);
}

// A copy of the model with one file written anew.
std::string changed(const test::TempDir& folder, const std::string& file, const std::string& text) {
  const std::string copy = folder.file("model");
  fs::copy(bert(), copy, fs::copy_options::recursive);
  std::ofstream(copy + "/" + file, std::ios::binary) << text;
  return copy;
}

TEST(Embed, WritesAVectorALine) {
  const Outcome outcome = run_program({"embed", bert(), "hello world", "the world"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto rows = rows_of(outcome.out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].size(), 64U);
  EXPECT_NEAR(length(rows[1]), 1.0, 1e-5);
  EXPECT_NE(rows[0], rows[1]);
  const test::TempDir folder;
  const std::string lines = folder.write("lines", "hello world\r\nthe world\n");
  EXPECT_EQ(run_program({"embed", bert(), "--file", lines}).out, outcome.out);
  EXPECT_EQ(run_program({"embed", bert(), "-f", "-"}, "hello world\nthe world").out, outcome.out);
}

TEST(Embed, JsonHasTheFormOfOpenAi) {
  const std::vector<std::string> texts = {"hello world", "the"};
  const Outcome outcome = run_program(
      {"embed", bert() + "/bert-f16.gguf", "--json", "--dimensions", "16", texts[0], texts[1]});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << outcome.out;
  EXPECT_EQ(json["object"], "list");
  EXPECT_EQ(json["model"], "bert");
  ASSERT_EQ(json["data"].size(), 2U);
  EXPECT_EQ(json["data"][1]["index"], 1);
  EXPECT_EQ(json["data"][1]["embedding"].size(), 16U);
  EXPECT_EQ(json["usage"]["total_tokens"], 7);  // [CLS] hello world [SEP], [CLS] the [SEP]
  const std::vector<double> cut = json["data"][0]["embedding"];
  EXPECT_NEAR(length(cut), 1.0, 1e-5);
  // The same model as safetensors, with its own tokenizer.
  const auto rows = rows_of(run_program({"embed", bert(), "--dimensions", "16", texts[0]}).out);
  ASSERT_EQ(rows.size(), 1U);
  for (std::size_t i = 0; i < cut.size(); ++i) EXPECT_NEAR(rows[0][i], cut[i], 1e-3);
}

TEST(Embed, ALongTextIsRefusedUnlessItMayBeCut) {
  std::string words = "the", fits = "the";
  for (int i = 1; i < 300; ++i) words += " the";
  for (int i = 1; i < 126; ++i) fits += " the";
  const Outcome refused = run_program({"embed", bert(), "hello", words});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("error[E_CONTEXT]: text 2: the text has 302 tokens, the model reads "
                             "128 at most"),
            std::string::npos)
      << refused.err;
  const Outcome cut = run_program({"embed", bert(), "--truncate", words});
  EXPECT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_NE(cut.err.find("text 1 is cut by 174 tokens"), std::string::npos) << cut.err;
  EXPECT_EQ(cut.out, run_program({"embed", bert(), fits}).out);
}

TEST(Embed, TakesADecoderToo) {
  const std::string llama = test::shared_dir() + "/data/golden/llama/llama-f16.gguf";
  if (!fs::exists(llama)) GTEST_SKIP() << llama << " is absent";
  const Outcome last = run_program({"embed", llama, "ab"});
  EXPECT_EQ(last.exit_code, 0) << last.err;
  const Outcome mean = run_program({"embed", llama, "ab", "--pooling", "mean", "--no-normalize"});
  EXPECT_EQ(mean.exit_code, 0) << mean.err;
  EXPECT_GT(std::abs(length(rows_of(mean.out).at(0)) - 1.0), 1e-3);
}

TEST(Embed, AnEncoderWritesNoText) {
  const Outcome run = run_program({"run", bert(), "-p", "hello"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find("error[E_ENCODER]"), std::string::npos) << run.err;
  EXPECT_EQ(run_program({"bench", bert()}).exit_code, 1);
  const Outcome plan = run_program({"inspect", "plan", bert()});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_NE(plan.out.find("plan bert embed: tokens 128"), std::string::npos) << plan.out;
}

TEST(Embed, WrongUsageSaysWhatIsMissing) {
  EXPECT_EQ(run_program({"embed", bert()}).exit_code, 2);
  EXPECT_EQ(run_program({"embed", bert(), "a", "--dimensions", "65"}).exit_code, 2);
  EXPECT_EQ(run_program({"embed", bert(), "a", "--pooling", "max"}).exit_code, 2);
}

struct Bad {
  const char *file, *text, *kind, *says;
};

TEST(Embed, RefusesModulesThatAreNotRight) {
  const Bad cases[] = {
      {"modules.json", "{}", "E_MODULES", "modules.json: is no JSON list"},
      {"modules.json", "[1]", "E_MODULES", "a step is no JSON object"},
      {"modules.json", R"([{"path":"../x","type":"m.Pooling"}])", "E_MODULES", "in \"../x\""},
      {"modules.json", R"([{"path":"2_CNN","type":"m.CNN"}])", "E_HPARAM", "type CNN"},
      {"modules.json", R"([{"path":"9","type":"m.Dense"}])", "E_NOTFOUND", "model.safetensors"},
      {"modules.json", R"([{"path":"9","type":"m.Pooling"}])", "E_HPARAM", "9/config.json"},
      {"1_Pooling/config.json", R"({"pooling_mode_max_tokens":true})", "E_HPARAM",
       "pooling by pooling_mode_max_tokens is not supported"},
      {"1_Pooling/config.json",
       R"({"pooling_mode_mean_tokens":true,"pooling_mode_cls_token":true})", "E_HPARAM",
       "several modes"},
  };
  for (const Bad& bad : cases) {
    const test::TempDir folder;
    const std::string model = changed(folder, bad.file, bad.text);
    expect_refused({"embed", model, "a"}, model, {.kind = bad.kind, .says = bad.says});
  }
}

}  // namespace
}  // namespace orrery::cli
