// Parameters of layers with a state that do not fit each other or the tensors: one sentence each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/fake_checkpoint.hpp"
#include "model/limits.hpp"
#include "model/model.hpp"

namespace orrery::model {
namespace {

using storage::MetaArray;
using storage::MetaValue;
using ::testing::HasSubstr;
using Fake = std::shared_ptr<FakeCheckpoint>;

void expect_refused(const Fake& fake, std::string_view kind, const std::string& part) {
  const auto model = load_model(fake);
  ASSERT_FALSE(model) << "loaded, but " << part;
  EXPECT_EQ(model.error().kind, kind) << model.error().message;
  EXPECT_THAT(model.error().message, HasSubstr(part));
}

MetaValue integers(std::vector<std::int64_t> items) {
  MetaArray array;
  array.kind = MetaArray::Kind::integers;
  array.integers = std::move(items);
  return array;
}

std::uint64_t u(std::uint64_t value) {
  return value;
}

// `keys` without the architecture's prefix; a change takes the place of a key. The metadata keeps
// the view of the name.
Fake with_keys(std::string_view architecture, std::vector<Change> keys,
               const std::vector<Change>& changes) {
  auto fake = std::make_shared<FakeCheckpoint>();
  for (const Change& change : changes) {
    std::erase_if(keys, [&](const Change& key) { return key.first == change.first; });
    keys.push_back(change);
  }
  fake->metadata_.insert("general.architecture", architecture);
  const std::string prefix = std::string(architecture) + ".";
  for (const auto& [key, value] : keys) fake->metadata_.insert(prefix + key, value);
  return fake;
}

// Two layers, hidden 64: a convolution of 3 taps, and attention with 4 heads, 2 of them KV heads.
Fake fake_lfm2(const std::vector<Change>& changes = {}) {
  const Fake fake = with_keys("lfm2",
                              {{"block_count", u(2)},
                               {"context_length", u(128)},
                               {"embedding_length", u(64)},
                               {"feed_forward_length", u(96)},
                               {"attention.head_count", u(4)},
                               {"attention.head_count_kv", integers({0, 2})},
                               {"attention.layer_norm_rms_epsilon", 1e-5},
                               {"shortconv.l_cache", u(3)}},
                              changes);
  fake->add("token_embd.weight", DType::f16, {64, 32});
  fake->add("token_embd_norm.weight", DType::f32, {64});
  fake->add("blk.0.shortconv.conv.weight", DType::f32, {3, 64});
  fake->add("blk.0.shortconv.in_proj.weight", DType::q4_0, {64, 192});
  fake->add("blk.0.shortconv.out_proj.weight", DType::q4_0, {64, 64});
  fake->add("blk.1.attn_q.weight", DType::q4_0, {64, 64});
  fake->add("blk.1.attn_k.weight", DType::q4_0, {64, 32});
  fake->add("blk.1.attn_v.weight", DType::q4_0, {64, 32});
  fake->add("blk.1.attn_output.weight", DType::q4_0, {64, 64});
  fake->add("blk.1.attn_q_norm.weight", DType::f32, {16});
  fake->add("blk.1.attn_k_norm.weight", DType::f32, {16});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    fake->add(layer + "attn_norm.weight", DType::f32, {64});
    fake->add(layer + "ffn_norm.weight", DType::f32, {64});
    fake->add(layer + "ffn_gate.weight", DType::q4_0, {64, 96});
    fake->add(layer + "ffn_up.weight", DType::q4_0, {64, 96});
    fake->add(layer + "ffn_down.weight", DType::q4_0, {96, 64});
  }
  return fake;
}

// One layer, hidden 64: 4 heads of 32 in 2 groups, states of 16 rows, 4 taps.
Fake fake_mamba2(const std::vector<Change>& changes = {}) {
  const Fake fake = with_keys("mamba2",
                              {{"block_count", u(1)},
                               {"context_length", u(128)},
                               {"embedding_length", u(64)},
                               {"attention.layer_norm_rms_epsilon", 1e-5},
                               {"ssm.conv_kernel", u(4)},
                               {"ssm.inner_size", u(128)},
                               {"ssm.state_size", u(16)},
                               {"ssm.time_step_rank", u(4)},
                               {"ssm.group_count", u(2)}},
                              changes);
  fake->add("token_embd.weight", DType::f16, {64, 32});
  fake->add("output_norm.weight", DType::f32, {64});
  fake->add("blk.0.attn_norm.weight", DType::f32, {64});
  fake->add("blk.0.ssm_in.weight", DType::q4_0, {64, 324});
  fake->add("blk.0.ssm_conv1d.weight", DType::f32, {4, 192});
  fake->add("blk.0.ssm_conv1d.bias", DType::f32, {192});
  fake->add("blk.0.ssm_dt.bias", DType::f32, {4});
  fake->add("blk.0.ssm_a", DType::f32, {1, 4});
  fake->add("blk.0.ssm_d", DType::f32, {1, 4});
  fake->add("blk.0.ssm_norm.weight", DType::f32, {64, 2});
  fake->add("blk.0.ssm_out.weight", DType::q4_0, {128, 64});
  return fake;
}

// Two layers, hidden 64: 4 value heads of 16 for 2 key heads of 16, then attention with 2 heads of
// 32 and one KV head; 4 experts of 32 and a shared one in both.
Fake fake_qwen3_next(const std::vector<Change>& changes = {}) {
  const Fake fake = with_keys("qwen3next",
                              {{"block_count", u(2)},
                               {"context_length", u(128)},
                               {"embedding_length", u(64)},
                               {"feed_forward_length", u(96)},
                               {"attention.head_count", u(2)},
                               {"attention.head_count_kv", u(1)},
                               {"attention.key_length", u(32)},
                               {"attention.value_length", u(32)},
                               {"attention.layer_norm_rms_epsilon", 1e-6},
                               {"rope.dimension_count", u(8)},
                               {"full_attention_interval", u(2)},
                               {"ssm.conv_kernel", u(4)},
                               {"ssm.state_size", u(16)},
                               {"ssm.group_count", u(2)},
                               {"ssm.time_step_rank", u(4)},
                               {"ssm.inner_size", u(64)},
                               {"expert_count", u(4)},
                               {"expert_used_count", u(2)},
                               {"expert_feed_forward_length", u(32)},
                               {"expert_shared_feed_forward_length", u(32)}},
                              changes);
  fake->add("token_embd.weight", DType::f16, {64, 32});
  fake->add("output_norm.weight", DType::f32, {64});
  fake->add("blk.0.attn_qkv.weight", DType::q4_0, {64, 128});
  fake->add("blk.0.attn_gate.weight", DType::q4_0, {64, 64});
  fake->add("blk.0.ssm_ba.weight", DType::q4_0, {64, 8});
  fake->add("blk.0.ssm_conv1d.weight", DType::f32, {4, 128});
  fake->add("blk.0.ssm_dt.bias", DType::f32, {4});
  fake->add("blk.0.ssm_a", DType::f32, {4});
  fake->add("blk.0.ssm_norm.weight", DType::f32, {16});
  fake->add("blk.0.ssm_out.weight", DType::q4_0, {64, 64});
  fake->add("blk.1.attn_q.weight", DType::q4_0, {64, 128});
  fake->add("blk.1.attn_k.weight", DType::q4_0, {64, 32});
  fake->add("blk.1.attn_v.weight", DType::q4_0, {64, 32});
  fake->add("blk.1.attn_q_norm.weight", DType::f32, {32});
  fake->add("blk.1.attn_k_norm.weight", DType::f32, {32});
  fake->add("blk.1.attn_output.weight", DType::q4_0, {64, 64});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    fake->add(layer + "attn_norm.weight", DType::f32, {64});
    fake->add(layer + "post_attention_norm.weight", DType::f32, {64});
    fake->add(layer + "ffn_gate_inp.weight", DType::f32, {64, 4});
    fake->add(layer + "ffn_gate_inp_shexp.weight", DType::f32, {64});
    for (const std::string part : {"gate", "up", "down"}) {
      const std::uint64_t cols = part == "down" ? 32 : 64;
      fake->add(layer + "ffn_" + part + "_exps.weight", DType::q4_0, {cols, 96 - cols, 4});
      fake->add(layer + "ffn_" + part + "_shexp.weight", DType::q4_0, {cols, 96 - cols});
    }
  }
  return fake;
}

