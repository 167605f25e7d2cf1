// Sessions on golden models: equal bits however a prompt is cut, with and without reuse, alone and
// in a batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/golden_model.hpp"
#include "engine/model.hpp"
#include "engine/session.hpp"
#include "support/paths.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

namespace orrery::engine {
namespace {

using golden::folder_of;
using Tokens = std::vector<text::TokenId>;

Result<std::shared_ptr<const Model>> open_model(const std::string& file) {
  ModelOptions options;
  options.threads = 2;
  options.context = 128;
  options.deterministic = true;
  options.max_sequences = 6;
  return Model::open(file, options, storage::system_io());
}

std::vector<float> evaluate(Session& session, std::span<const text::TokenId> tokens) {
  const auto result = session.evaluate(tokens);
  EXPECT_TRUE(result) << result.error().message;
  return {result->logits.begin(), result->logits.end()};
}

class GoldenSession : public testing::TestWithParam<golden::Param> {
 protected:
  void SetUp() override {
    const std::string folder = folder_of(GetParam().name);
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
    std::ifstream file(folder + "/golden.json");
    const auto json = nlohmann::json::parse(file, nullptr, false);
    ASSERT_FALSE(json.is_discarded());
    for (const auto& item : json["prompts"]) {
      Tokens tokens = item["ids"];
      const Tokens greedy = item["greedy"];
      tokens.insert(tokens.end(), greedy.begin(), greedy.end());
      prompts_.push_back(tokens);
    }
    auto model = open_model(GetParam().gguf ? GetParam().path() : with_vocabulary(folder));
    ASSERT_TRUE(model) << model.error().message;
    model_ = *model;
  }

  // The folder; where it has no vocabulary, a copy with one for its 96 tokens.
  std::string with_vocabulary(const std::string& folder) const {
    if (std::filesystem::exists(folder + "/tokenizer.json")) return folder;
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(folder + "/" + file, temporary_.file(file));
    }
    nlohmann::json tokenizer = {{"model", {{"type", "BPE"}, {"merges", nlohmann::json::array()}}}};
    for (int id = 0; id < 96; ++id) {
      tokenizer["model"]["vocab"][std::string(1, static_cast<char>(' ' + id))] = id;
    }
    temporary_.write("tokenizer.json", tokenizer.dump());
    return temporary_.path();
  }
  std::unique_ptr<Session> open() const { return *Session::open(model_->executor()); }
  std::span<const text::TokenId> longest() const {
    return *std::ranges::max_element(prompts_, {}, &Tokens::size);
  }

  test::TempDir temporary_;
  std::vector<Tokens> prompts_;
  std::shared_ptr<const Model> model_;
};

TEST_P(GoldenSession, CutsAndReuseDoNotChangeBits) {
  const std::span<const text::TokenId> tokens = longest();
  const auto whole = open(), cut = open();
  const std::vector<float> expected = evaluate(*whole, tokens);
  for (const std::size_t n : {5U, 6U, 31U, 66U}) evaluate(*cut, tokens.first(n));
  EXPECT_EQ(evaluate(*cut, tokens), expected);
  Tokens other(tokens.begin(), tokens.end());  // another end, and back
  const std::size_t edit = tokens.size() - 10;
  other[edit] = other[edit] == 7 ? 8 : 7;
  EXPECT_NE(evaluate(*cut, other), expected);
  const auto again = cut->evaluate(tokens);
  ASSERT_TRUE(again);
  // A state is there at the ends of pages alone.
  EXPECT_EQ(again->reused, model_->info().state_bytes > 0 ? edit / 64 * 64 : edit);
  EXPECT_TRUE(std::ranges::equal(again->logits, expected));
}

TEST_P(GoldenSession, ABatchEqualsEachAlone) {
  std::vector<std::unique_ptr<Session>> alone, together;
  std::vector<Session*> batch;
  for (std::size_t i = 0; i < 3; ++i) {
    for (auto* sessions : {&alone, &together}) {
      sessions->push_back(open());
      evaluate(*sessions->back(), std::span(prompts_[i % prompts_.size()]).first(7 + i));
    }
    batch.push_back(together.back().get());
  }
  const Tokens next = {3, 5, 9};
  for (int step = 0; step < (test::kSanitized ? 2 : 8); ++step) {
    ASSERT_TRUE(decode_batch(batch, next));
    std::vector<std::vector<float>> rows;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto row = model_->executor()->logits(i);
      rows.emplace_back(row.begin(), row.end());
    }
    for (std::size_t i = 0; i < 3; ++i) {
      Session* session = alone[i].get();
      ASSERT_TRUE(decode_batch({&session, 1}, {&next[i], 1}));
      EXPECT_TRUE(std::ranges::equal(model_->executor()->logits(0), rows[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenSession,
                         testing::ValuesIn(golden::both({"llama",       "llama3-rope",
                                                         "mistral",     "smollm3",
                                                         "qwen2",       "qwen2-untied",
                                                         "qwen3",       "gemma2",
                                                         "gemma3",      "gemma3n",
                                                         "gemma4",      "gemma4-moe",
                                                         "phi3",        "glm4",
                                                         "olmo2",       "gpt2",
                                                         "llama4",      "mixtral",
                                                         "qwen2-moe",   "qwen3-moe",
                                                         "olmoe",       "granitemoe",
                                                         "gpt-oss",     "gpt-oss-mxfp4",
                                                         "deepseek-v2", "deepseek-v2-lite",
                                                         "deepseek-v3", "lfm2",
                                                         "mamba2",      "qwen3-next"})),
                         golden::print_name);
// Their GGUF files have no vocabulary.
INSTANTIATE_TEST_SUITE_P(Weights, GoldenSession,
                         testing::ValuesIn(golden::from_safetensors(
                             {"mistral-window", "qwen2-yarn", "phi2", "phi3-longrope", "cohere",
                              "cohere2", "starcoder2", "granite", "deepseek-yarn"})),
                         golden::print_name);

// llama.cpp runs a V3 file that names no gating function with softmax; here its bias tells.
TEST(GatingFunction, AFileWithoutItSaysWhatIsAssumedAndGivesTheSameAnswer) {
  const std::string path = folder_of("deepseek-v3") + "/deepseek-v3-f16.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::string key = "deepseek2.expert_gating_func";
  ASSERT_NE(bytes.find(key), std::string::npos);
  bytes[bytes.find(key) + key.size() - 1] = 'k';  // now a key that nobody knows
  const test::TempDir folder;
  folder.write("unsaid.gguf", bytes);

  const auto said = open_model(path), unsaid = open_model(folder.file("unsaid.gguf"));
  ASSERT_TRUE(said && unsaid);
  EXPECT_TRUE((*said)->warnings().empty());
  ASSERT_EQ((*unsaid)->warnings().size(), 1U);
  EXPECT_NE((*unsaid)->warnings()[0].find("expert_gating_func is missing"), std::string::npos);
  const Tokens tokens = {0, 169, 489, 81, 206, 337, 28};
  const auto a = Session::open((*said)->executor()), b = Session::open((*unsaid)->executor());
  ASSERT_TRUE(a && b);
  EXPECT_EQ(evaluate(**a, tokens), evaluate(**b, tokens));
}

}  // namespace
}  // namespace orrery::engine
