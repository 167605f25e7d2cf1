// The plans that families record: steps after fusion, cache groups, bindings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "model/fake_checkpoint.hpp"
#include "model/model.hpp"
#include "plan/passes.hpp"
#include "support/paths.hpp"

namespace orrery::model {
namespace {

using plan::CacheKind;
using plan::Phase;

Result<LoadedModel> open_golden(const std::string& name, bool gguf) {
  const std::string folder = test::shared_dir() + "/data/golden/" + name;
  ORRERY_TRY(auto checkpoint,
             storage::Checkpoint::open(gguf ? folder + "/" + name + "-f16.gguf" : folder,
                                       storage::system_io()));
  return load_model(std::move(checkpoint));
}

RecordOptions options_for(Phase phase, std::uint32_t context = 128) {
  RecordOptions options;
  options.phase = phase;
  options.capacity = {8, 2, 4};
  options.context_length = context;
  return options;
}

plan::Plan fused(const plan::Plan& plan) {
  return plan::fuse(plan::drop_taps(plan), [](const auto&, const auto&) { return true; });
}

class GoldenFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = test::shared_dir() + "/data/golden";
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  }
};

TEST(Record, LlamaLayerIsEightStepsInEveryPhase) {
  const auto model = load_model(fake_llama());
  ASSERT_TRUE(model) << model.error().message;
  for (const Phase phase : {Phase::decode, Phase::prefill, Phase::embed}) {
    for (const bool deterministic : {false, true}) {
      RecordOptions options = options_for(phase);
      options.deterministic = deterministic;
      const auto plan = model->record(options);
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_EQ(std::ranges::count(fused(*plan).steps, 0, &plan::Step::layer), 8);
    }
  }
}

TEST(Record, EmbedEndsWithTheVectorOfTheText) {
  const auto model = load_model(fake_llama());
  ASSERT_TRUE(model);
  const auto plan = model->record(options_for(Phase::embed));
  ASSERT_TRUE(plan);
  const plan::Buffer& result = plan->buffers[plan->result];
  EXPECT_EQ(result.cols, 64U);
  EXPECT_EQ(result.rows, plan::kOutputs);
  EXPECT_EQ(plan->steps.back().op, plan::Op::pool);
  EXPECT_EQ(plan->steps.back().pool_kind, plan::PoolKind::last);
  EXPECT_EQ(std::ranges::count(plan->steps, plan::Op::logits, &plan::Step::op), 0);
}

TEST(Record, TiedHeadIsTheEmbedding) {
  const auto fake = fake_llama();
  const auto tied = load_model(fake);
  ASSERT_TRUE(tied);
  const auto plan = tied->record(options_for(Phase::decode));
  EXPECT_EQ(plan->steps.back().w[0], plan->steps.front().w[0]);
  fake->add("output.weight", DType::q8_0, {64, 32});
  const auto untied = load_model(fake);
  ASSERT_TRUE(untied);
  const auto other = untied->record(options_for(Phase::decode));
  EXPECT_EQ(other->weights[other->steps.back().w[0]].tensor, "output.weight");
}

TEST(Record, BindPointsIntoTheFile) {
  const auto fake = fake_llama();
  const auto model = load_model(fake);
  ASSERT_TRUE(model);
  const auto plan = model->record(options_for(Phase::decode));
  const auto pointers = model->bind(*plan);
  ASSERT_TRUE(pointers);
  for (std::size_t i = 0; i < plan->weights.size(); ++i) {
    EXPECT_EQ((*pointers)[i], fake->find(plan->weights[i].tensor)->data);
  }
}

TEST_F(GoldenFolder, WindowLayersHaveTheirOwnGroup) {
  const auto model = open_golden("gemma3", true);
  ASSERT_TRUE(model) << model.error().message;
  const auto plan = model->record(options_for(Phase::decode));
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->groups.size(), 2U);
  EXPECT_EQ(plan->groups[0].kind, CacheKind::window);
  EXPECT_EQ(plan->groups[0].window, 16U);
  EXPECT_EQ(plan->groups[0].layers, 5U);
  EXPECT_EQ(plan->groups[1].kind, CacheKind::full);
  EXPECT_EQ(plan->groups[1].layers, 1U);
  EXPECT_EQ(plan->constants.size(), 2U);  // two rotary bases
  // A context that the window covers needs no second kind.
  const auto small = model->record(options_for(Phase::decode, 16));
  ASSERT_EQ(small->groups.size(), 1U);
  EXPECT_EQ(small->groups[0].layers, 6U);
  EXPECT_EQ(small->groups[0].kind, CacheKind::full);
}

TEST_F(GoldenFolder, PhasesShareTheirGroups) {
  for (const char* name : {"gemma2", "gemma3", "llama"}) {
    const auto model = open_golden(name, false);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->record(options_for(Phase::decode))->groups,
              model->record(options_for(Phase::prefill))->groups);
  }
}

// phi3's gate and up are rows of one tensor; nothing is copied.
TEST_F(GoldenFolder, FusedMatricesAreSlicedInPlace) {
  const auto model = open_golden("phi3", true);
  ASSERT_TRUE(model) << model.error().message;
  const auto plan = model->record(options_for(Phase::decode));
  const auto pointers = model->bind(*plan);
  ASSERT_TRUE(pointers);
  const storage::TensorInfo* whole = model->checkpoint().find("blk.0.ffn_up.weight");
  std::vector<std::ptrdiff_t> offsets;
  for (std::size_t i = 0; i < plan->weights.size(); ++i) {
    if (plan->weights[i].tensor == whole->name) offsets.push_back((*pointers)[i] - whole->data);
  }
  EXPECT_EQ(offsets, (std::vector<std::ptrdiff_t>{0, 224 * 128 * 2}));
  EXPECT_EQ(model->copied_bytes(), 0U);
}

TEST_F(GoldenFolder, Gpt2MatricesOfSafetensorsAreTurned) {
  const auto model = open_golden("gpt2", false);
  ASSERT_TRUE(model) << model.error().message;
  const auto plan = model->record(options_for(Phase::decode));
  const auto pointers = model->bind(*plan);
  ASSERT_TRUE(pointers);
  const auto found =
      std::ranges::find(plan->weights, "blk.0.attn_qkv.weight", &plan::Weight::tensor);
  const auto index = static_cast<std::size_t>(found - plan->weights.begin());
  std::uint16_t ours = 0, theirs = 0;  // row 5, column 3
  std::memcpy(&ours, (*pointers)[index] + (5 * 128 + 3) * 2, 2);
  std::memcpy(
      &theirs,
      model->checkpoint().find("transformer.h.0.attn.c_attn.weight")->data + (3 * 384 + 5) * 2, 2);
  EXPECT_EQ(ours, theirs);
  EXPECT_GT(model->copied_bytes(), 128U * 384 * 2);
}

TEST_F(GoldenFolder, LearnedPositionsEndTheContext) {
  const auto model = open_golden("gpt2", true);
  ASSERT_TRUE(model);
  EXPECT_TRUE(model->record(options_for(Phase::decode, 256)));
  const auto longer = model->record(options_for(Phase::decode, 257));
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().kind, "E_CONTEXT");
}

}  // namespace
}  // namespace orrery::model