plan::Plan decode_plan(const LoadedModel& model) {
  RecordOptions options;
  options.capacity = {1, 1, 1};
  options.context_length = 128;
  return *model.record(options);
}

TEST(StateLoad, GroupsOfLfm2) {
  const auto model = load_model(fake_lfm2());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->hparams().n_kv_heads, 2U);
  const plan::Plan plan = decode_plan(*model);
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.groups[0].kind, plan::CacheKind::state);
  EXPECT_EQ(plan.groups[0].page_bytes(), 2U * 64 * 4);
  EXPECT_EQ(plan.groups[1].kind, plan::CacheKind::full);
  EXPECT_EQ(plan.groups[1].layers, 1U);
}

TEST(StateLoad, GroupsOfMamba2) {
  const auto model = load_model(fake_mamba2());
  ASSERT_TRUE(model) << model.error().message;
  const plan::Plan plan = decode_plan(*model);
  ASSERT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(plan.groups[0].page_bytes(), 4U * (3 * 192 + 4 * 16 * 32));
}

TEST(StateLoad, GroupsOfQwen3Next) {
  const auto model = load_model(fake_qwen3_next());
  ASSERT_TRUE(model) << model.error().message;
  const plan::Plan plan = decode_plan(*model);
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.groups[0].page_bytes(), 4U * (3 * 128 + 4 * 16 * 16));
  EXPECT_EQ(plan.groups[1].kind, plan::CacheKind::full);
}

