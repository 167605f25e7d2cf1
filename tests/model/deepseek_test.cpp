// DeepSeek files that say too little, or what does not fit together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/fake_checkpoint.hpp"
#include "model/limits.hpp"
#include "model/model.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::uint64_t u(std::uint64_t value) {
  return value;
}

constexpr std::uint32_t kHidden = 64, kHeads = 2, kRank = 32, kRope = 16, kNope = 32, kValue = 64;

// A dense layer and one of experts; keys and values in one matrix as in older GGUF files.
std::shared_ptr<FakeCheckpoint> fake_deepseek(const std::vector<Change>& changes = {}) {
  std::vector<Change> all = {
      {"general.architecture", std::string_view("deepseek2")},
      {"deepseek2.block_count", u(2)},
      {"deepseek2.context_length", u(128)},
      {"deepseek2.embedding_length", u(kHidden)},
      {"deepseek2.feed_forward_length", u(96)},
      {"deepseek2.attention.head_count", u(kHeads)},
      {"deepseek2.attention.head_count_kv", u(kHeads)},
      {"deepseek2.attention.layer_norm_rms_epsilon", 1e-6},
      {"deepseek2.attention.kv_lora_rank", u(kRank)},
      {"deepseek2.attention.key_length", u(kNope + kRope)},
      {"deepseek2.attention.value_length", u(kValue)},
      {"deepseek2.rope.dimension_count", u(kRope)},
      {"deepseek2.leading_dense_block_count", u(1)},
      {"deepseek2.expert_count", u(4)},
      {"deepseek2.expert_used_count", u(2)},
      {"deepseek2.expert_feed_forward_length", u(32)},
      {"deepseek2.expert_shared_count", u(2)},
  };
  for (const Change& change : changes) {
    std::erase_if(all, [&](const Change& key) { return key.first == change.first; });
    const auto* text = std::get_if<std::string_view>(&change.second);
    if (text == nullptr || !text->empty()) all.push_back(change);
  }
  auto fake = std::make_shared<FakeCheckpoint>();
  for (const auto& [key, value] : all) fake->metadata_.insert(key, value);
  const auto matrix = [&](const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    fake->add(name + ".weight", DType::q8_0, {cols, rows});
  };
  const auto vector = [&](const std::string& name, std::uint64_t n) {
    fake->add(name + ".weight", DType::f32, {n});
  };
  matrix("token_embd", 32, kHidden);
  vector("output_norm", kHidden);
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    vector(layer + "attn_norm", kHidden);
    matrix(layer + "attn_q", kHeads * (kNope + kRope), kHidden);
    matrix(layer + "attn_kv_a_mqa", kRank + kRope, kHidden);
    vector(layer + "attn_kv_a_norm", kRank);
    matrix(layer + "attn_kv_b", kHeads * (kNope + kValue), kRank);
    matrix(layer + "attn_output", kHidden, kHeads * kValue);
    vector(layer + "ffn_norm", kHidden);
  }
  matrix("blk.0.ffn_gate", 96, kHidden);
  matrix("blk.0.ffn_up", 96, kHidden);
  matrix("blk.0.ffn_down", kHidden, 96);
  fake->add("blk.1.ffn_gate_inp.weight", DType::f32, {kHidden, 4});
  for (const char* name : {"gate", "up"}) {
    fake->add("blk.1.ffn_" + std::string(name) + "_exps.weight", DType::q8_0, {kHidden, 32, 4});
    matrix("blk.1.ffn_" + std::string(name) + "_shexp", 64, kHidden);
  }
  fake->add("blk.1.ffn_down_exps.weight", DType::q8_0, {32, kHidden, 4});
  matrix("blk.1.ffn_down_shexp", kHidden, 64);
  return fake;
}

void add_split_matrices(FakeCheckpoint& fake) {
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    fake.add(layer + "attn_k_b.weight", DType::q8_0, {kNope, kRank, kHeads});
    fake.add(layer + "attn_v_b.weight", DType::q8_0, {kRank, kValue, kHeads});
  }
}

Result<plan::Plan> decode_plan(const LoadedModel& model) {
  RecordOptions options;
  options.capacity = {4, 1, 1};
  options.context_length = 128;
  return model.record(options);
}

void expect_refused(std::shared_ptr<FakeCheckpoint> fake, const char* kind, const char* sentence) {
  const auto model = load_model(std::move(fake));
  ASSERT_FALSE(model) << sentence;
  EXPECT_EQ(model.error().kind, kind) << model.error().message;
  EXPECT_THAT(model.error().message, HasSubstr(sentence));
}

