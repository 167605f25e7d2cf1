// `orrery run`, `eval` and `bench` on a small real or golden model, as scripts use them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

namespace orrery::cli {
namespace {

using test::Outcome;
using test::run_program;

// A tiny golden model with a tokenizer: quick on every machine.
std::string tiny_model() {
  return test::shared_dir() + "/data/golden/llama/llama-f16.gguf";
}

class Commands : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(tiny_model())) GTEST_SKIP() << "needs ../shared/data/golden";
  }
};

TEST_F(Commands, RawPromptContinuesTheTextOnStdoutAlone) {
  const std::vector<std::string> base = {"run", tiny_model(), "--raw", "-n", "6", "--temp", "0"};
  std::vector<std::string> with_prompt = base;
  with_prompt.insert(with_prompt.end(), {"-p", "ab"});
  const Outcome outcome = run_program(with_prompt);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out, "");
  EXPECT_NE(outcome.err.find("tok/s"), std::string::npos) << outcome.err;
  // The same from a pipe, from a file, and as an argument; and the same each time.
  EXPECT_EQ(run_program(base, "ab").out, outcome.out);
  const test::TempDir folder;
  std::vector<std::string> with_file = base;
  with_file.insert(with_file.end(), {"-f", folder.write("prompt", "ab"), "--quiet"});
  const Outcome quiet = run_program(with_file);
  EXPECT_EQ(quiet.out, outcome.out);
  EXPECT_EQ(quiet.err, "");
}

