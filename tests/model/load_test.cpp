// What load_model refuses, and how it says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/fake_checkpoint.hpp"
#include "model/limits.hpp"
#include "model/model.hpp"
#include "plan/passes.hpp"

namespace orrery::model {
namespace {

using storage::MetaArray;
using storage::MetaValue;
using ::testing::AllOf;
using ::testing::HasSubstr;

void expect_refused(const std::shared_ptr<FakeCheckpoint>& fake, std::string_view kind,
                    const std::string& part) {
  const auto model = load_model(fake);
  ASSERT_FALSE(model) << "loaded, but " << part;
  EXPECT_EQ(model.error().kind, kind) << model.error().message;
  EXPECT_THAT(model.error().message, HasSubstr(part));
}

void expect_key_refused(const std::string& key, const MetaValue& value,
                        std::string_view kind = "E_HPARAM") {
  expect_refused(fake_llama({{"llama." + key, value}}), kind, "");
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

TEST(Load, TinyLlama) {
  const auto model = load_model(fake_llama());
  ASSERT_TRUE(model) << model.error().message;
  const Hparams& h = model->hparams();
  EXPECT_EQ(h.family, "llama");
  EXPECT_EQ(h.head_dim, 16U);
  EXPECT_EQ(h.vocab_size, 32U);
  EXPECT_EQ(h.rope, plan::RopeStyle::adjacent);
  EXPECT_FLOAT_EQ(h.attention_scale, 0.25F);
  EXPECT_EQ(model->copied_bytes(), 0U);
}

// G71
TEST(Load, Architecture) {
  expect_refused(fake_llama({{"general.architecture", std::string_view()}}), "E_ARCH", "missing");
  expect_refused(fake_llama({{"general.architecture", integers({1})}}), "E_ARCH", "no string");
  expect_refused(fake_llama({{"general.architecture", std::string_view("rwkv")}}), "E_ARCH",
                 "\"rwkv\" is not supported, these are: ");
  const std::string huge(1 << 20, 'a');
  const auto model = load_model(fake_llama({{"general.architecture", std::string_view(huge)}}));
  ASSERT_FALSE(model);
  EXPECT_LT(model.error().message.size(), 1000U);
  EXPECT_THAT(supported_architectures(), AllOf(HasSubstr("llama"), HasSubstr("gemma3_text")));
}

// G72, G75
TEST(Load, BlockCount) {
  for (const MetaValue& value :
       {MetaValue(u(0)), MetaValue(u(0x80000000)), MetaValue(std::int64_t{-1}), MetaValue(32.0),
        MetaValue(std::string_view("32")), MetaValue(u(kMaxLayers + 1)), MetaValue(u(UINT64_MAX)),
        MetaValue(true)}) {
    expect_key_refused("block_count", value);
  }
  expect_refused(fake_llama({{"llama.block_count", std::string_view("32")}}), "E_HPARAM",
                 "key llama.block_count is the string \"32\", expected an integer from 1 to 1024");
  expect_refused(fake_llama({{"llama.block_count", std::string_view()}}), "E_HPARAM",
                 "llama.block_count is missing");
  // At the limit the layers' tensors are missing, not the number wrong.
  expect_refused(fake_llama({{"llama.block_count", u(kMaxLayers)}}), "E_TENSOR", "blk.1.");
}

// G73, G75
TEST(Load, Heads) {
  for (const std::uint64_t heads : {0ULL, 1025ULL, 0x80000000ULL}) {
    expect_key_refused("attention.head_count", u(heads));
  }
  expect_key_refused("attention.head_count_kv", u(0));
  expect_key_refused("attention.head_count_kv", u(8));
  expect_key_refused("attention.head_count_kv", u(3));
  expect_key_refused("attention.head_count_kv", integers({2, 2}));
  expect_key_refused("attention.head_count_kv", integers({}));
  EXPECT_TRUE(load_model(fake_llama({{"llama.attention.head_count_kv", integers({2})}})));
  expect_key_refused("attention.value_length", u(8));
}

// G74
TEST(Load, Sizes) {
  for (const std::uint64_t size : {0ULL, 66ULL, 1ULL << 31, kMaxHiddenDim + 4ULL}) {
    expect_key_refused("embedding_length", u(size));
  }
  expect_key_refused("feed_forward_length", u(kMaxFfnDim + 1));
  expect_key_refused("attention.key_length", u(kMaxHeadDim + 1));
}

// G76
TEST(Load, Rope) {
  for (const double base : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_key_refused("rope.freq_base", base);
  }
  for (const std::uint64_t dim : {0ULL, 3ULL, 18ULL}) {
    expect_key_refused("rope.dimension_count", u(dim));
  }
  for (const double factor : {0.0, std::nan(""), -2.0}) {
    expect_refused(fake_llama({{"llama.rope.scaling.type", std::string_view("linear")},
                               {"llama.rope.scaling.factor", factor}}),
                   "E_HPARAM", "llama.rope.scaling.factor");
  }
  expect_refused(fake_llama({{"llama.rope.scaling.type", std::string_view("dynamic")}}), "E_HPARAM",
                 "supported are none, linear");
}

// G77
TEST(Load, Epsilon) {
  expect_refused(fake_llama({{"llama.attention.layer_norm_rms_epsilon", std::string_view()}}),
                 "E_HPARAM", "layer_norm_rms_epsilon is missing");
  for (const double eps : {0.0, -1e-5, std::nan(""), 1e30}) {
    expect_key_refused("attention.layer_norm_rms_epsilon", eps);
  }
}

// G79: nothing is allocated from the context, so a huge one is only clamped.
TEST(Load, ContextIsClamped) {
  const auto model = load_model(fake_llama({{"llama.context_length", u(0xFFFFFFFF)}}));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->hparams().context_length, kMaxContext);
  expect_key_refused("context_length", u(0));
}

// G80
TEST(Load, MissingTensor) {
  const auto fake = fake_llama();
  fake->remove("blk.0.attn_q.weight");
  expect_refused(fake, "E_TENSOR", "tensor blk.0.attn_q.weight is missing");
  const auto no_embedding = fake_llama();
  no_embedding->remove("token_embd.weight");
  expect_refused(no_embedding, "E_TENSOR", "token_embd.weight");
}

// G81
TEST(Load, ShapesArePrinted) {
  const auto transposed = fake_llama();
  transposed->replace("blk.0.ffn_down.weight", DType::q4_0, {64, 96});
  expect_refused(
      transposed, "E_SHAPE",
      "tensor blk.0.ffn_down.weight has shape (96, 64), the parameters ask for (64, 96)");
  const auto off_by_one = fake_llama();
  off_by_one->replace("blk.0.attn_k.weight", DType::q4_0, {64, 33});
  expect_refused(off_by_one, "E_SHAPE", "(33, 64), the parameters ask for (32, 64)");
  const auto norm = fake_llama();
  norm->replace("output_norm.weight", DType::f32, {63});
  expect_refused(norm, "E_SHAPE", "has shape (63), the parameters ask for (64)");
  const auto deep = fake_llama();
  deep->replace("blk.0.attn_k.weight", DType::q4_0, {64, 16, 2});
  expect_refused(deep, "E_SHAPE", "(2, 16, 64)");
}

// G82
TEST(Load, TypesOfPlaces) {
  const auto matrix = fake_llama();
  matrix->replace("blk.0.attn_k.weight", DType::i32, {64, 32});
  expect_refused(matrix, "E_TENSOR", "has type I32, supported weights are F32, F16");
  const auto norm = fake_llama();
  norm->replace("output_norm.weight", DType::f16, {64});
  expect_refused(norm, "E_TENSOR", "norms and biases are expected in F32");
}

TEST(Load, UnknownTensor) {
  const auto fake = fake_llama();
  fake->add("blk.0.ffn_gate_inp.weight", DType::f32, {64, 8});
  expect_refused(fake, "E_TENSOR", "blk.0.ffn_gate_inp.weight is not part of a llama model");
  const auto ignored = fake_llama();
  ignored->add("blk.0.attn_rot_embd.weight", DType::f32, {64});
  EXPECT_TRUE(load_model(ignored));
}

// G85: rows beyond the tokens are padding, tokens beyond the rows an error.
TEST(Load, VocabularyAgainstRows) {
  const std::vector<std::string_view> names(33, "x");
  MetaArray tokens;
  tokens.strings = names;
  expect_refused(fake_llama({{"tokenizer.ggml.tokens", tokens}}), "E_HPARAM",
                 "the vocabulary has 33 tokens, the embedding 32 rows");
  tokens.strings.resize(30);
  EXPECT_TRUE(load_model(fake_llama({{"tokenizer.ggml.tokens", tokens}})));
}

TEST(Load, BindNeedsData) {
  auto fake = std::make_shared<FakeCheckpoint>();
  const auto full = fake_llama();
  fake->has_data_ = false;
  fake->metadata_ = full->metadata_;
  for (const storage::TensorInfo& info : full->tensors()) {
    fake->add(info.name, info.type, {info.dims.begin(), info.dims.begin() + info.n_dims});
  }
  const auto model = load_model(fake);
  ASSERT_TRUE(model) << model.error().message;
  RecordOptions options;
  options.capacity = {1, 1, 1};
  options.context_length = 64;
  const auto plan = model->record(options);
  ASSERT_TRUE(plan);
  const auto pointers = model->bind(*plan);
  ASSERT_FALSE(pointers);
  EXPECT_EQ(pointers.error().kind, "E_NODATA");
}

// The larger Gemma 3 checkpoints wrap the language model and leave out transformers' defaults.
TEST(Load, ConfigInsideAModelThatSees) {
  auto fake = std::make_shared<FakeCheckpoint>();
  fake->format_ = storage::Format::safetensors;
  fake->config_ = R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "sliding_window": 1024,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})";
  const std::string block = "language_model.model.layers.0.";
  fake->add("language_model.model.embed_tokens.weight", DType::bf16, {64, 32});
  fake->add("language_model.model.norm.weight", DType::bf16, {64});
  for (const char* norm : {"input_layernorm", "post_attention_layernorm",
                           "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
    fake->add(block + norm + ".weight", DType::bf16, {64});
  }
  fake->add(block + "self_attn.q_norm.weight", DType::bf16, {256});
  fake->add(block + "self_attn.k_norm.weight", DType::bf16, {256});
  fake->add(block + "self_attn.q_proj.weight", DType::bf16, {64, 2048});
  fake->add(block + "self_attn.k_proj.weight", DType::bf16, {64, 1024});
  fake->add(block + "self_attn.v_proj.weight", DType::bf16, {64, 1024});
  fake->add(block + "self_attn.o_proj.weight", DType::bf16, {2048, 64});
  fake->add(block + "mlp.gate_proj.weight", DType::bf16, {64, 96});
  fake->add(block + "mlp.up_proj.weight", DType::bf16, {64, 96});
  fake->add(block + "mlp.down_proj.weight", DType::bf16, {96, 64});
  fake->add("vision_tower.patch.weight", DType::bf16, {64, 3, 2, 2});
  const auto model = load_model(fake);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->hparams().n_heads, 8U);
  EXPECT_EQ(model->hparams().context_length, 131072U);
  EXPECT_EQ(model->hparams().rope_scaling.factor, 8.0F);
  EXPECT_EQ(model->hparams().rope_theta, 1e6F);
  EXPECT_EQ(model->hparams().norm_offset, 1.0F);
  EXPECT_EQ(model->hparams().vocab_size, 32U);
}

TEST(Load, ConfigOfSafetensors) {
  auto fake = std::make_shared<FakeCheckpoint>();
  fake->format_ = storage::Format::safetensors;
  expect_refused(fake, "E_ARCH", "config.json is missing");
  fake->config_ = "[1";
  expect_refused(fake, "E_HPARAM", "no JSON object");
  fake->config_ = "{}";
  expect_refused(fake, "E_ARCH", "model_type is missing");
  fake->config_ = R"({"model_type": "rwkv"})";
  expect_refused(fake, "E_ARCH", "\"rwkv\"");
  fake->config_ = R"({"model_type": "llama", "num_hidden_layers": "2"})";
  expect_refused(fake, "E_HPARAM", "config.json: num_hidden_layers is the string \"2\"");
  fake->config_ = R"({"model_type": "llama", "num_hidden_layers": 2.5})";
  expect_refused(fake, "E_HPARAM", "the float 2.5");
}

}  // namespace
}  // namespace orrery::model