TEST(StateLoad, ConvolutionsOfLfm2) {
  expect_refused(fake_lfm2({{"shortconv.l_cache", u(1)}}), "E_HPARAM",
                 "key lfm2.shortconv.l_cache is 1, expected an integer from 2 to 16");
  expect_refused(fake_lfm2({{"shortconv.l_cache", u(17)}}), "E_HPARAM", "shortconv.l_cache is 17");
  expect_refused(fake_lfm2({{"shortconv.l_cache", u(4)}}), "E_SHAPE",
                 "tensor blk.0.shortconv.conv.weight has shape (64, 3), the parameters ask for 64 "
                 "filters of 4");
}

TEST(StateLoad, LayersOfLfm2) {
  const std::string key = "attention.head_count_kv";
  expect_refused(fake_lfm2({{key, u(2)}}), "E_HPARAM", "expected a list of integers from 0 to 4");
  expect_refused(fake_lfm2({{key, integers({0, 2, 0})}}), "E_HPARAM", "has 3 items for 2 layers");
  expect_refused(fake_lfm2({{key, integers({0, -1})}}), "E_HPARAM", "a list of integers from 0");
  expect_refused(
      fake_lfm2({{key, integers({0, 3})}}), "E_HPARAM",
      "has 3 for layer 1, expected 0 or the 3 of other layers, a divisor of the 4 heads");
  expect_refused(fake_lfm2({{key, integers({1, 2})}}), "E_HPARAM", "has 1 for layer 0");
  // The tensors say otherwise.
  expect_refused(fake_lfm2({{key, integers({0, 0})}}), "E_TENSOR",
                 "blk.1.shortconv.in_proj.weight is missing");
  expect_refused(fake_lfm2({{key, integers({2, 0})}}), "E_TENSOR",
                 "blk.0.attn_q.weight is missing");
}

TEST(StateLoad, LayersOfLfm2InConfig) {
  const auto config = [](const std::string& more) {
    auto fake = std::make_shared<FakeCheckpoint>();
    fake->format_ = storage::Format::safetensors;
    fake->config_ = R"({"model_type": "lfm2", "num_hidden_layers": 2, "hidden_size": 64,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
      "max_position_embeddings": 128, "norm_eps": 1e-5, "conv_L_cache": 3, )" +
                    more + "}";
    return fake;
  };
  expect_refused(config(R"("layer_types": ["conv"])"), "E_HPARAM",
                 "config.json: layer_types has 1 items for 2 layers");
  expect_refused(config(R"("layer_types": ["conv", "mamba"])"), "E_HPARAM",
                 R"(layer_types has "mamba" for layer 1, expected conv or full_attention)");
  expect_refused(config(R"("full_attn_idxs": [2])"), "E_HPARAM", "full_attn_idxs");
  expect_refused(config(R"("full_attn_idxs": [1])"), "E_TENSOR", "embed_tokens");
}

// Two thirds of what config.json says, rounded up to its multiple.
TEST(StateLoad, WidthOfTheFeedForwardOfLfm2InConfig) {
  const auto fake = std::make_shared<FakeCheckpoint>();
  fake->format_ = storage::Format::safetensors;
  fake->config_ = R"({"model_type": "lfm2", "num_hidden_layers": 1, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 32,
    "max_position_embeddings": 128, "norm_eps": 1e-5, "conv_L_cache": 3, "layer_types": ["conv"],
    "block_ff_dim": 300, "block_multiple_of": 64})";
  fake->add("model.embed_tokens.weight", DType::bf16, {64, 32});
  const std::string layer = "model.layers.0.";
  fake->add(layer + "operator_norm.weight", DType::bf16, {64});
  fake->add(layer + "conv.in_proj.weight", DType::bf16, {64, 192});
  fake->add(layer + "conv.conv.weight", DType::bf16, {3, 1, 64});
  fake->add(layer + "conv.out_proj.weight", DType::bf16, {64, 64});
  fake->add(layer + "ffn_norm.weight", DType::bf16, {64});
  fake->add(layer + "feed_forward.w1.weight", DType::bf16, {64, 96});
  expect_refused(fake, "E_SHAPE",
                 "tensor model.layers.0.feed_forward.w1.weight has shape (96, 64), the parameters "
                 "ask for (256, 64)");
}