void expect_key_refused(const std::string& key, std::uint64_t value, const char* sentence) {
  expect_refused(fake_deepseek({{"deepseek2." + key, value}}), "E_HPARAM", sentence);
}

TEST(LoadDeepseek, CachesLatents) {
  const auto model = load_model(fake_deepseek());
  ASSERT_TRUE(model) << model.error().message;
  const auto plan = decode_plan(*model);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->groups.size(), 1U);
  const plan::CacheGroup& group = plan->groups[0];
  EXPECT_TRUE(group.v_in_k);
  EXPECT_EQ(group.kv_heads, 1U);
  EXPECT_EQ(group.k_dim, kRank + kRope);
  EXPECT_EQ(group.v_dim, kRank);
  EXPECT_EQ(group.page_bytes(), 2U * 64 * (kRank + kRope) * 2);
  EXPECT_EQ(model->copied_bytes(), 0U);
}

TEST(LoadDeepseek, HeadsMayHaveTheirMatricesApart) {
  auto fake = fake_deepseek({{"deepseek2.attention.key_length", u(kRank + kRope)},
                             {"deepseek2.attention.value_length", u(kRank)},
                             {"deepseek2.attention.key_length_mla", u(kNope + kRope)},
                             {"deepseek2.attention.value_length_mla", u(kValue)}});
  add_split_matrices(*fake);
  const auto with_both = load_model(fake);
  ASSERT_TRUE(with_both) << with_both.error().message;
  for (const char* joint : {"blk.0.attn_kv_b.weight", "blk.1.attn_kv_b.weight"}) {
    fake->remove(joint);
  }
  const auto model = load_model(fake);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->hparams().latent.nope_dim, kNope);
  EXPECT_EQ(model->copied_bytes(), 0U);
  fake->replace("blk.1.attn_v_b.weight", DType::q8_0, {kRank, kValue, kHeads + 1});
  expect_refused(fake, "E_SHAPE",
                 "tensor blk.1.attn_v_b.weight has shape (3, 64, 32), the parameters ask for "
                 "(2, 64, 32)");
  fake->remove("blk.1.attn_v_b.weight");
  expect_refused(fake, "E_TENSOR", "tensor blk.1.attn_v_b.weight is missing");
}

TEST(LoadDeepseek, SizesThatDoNotFit) {
  expect_refused(fake_deepseek({{"deepseek2.attention.kv_lora_rank", std::string_view()}}),
                 "E_HPARAM", "key deepseek2.attention.kv_lora_rank is missing");
  expect_refused(fake_deepseek({{"deepseek2.rope.dimension_count", std::string_view()}}),
                 "E_HPARAM", "key deepseek2.rope.dimension_count is missing");
  expect_key_refused("attention.kv_lora_rank", 0, "is 0, expected an integer from 1 to 1022");
  expect_key_refused("attention.kv_lora_rank", kMaxHeadDim - 1, "expected an integer from 1");
  expect_key_refused("rope.dimension_count", kMaxHeadDim - kRank + 1,
                     "is 993, expected an integer from 2 to 992");
  expect_key_refused("rope.dimension_count", 15, "15 elements of a head rotate, expected an even");
  expect_key_refused("attention.key_length", kRope,
                     "key deepseek2.attention.key_length is 16, which leaves nothing beside the 16 "
                     "elements that rotate (key deepseek2.rope.dimension_count)");
  expect_key_refused("attention.value_length", kMaxHeadDim + 1, "is 1025, expected an integer");
  expect_key_refused("attention.q_lora_rank", kMaxHiddenDim + 1, "expected an integer from 0");
  expect_refused(fake_deepseek({{"deepseek2.attention.kv_lora_rank", u(64)}}), "E_SHAPE",
                 "tensor blk.0.attn_kv_a_mqa.weight has shape (48, 64), the parameters ask for "
                 "(80, 64)");
  expect_refused(fake_deepseek({{"deepseek2.attention.q_lora_rank", u(32)}}), "E_TENSOR",
                 "tensor blk.0.attn_q_a.weight is missing");
  expect_key_refused("expert_shared_count", u(1) << 40, "expected an integer from 0");
}