TEST_F(Commands, AGrammarOrSchemaHoldsTheAnswer) {
  const std::vector<std::string> base = {"run", tiny_model(), "--raw", "-p", "ab", "-n", "200"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  const Outcome grammar = with({"--grammar", "root ::= \"ab\"{3}"});
  EXPECT_EQ(grammar.out, "ababab") << grammar.err;
  const Outcome schema = with({"-j", R"({"type":"object","properties":{"a":{"enum":["x","y"]}},
                                         "required":["a"]})"});
  const auto json = nlohmann::json::parse(schema.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << schema.out << schema.err;
  EXPECT_TRUE(json["a"] == "x" || json["a"] == "y") << schema.out;
  const Outcome wrong = with({"--grammar", "root ::= x"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_NE(wrong.err.find("error[E_GRAMMAR]"), std::string::npos) << wrong.err;
  EXPECT_NE(with({"-j", "{\"not\":{}}"}).err.find("$.not"), std::string::npos);
  EXPECT_EQ(with({"-j", "{}", "--grammar", "root ::= \"a\""}).exit_code, 2);
}

TEST_F(Commands, AModelWithoutATemplateSaysSo) {
  const Outcome outcome = run_program({"run", tiny_model(), "-p", "ab", "-n", "2", "--seed", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("no chat template"), std::string::npos) << outcome.err;
}

TEST_F(Commands, APromptLongerThanTheContextIsAnErrorUnlessShifted) {
  const std::string text(4000, 'a');
  std::vector<std::string> arguments = {"run", tiny_model(), "--raw",  "-c", "64",
                                        "-n",  "3",          "--temp", "0"};
  const Outcome refused = run_program(arguments, text);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("error[E_CONTEXT]"), std::string::npos) << refused.err;
  arguments.insert(arguments.end(), {"--on-overflow", "shift"});
  EXPECT_EQ(run_program(arguments, text).exit_code, 0);
}

// A packed model holds each weight once: the pages of its file are let go of.
TEST(PackedWeights, TakeThePlaceOfTheFilesPages) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
  const auto peak = [](const char* layout) {
    const Outcome outcome = run_program({"run", "-p", "ab", "-n", "2", "--layout", layout});
    return outcome.exit_code == 0 ? outcome.peak_memory : 0;
  };
  const std::uint64_t file = peak("file"), packed = peak("packed");
  if (file == 0 && packed == 0) GTEST_SKIP() << "the default model is not on this machine";
  EXPECT_GT(file, 0U);
  EXPECT_GT(packed, 0U);
  EXPECT_LT(packed, file + (16U << 20));
}

TEST_F(Commands, EvalLogitsPrintsOneJsonObject) {
  const Outcome outcome = run_program(
      {"eval", "logits", tiny_model(), "--ids", "1 2 3", "--top", "4", "--greedy", "5", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.out;
  EXPECT_EQ(json["top"].size(), 4U);
  EXPECT_EQ(json["greedy"].size(), 5U);
  EXPECT_EQ(json["greedy"][0], json["top"][0][0]);
  EXPECT_GT(json["logsumexp"].get<double>(), json["top"][0][1].get<double>());
  for (const char* ids : {"1 x", "-1", "", "999999"}) {
    EXPECT_NE(run_program({"eval", "logits", tiny_model(), "--ids", ids}).exit_code, 0) << ids;
  }
}

TEST_F(Commands, EvalEndsWithTheFigures) {
  const test::TempDir folder;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "word " + std::to_string(i * i) + " ";
  const std::string file = folder.write("text", text);
  const Outcome ppl =
      run_program({"eval", "perplexity", tiny_model(), "--file", file, "--ctx", "64"});
  ASSERT_EQ(ppl.exit_code, 0) << ppl.err;
  EXPECT_NE(ppl.out.find("\nperplexity "), std::string::npos) << ppl.out;
  const Outcome kl = run_program({"eval", "kl", tiny_model(), "--file", file, "--ctx", "64"});
  ASSERT_EQ(kl.exit_code, 0) << kl.err;
  EXPECT_NE(kl.out.find("\nkl_mean "), std::string::npos) << kl.out;
  EXPECT_NE(kl.out.find("\ntop1 "), std::string::npos) << kl.out;
  // The cache alone: nothing for f16, something for bf16 values.
  const auto cache_kl = [&](const char* types) {
    return run_program({"eval", "kl", tiny_model(), "--reference", tiny_model(), "--kv-type", types,
                        "--file", file, "--ctx", "64"});
  };
  const Outcome same = cache_kl("f16");
  EXPECT_NE(same.out.find("\nkl_max 0.000e+00\n"), std::string::npos) << same.out << same.err;
  const Outcome brain = cache_kl("f16,bf16");
  EXPECT_NE(brain.out.find("\nkl_max "), std::string::npos) << brain.err;
  EXPECT_EQ(brain.out.find("\nkl_max 0.000e+00\n"), std::string::npos) << brain.out;
}

TEST_F(Commands, BenchPrintsJsonWithTheStableKeys) {
  const Outcome outcome = run_program({"bench", tiny_model(), "--prefill", "32", "--decode", "8",
                                       "--repeat", "2", "--sequences", "2,3", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(json.is_array()) << outcome.out;
  std::vector<std::string> tests;
  for (const auto& entry : json) {
    tests.push_back(entry["test"]);
    for (const char* key : {"tokens", "depth", "sequences", "threads", "tokens_per_second",
                            "bytes_per_token", "bandwidth_fraction", "peak_rss_bytes"}) {
      EXPECT_TRUE(entry.contains(key)) << key;
    }
    EXPECT_GT(entry["tokens_per_second"]["median"].get<double>(), 0);
    EXPECT_LE(entry["tokens_per_second"]["min"], entry["tokens_per_second"]["max"]);
  }
  EXPECT_EQ(tests, (std::vector<std::string>{"prefill", "first_token", "decode", "decode"}));
  EXPECT_EQ(json[2]["sequences"], 2);
  EXPECT_EQ(json[3]["sequences"], 3);
}

TEST_F(Commands, BenchMeasuresTextsOfModelsThatWriteNothing) {
  for (const char* name : {"bert", "bert-rank"}) {
    const std::string model = test::source_dir() + "/tests/golden/" + name;
    const Outcome outcome =
        run_program({"bench", model, "--prefill", "32", "--repeat", "2", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
    ASSERT_EQ(json.size(), 1U) << outcome.out;
    EXPECT_EQ(json[0]["test"], "embed");
    EXPECT_EQ(json[0]["tokens"], 32);
    EXPECT_GT(json[0]["tokens_per_second"]["min"].get<double>(), 0);
    const Outcome deep = run_program({"bench", model, "--prefill", "16", "--depth", "8"});
    EXPECT_NE(deep.exit_code, 0);
    EXPECT_NE(deep.err.find("--prefill alone"), std::string::npos) << deep.err;
  }
}

TEST_F(Commands, BenchStepsAddUp) {
  const std::vector<std::string> base = {"bench", tiny_model(), "--prefill", "40",     "--decode",
                                         "30",    "--repeat",   "2",         "--steps"};
  std::vector<std::string> with_json = base;
  with_json.push_back("--json");
  const auto json = nlohmann::json::parse(run_program(with_json).out, nullptr, false);
  ASSERT_TRUE(json.is_array());
  for (const std::size_t i : {0U, 2U}) {  // prefill and decode
    const auto& steps = json[i]["steps"];
    double sum =
        steps["barrier_seconds"].get<double>() + steps["bookkeeping_seconds"].get<double>();
    for (const auto& row : steps["rows"]) sum += row["seconds"].get<double>();
    EXPECT_NEAR(sum, steps["seconds"].get<double>(), 1e-9);
    EXPECT_GT(steps["rows"].size(), 8U);
    EXPECT_GT(json[i]["roofline"]["plain_read_bytes_per_second"].get<double>(), 0);
  }
  const Outcome outcome = run_program(base);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* expected : {"a prompt of 40: ", "a decoded token: ", "| attn_q/k/v ", "| head ",
                               "barriers and bookkeeping: ", "roofs, by all threads: "}) {
    EXPECT_NE(outcome.out.find(expected), std::string::npos) << expected << outcome.out;
  }
}

TEST_F(Commands, InspectPlanShowsStepsAndKernels) {
  const Outcome outcome = run_program({"inspect", "plan", tiny_model()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* expected : {"== decode", "== prefill", "rope_kv_write", "kernels:"}) {
    EXPECT_NE(outcome.out.find(expected), std::string::npos) << expected;
  }
}

TEST_F(Commands, InspectTokensPrintsOneLineOfIds) {
  const test::TempDir folder;
  const Outcome outcome = run_program(
      {"inspect", "tokens", tiny_model(), "--file", folder.write("text", "ab\ncd"), "--ids"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  EXPECT_EQ(outcome.out.find_first_not_of("0123456789 \n"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace orrery::cli