TEST(StateLoad, SizesOfMamba2) {
  expect_refused(fake_mamba2({{"ssm.conv_kernel", u(0)}}), "E_HPARAM", "ssm.conv_kernel is 0");
  expect_refused(fake_mamba2({{"ssm.state_size", u(kMaxStateDim + 1)}}), "E_HPARAM",
                 "ssm.state_size is 1025, expected an integer from 1 to 1024");
  expect_refused(fake_mamba2({{"ssm.time_step_rank", u(3)}}), "E_HPARAM",
                 "key mamba2.ssm.time_step_rank is 3, which the inner width of 128 does not divide "
                 "into heads of 1 to 1024");
  expect_refused(fake_mamba2({{"ssm.group_count", u(3)}}), "E_HPARAM",
                 "key mamba2.ssm.group_count is 3, no divisor of the 4 heads");
  expect_refused(fake_mamba2({{"ssm.inner_size", u(1U << 22)}}), "E_HPARAM", "heads of 1 to 1024");
  // Sizes that fit each other but not the tensors.
  expect_refused(
      fake_mamba2({{"ssm.state_size", u(32)}}), "E_SHAPE",
      "tensor blk.0.ssm_in.weight has shape (324, 64), the parameters ask for (388, 64)");
  expect_refused(fake_mamba2({{"ssm.conv_kernel", u(3)}}), "E_SHAPE", "192 filters of 3");
  const Fake steps = fake_mamba2();
  steps->replace("blk.0.ssm_dt.bias", DType::f32, {5});
  expect_refused(steps, "E_SHAPE",
                 "tensor blk.0.ssm_dt.bias has shape (5), the parameters ask for 4 elements");
  const Fake decay = fake_mamba2();
  decay->replace("blk.0.ssm_a", DType::f16, {4});
  expect_refused(decay, "E_TENSOR", "blk.0.ssm_a has type F16");
}

TEST(StateLoad, SizesOfMamba2InConfig) {
  const auto config = [](const std::string& more) {
    auto fake = std::make_shared<FakeCheckpoint>();
    fake->format_ = storage::Format::safetensors;
    fake->config_ = R"({"model_type": "mamba2", "num_hidden_layers": 1, "hidden_size": 64,
      "state_size": 16, "conv_kernel": 4, "num_heads": 4, "n_groups": 2, )" +
                    more + "}";
    return fake;
  };
  expect_refused(config(R"("head_dim": 64, "expand": 2)"), "E_HPARAM",
                 "config.json: head_dim is 64, but 4 heads of an inner width of 128 have 32");
  expect_refused(config(R"("head_dim": 32, "time_step_limit": [0.0, 0.1])"), "E_HPARAM",
                 "config.json: time_step_limit is finite, which is not supported");
  expect_refused(config(R"("head_dim": 32, "time_step_limit": [0.0, {"__float__": "Infinity"}])"),
                 "E_TENSOR", "embeddings.weight is missing");
}

TEST(StateLoad, SizesOfQwen3Next) {
  expect_refused(fake_qwen3_next({{"ssm.conv_kernel", u(17)}}), "E_HPARAM",
                 "key qwen3next.ssm.conv_kernel is 17, expected an integer from 2 to 16");
  expect_refused(fake_qwen3_next({{"ssm.inner_size", u(66)}}), "E_HPARAM",
                 "key qwen3next.ssm.inner_size is 66, expected 4 heads of 1 to 1024");
  expect_refused(fake_qwen3_next({{"ssm.group_count", u(3)}}), "E_HPARAM",
                 "key qwen3next.ssm.group_count is 3, no divisor of the 4 value heads");
  expect_refused(
      fake_qwen3_next({{"ssm.state_size", u(32)}}), "E_SHAPE",
      "tensor blk.0.attn_qkv.weight has shape (128, 64), the parameters ask for (192, 64)");
  expect_refused(fake_qwen3_next({{"ssm.conv_kernel", u(3)}}), "E_SHAPE", "128 filters of 3");
  // The tensors of the layers say otherwise.
  expect_refused(fake_qwen3_next({{"full_attention_interval", u(4)}}), "E_TENSOR",
                 "tensor blk.1.ssm_in.weight is missing");
  expect_refused(fake_qwen3_next({{"full_attention_interval", u(1)}}), "E_TENSOR",
                 "tensor blk.0.attn_q.weight is missing");
  expect_refused(fake_qwen3_next({{"attention.recurrent_layers", integers({1})}}), "E_HPARAM",
                 "key qwen3next.attention.recurrent_layers has 1 items for 2 layers");
  expect_refused(fake_qwen3_next({{"attention.recurrent_layers", integers({2, 0})}}), "E_HPARAM",
                 "expected a list of booleans");
}

}  // namespace
}  // namespace orrery::model
