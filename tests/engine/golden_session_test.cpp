// Sessions on golden models: equal bits however a prompt is cut, with and without reuse, alone and in
// a batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/model.hpp"
#include "engine/session.hpp"
#include "support/paths.hpp"
#include "support/sanitized.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

std::string folder_of(const std::string& name) {
  const std::string own = test::source_dir() + "/tests/golden/" + name;
  return std::filesystem::exists(own) ? own : test::shared_dir() + "/data/golden/" + name;
}

class GoldenSession : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = folder_of(GetParam());
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
    ModelOptions options;
    options.threads = 2;
    options.context = 128;
    options.deterministic = true;
    options.max_sequences = 6;
    const auto file_name = folder + "/" + GetParam() + "-f16.gguf";
    auto model = Model::open(file_name, options, storage::system_io());
    ASSERT_TRUE(model) << model.error().message;
    model_ = *model;
  }

  std::unique_ptr<Session> open() const { return *Session::open(model_->executor()); }
  static std::vector<float> evaluate(Session& session, std::span<const text::TokenId> tokens) {
    const auto result = session.evaluate(tokens);
    EXPECT_TRUE(result) << result.error().message;
    return {result->logits.begin(), result->logits.end()};
  }
  std::span<const text::TokenId> longest() const {
    return std::ranges::max(prompts_, {}, &Tokens::size);
  }

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
  other[20] = other[20] == 7 ? 8 : 7;
  EXPECT_NE(evaluate(*cut, other), expected);
  const auto again = cut->evaluate(tokens);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->reused, 20U);
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
                         testing::Values("deepseek-v2", "deepseek-v2-lite", "deepseek-v3",
                                         "deepseek-yarn"));

}  // namespace
}  // namespace orrery::engine
