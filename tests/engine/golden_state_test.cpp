// The golden models whose layers keep states, opened as users do: reuse across pages, and figures.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/golden_model.hpp"
#include "engine/model.hpp"
#include "engine/session.hpp"
#include "support/paths.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

class GoldenState : public testing::TestWithParam<golden::Param> {
 protected:
  void SetUp() override {
    const std::string folder = golden::folder_of(GetParam().name);
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
    const auto json = nlohmann::json::parse(std::ifstream(folder + "/golden.json"));
    for (const auto& prompt : json["prompts"]) {
      for (const char* part : {"ids", "greedy"}) {
        const Tokens more = prompt[part];
        tokens_.insert(tokens_.end(), more.begin(), more.end());
      }
    }
    ModelOptions options;
    options.threads = 2;
    options.deterministic = true;
    options.max_sequences = 2;
    auto model = Model::open(GetParam().path(), options, storage::system_io());
    ASSERT_TRUE(model) << model.error().message;
    model_ = *model;
  }
  static std::vector<float> evaluate(Session& session, const Tokens& tokens) {
    const auto result = session.evaluate(tokens);
    EXPECT_TRUE(result) << result.error().message;
    return {result->logits.begin(), result->logits.end()};
  }

  Tokens tokens_;  // of all prompts and their answers
  std::shared_ptr<const Model> model_;
};

// So close behind the snapshot that what was before it counts.
TEST_P(GoldenState, PrefixReuseEqualsRecomputation) {
  ASSERT_GT(tokens_.size(), 160U);
  const auto session = *Session::open(model_->executor());
  evaluate(*session, tokens_);
  Tokens edited(tokens_.begin(), tokens_.begin() + 135);
  edited[133] = edited[133] == 7 ? 8 : 7;
  const auto reused = session->evaluate(edited);
  ASSERT_TRUE(reused);
  EXPECT_EQ(reused->reused, 128U);
  const std::vector<float> logits(reused->logits.begin(), reused->logits.end());
  const auto fresh = *Session::open(model_->executor());
  EXPECT_EQ(evaluate(*fresh, edited), logits);
  fresh->clear();
  EXPECT_NE(evaluate(*fresh, Tokens(edited.begin() + 128, edited.end())), logits);
}

TEST_P(GoldenState, StatesAreInTheFigures) {
  std::uint64_t states = 0;
  for (const plan::CacheGroup& group : model_->executor()->decode_plan().groups) {
    if (group.kind == plan::CacheKind::state) states += group.page_bytes();
  }
  EXPECT_GT(states, 0U);
  EXPECT_EQ(model_->info().state_bytes, states);
  EXPECT_EQ(model_->info().snapshot_bytes, states * kMaxSnapshots);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenState,
                         testing::ValuesIn(golden::both({"lfm2", "mamba2", "qwen3-next"})),
                         golden::print_name);

}  // namespace
}  // namespace orrery::engine