TEST(LoadDeepseek, AMissingGatingFunctionIsAssumedAndSaid) {
  const auto plain = load_model(fake_deepseek());
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->hparams().experts.gate, plan::Gate::softmax);
  EXPECT_FALSE(plain->hparams().experts.renormalise);
  EXPECT_THAT(plain->hparams().notes,
              ElementsAre("key deepseek2.expert_gating_func is missing: the router is taken for a "
                          "softmax, as in DeepSeek-V2, because there is no bias (exp_probs_b)"));

  auto fake = fake_deepseek();
  fake->add("blk.1.exp_probs_b.bias", DType::f32, {4});
  const auto biased = load_model(fake);
  ASSERT_TRUE(biased) << biased.error().message;
  EXPECT_EQ(biased->hparams().experts.gate, plan::Gate::sigmoid);
  EXPECT_EQ(biased->hparams().experts.group_score, plan::GroupScore::best_two);
  EXPECT_TRUE(biased->hparams().experts.renormalise);
  EXPECT_THAT(biased->hparams().notes,
              ElementsAre(HasSubstr("the router is taken for a normalised sigmoid, because there "
                                    "is a bias (exp_probs_b)")));
}

TEST(LoadDeepseek, ASaidGatingFunctionHolds) {
  for (const std::uint64_t gate : {1, 2}) {
    auto fake = fake_deepseek({{"deepseek2.expert_gating_func", gate}});
    fake->add("blk.1.exp_probs_b.bias", DType::f32, {4});
    const auto model = load_model(fake);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->hparams().experts.gate, gate == 1 ? plan::Gate::softmax : plan::Gate::sigmoid);
    EXPECT_THAT(model->hparams().notes, IsEmpty());
  }
}

// The layers of V3's safetensors behind the last one predict further tokens.
TEST(LoadDeepseek, LayersThatPredictFurtherTokensAreLeftOut) {
  FakeCheckpoint fake;
  fake.format_ = storage::Format::safetensors;
  fake.config_ = R"({"model_type": "deepseek_v3", "num_hidden_layers": 1, "hidden_size": 64,
      "num_attention_heads": 2, "intermediate_size": 96, "vocab_size": 32, "kv_lora_rank": 32,
      "max_position_embeddings": 128, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16,
      "v_head_dim": 64, "num_nextn_predict_layers": 1, "rope_theta": 10000.0})";
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> dims) {
    fake.add(name + ".weight", DType::bf16, std::move(dims));
  };
  add("model.embed_tokens", {kHidden, 32});
  add("lm_head", {kHidden, 32});
  add("model.norm", {kHidden});
  const std::string layer = "model.layers.0.";
  add(layer + "input_layernorm", {kHidden});
  add(layer + "self_attn.q_proj", {kHidden, kHeads * (kNope + kRope)});
  add(layer + "self_attn.kv_a_proj_with_mqa", {kHidden, kRank + kRope});
  add(layer + "self_attn.kv_a_layernorm", {kRank});
  add(layer + "self_attn.kv_b_proj", {kRank, kHeads * (kNope + kValue)});
  add(layer + "self_attn.o_proj", {kHeads * kValue, kHidden});
  add(layer + "post_attention_layernorm", {kHidden});
  add(layer + "mlp.gate_proj", {kHidden, 96});
  add(layer + "mlp.up_proj", {kHidden, 96});
  add(layer + "mlp.down_proj", {96, kHidden});
  add("model.layers.1.eh_proj", {2 * kHidden, kHidden});
  const auto model = load_model(std::make_shared<FakeCheckpoint>(std::move(fake)));
  ASSERT_TRUE(model) << model.error().message;
}

TEST(LoadDeepseek, YarnGrowsScores) {
  const std::vector<Change> yarn = {{"deepseek2.rope.scaling.type", std::string_view("yarn")},
                                    {"deepseek2.rope.scaling.factor", 40.0},
                                    {"deepseek2.rope.scaling.original_context_length", u(64)}};
  const double plain = 1.0 / std::sqrt(double{kNope + kRope});
  const auto without = load_model(fake_deepseek(yarn));
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_FLOAT_EQ(without->hparams().attention_scale, static_cast<float>(plain));
  auto said = yarn;
  said.emplace_back("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707);
  const auto with = load_model(fake_deepseek(said));
  ASSERT_TRUE(with) << with.error().message;
  const double factor = 0.0707 * std::log(40.0) + 1.0;
  EXPECT_FLOAT_EQ(with->hparams().attention_scale, static_cast<float>(plain * factor * factor));
  EXPECT_FLOAT_EQ(rope_mscale(with->hparams().rope_scaling, 128), 1.0F);
  said.back().second = -1.0;
  expect_refused(fake_deepseek(said), "E_HPARAM", "yarn_log_multiplier");
}

}  // namespace
}  // namespace orrery::model
