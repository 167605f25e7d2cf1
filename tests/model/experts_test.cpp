// Parameters and tensors of experts that are wrong, one clear sentence each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/fake_checkpoint.hpp"
#include "model/limits.hpp"
#include "model/model.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace orrery::model {
namespace {

using ::testing::HasSubstr;

std::uint64_t u(std::uint64_t value) {
  return value;
}

// The fake llama with 8 experts of 96, 2 of them used.
std::shared_ptr<FakeCheckpoint> fake_mixtral(std::vector<Change> changes = {}) {
  changes.insert(changes.begin(),
                 {{"llama.expert_count", u(8)}, {"llama.expert_used_count", u(2)}});
  auto fake = fake_llama(changes);
  for (const char* name : {"gate", "up", "down"}) {
    fake->remove("blk.0.ffn_" + std::string(name) + ".weight");
  }
  fake->add("blk.0.ffn_gate_inp.weight", DType::f32, {64, 8});
  fake->add("blk.0.ffn_gate_exps.weight", DType::q4_0, {64, 96, 8});
  fake->add("blk.0.ffn_up_exps.weight", DType::q4_0, {64, 96, 8});
  fake->add("blk.0.ffn_down_exps.weight", DType::q8_0, {96, 64, 8});
  return fake;
}

void expect_refused(std::shared_ptr<FakeCheckpoint> fake, const char* kind, const char* sentence) {
  const auto model = load_model(std::move(fake));
  ASSERT_FALSE(model) << sentence;
  EXPECT_EQ(model.error().kind, kind) << model.error().message;
  EXPECT_THAT(model.error().message, HasSubstr(sentence));
}

TEST(LoadExperts, AreUsedInPlace) {
  const auto fake = fake_mixtral();
  const auto model = load_model(fake);
  ASSERT_TRUE(model) << model.error().message;
  RecordOptions options;
  options.capacity = {4, 1, 1};
  options.context_length = 128;
  const auto plan = model->record(options);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto pointers = model->bind_experts(*plan);
  const storage::TensorInfo* up = fake->find("blk.0.ffn_up_exps.weight");
  for (std::size_t i = 0; i < plan->weights.size(); ++i) {
    const plan::Weight& weight = plan->weights[i];
    ASSERT_EQ(pointers[i].size(), weight.experts);
    if (weight.tensor != up->name) continue;
    EXPECT_EQ(weight.bytes(), up->bytes);
    for (std::size_t e = 0; e < 8; ++e) EXPECT_EQ(pointers[i][e], up->data + up->bytes / 8 * e);
  }
  EXPECT_EQ(model->copied_bytes(), 0U);
}

// GGUF files of 2023: blk.0.ffn_gate.7.weight.
TEST(LoadExperts, MayHaveATensorEach) {
  const auto fake = fake_mixtral();
  fake->remove("blk.0.ffn_up_exps.weight");
  for (int e = 7; e >= 0; --e) {
    fake->add("blk.0.ffn_up." + std::to_string(e) + ".weight", DType::q4_0, {64, 96});
  }
  EXPECT_TRUE(load_model(fake));
  fake->replace("blk.0.ffn_up.3.weight", DType::q8_0, {64, 96});
  expect_refused(fake, "E_TENSOR", "blk.0.ffn_up.3.weight has type Q8_0, that of the first expert");
  fake->replace("blk.0.ffn_up.3.weight", DType::q4_0, {64, 64});
  expect_refused(fake, "E_SHAPE",
                 "blk.0.ffn_up.3.weight has shape (64, 64), the parameters ask for (96, 64)");
  fake->remove("blk.0.ffn_up.3.weight");
  expect_refused(fake, "E_TENSOR", "tensor blk.0.ffn_up.3.weight is missing");
}

TEST(LoadExperts, CountsThatDoNotFit) {
  expect_refused(fake_mixtral({{"llama.expert_count", u(1ULL << 31)}}), "E_HPARAM",
                 "llama.expert_count is 2147483648, expected an integer from 0 to 4096");
  expect_refused(fake_mixtral({{"llama.expert_used_count", u(9)}}), "E_HPARAM",
                 "llama.expert_used_count is 9, the model has 8 experts");
  expect_refused(fake_mixtral({{"llama.expert_used_count", u(0)}}), "E_HPARAM",
                 "llama.expert_used_count is 0, expected an integer from 1");
  expect_refused(fake_mixtral({{"llama.expert_used_count", std::string_view()}}), "E_HPARAM",
                 "llama.expert_used_count is missing");
  expect_refused(fake_mixtral({{"llama.expert_count", u(16)}}), "E_SHAPE",
                 "has shape (8, 96, 64), the parameters ask for (16, 96, 64)");
  expect_refused(fake_mixtral({{"llama.expert_feed_forward_length", u(32)}}), "E_SHAPE",
                 "has shape (8, 96, 64), the parameters ask for (8, 32, 64)");
}

TEST(LoadExperts, GroupsThatDoNotFit) {
  const auto with_groups = [](std::uint64_t groups, std::uint64_t used) {
    return fake_mixtral(
        {{"llama.expert_group_count", u(groups)}, {"llama.expert_group_used_count", u(used)}});
  };
  EXPECT_TRUE(load_model(with_groups(4, 1)));
  expect_refused(with_groups(3, 1), "E_HPARAM", "expert_group_count is 3, no divisor of the 8 exp");
  expect_refused(with_groups(4, 5), "E_HPARAM",
                 "expert_group_used_count is 5, expected an integer");
  expect_refused(with_groups(9, 1), "E_HPARAM",
                 "expert_group_count is 9, expected an integer from");
  expect_refused(with_groups(8, 1), "E_HPARAM",
                 "2 experts of a token do not fit into 1 of 8 groups of 1 experts");
}

TEST(LoadExperts, GatesThatAreUnknown) {
  expect_refused(fake_mixtral({{"llama.expert_gating_func", u(7)}}), "E_HPARAM",
                 "llama.expert_gating_func is 7, supported are 1 (softmax), 2 (sigmoid) and 3");
  const auto model = load_model(fake_mixtral({{"llama.expert_gating_func", u(2)}}));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->hparams().experts.gate, plan::Gate::sigmoid);
}

TEST(LoadExperts, GateAndUpOfUnlikeTypes) {
  const auto fake = fake_mixtral();
  fake->replace("blk.0.ffn_up_exps.weight", DType::q8_0, {64, 96, 8});
  expect_refused(fake, "E_TENSOR", "gate and up of the experts of layer 0 have unlike types");
}

// Parameters are read before tensors are looked for.
void expect_config_refused(const std::string& members, const char* kind, const char* sentence) {
  auto fake = std::make_shared<FakeCheckpoint>();
  fake->format_ = storage::Format::safetensors;
  fake->config_ = R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
    "num_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 128, )" +
                  members + "}";
  expect_refused(fake, kind, sentence);
}

TEST(LoadExperts, LayersWithoutExpertsMustExist) {
  expect_config_refused(R"("model_type": "qwen3_moe", "mlp_only_layers": [0, 2])", "E_HPARAM",
                        "config.json: mlp_only_layers names layer 2, the model has 2");
  expect_config_refused(R"("model_type": "qwen3_moe", "mlp_only_layers": [0.5])", "E_HPARAM",
                        "names layer 0.5");
  expect_config_refused(R"("model_type": "qwen2_moe", "decoder_sparse_step": 0)", "E_HPARAM",
                        "decoder_sparse_step is 0, expected an integer from 1");
}

TEST(LoadExperts, WhatGptOssAndOlmoeDoNotSupportIsNamed) {
  expect_config_refused(R"("model_type": "gpt_oss", "swiglu_limit": 8.0)", "E_HPARAM",
                        "config.json: swiglu_limit is 8, supported is 7");
  expect_config_refused(R"("model_type": "olmoe", "clip_qkv": 8.0)", "E_HPARAM",
                        "config.json: clip_qkv is set: clamped q, k and v are not supported");
}

TEST(LoadExperts, QuantizersThatAreUnknownAreNamedWithWhatToDo) {
  for (const char* method : {"gptq", "awq", "fp8", "bitsandbytes", "compressed-tensors", "mxfp4"}) {
    const std::string members =
        R"("model_type": "qwen3_moe", "quantization_config": {"quant_method": ")" +
        std::string(method) + "\"}";
    const std::string sentence =
        "config.json: quantization_config/quant_method is \"" + std::string(method) +
        "\": such weights are not read from safetensors; take the model's files in BF16 or F16, or "
        "a GGUF file of it";
    expect_config_refused(members, "E_TENSOR", sentence.c_str());
  }
  expect_config_refused(
      R"("model_type": "llama", "quantization": {"group_size": 64, "bits": 4})", "E_TENSOR",
      "config.json: quantization is \"mlx\": such weights are not read from safetensors");
}

// The golden gpt-oss with a part of its header changed.
Result<LoadedModel> load_gpt_oss_with(const std::string& header, const std::string& instead) {
  const std::string golden = test::source_dir() + "/tests/golden/gpt-oss-mxfp4/";
  const auto read = [&](const char* name) {
    std::ifstream file(golden + name, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  std::string bytes = read("model.safetensors");
  const std::size_t at = bytes.find(header);
  EXPECT_NE(at, std::string::npos);
  bytes.replace(at, instead.size(), instead);
  const test::TempDir folder;
  folder.write("model.safetensors", bytes);
  folder.write("config.json", read("config.json"));
  ORRERY_TRY(auto checkpoint, storage::Checkpoint::open(folder.path(), storage::system_io()));
  return load_model(std::move(checkpoint));
}

TEST(LoadExperts, BlocksAndScalesBelongTogether) {
  const std::string scales = "model.layers.1.mlp.experts.down_proj_scales";
  const auto missing = load_gpt_oss_with(scales, "model.layers.1.mlp.experts.down_proj_scaleZ");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, "E_TENSOR");
  EXPECT_THAT(missing.error().message, HasSubstr("tensor " + scales + " is missing"));
  const std::string entry = scales + R"(": {"dtype": "U8", "shape": [4, )";
  const auto turned = load_gpt_oss_with(entry + "64, 3]", entry + "3, 64]");
  ASSERT_FALSE(turned);
  EXPECT_EQ(turned.error().kind, "E_SHAPE");
  EXPECT_THAT(turned.error().message,
              HasSubstr(scales + " has shape (4, 3, 64), the parameters ask for (4, 64, 3)"));
  const auto whole = load_gpt_oss_with("", "");
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_GT(whole->copied_bytes(), 0U);
}

// The published models began with 4096 tokens and do not round.
TEST(LoadExperts, YarnOfThePublishedGptOssIsNotRounded) {
  const std::string golden = test::shared_dir() + "/data/golden/gpt-oss/gpt-oss-f16.gguf";
  if (!std::filesystem::exists(golden)) GTEST_SKIP() << golden << " is absent";
  std::ifstream file(golden, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::string key = "gpt-oss.rope.scaling.original_context_length";
  const std::size_t at = bytes.find(key);
  ASSERT_NE(at, std::string::npos);
  const std::uint32_t published = 4096;
  std::memcpy(&bytes[at + key.size() + 4], &published, 4);  // behind the type of the value
  const test::TempDir folder;
  const auto checkpoint =
      storage::Checkpoint::open(folder.write("gpt-oss.gguf", bytes), storage::system_io());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto model = load_model(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->hparams().rope_scaling.original_context, published);
  EXPECT_FALSE(model->hparams().rope_scaling.truncate);
  EXPECT_THAT(model->hparams().notes[0], HasSubstr("taken as they are"));
}

// What GGUF does not say, and what is taken then.
TEST(LoadExperts, WhatAFileDoesNotSayIsTakenAndNoted) {
  const std::string folder = test::shared_dir() + "/data/golden/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const auto load = [&](const std::string& name) {
    const auto file =
        storage::Checkpoint::open(folder + name + "/" + name + "-f16.gguf", storage::system_io());
    EXPECT_TRUE(file);
    return load_model(*file);
  };
  const auto gpt_oss = load("gpt-oss");
  ASSERT_TRUE(gpt_oss) << gpt_oss.error().message;
  EXPECT_TRUE(gpt_oss->hparams().rope_scaling.truncate);
  ASSERT_EQ(gpt_oss->hparams().notes.size(), 1U);
  EXPECT_THAT(gpt_oss->hparams().notes[0], HasSubstr("YaRN"));
  EXPECT_THAT(gpt_oss->hparams().notes[0], HasSubstr("taken rounded"));
  const auto qwen3 = load("qwen3-moe"), qwen2 = load("qwen2-moe");
  ASSERT_TRUE(qwen3 && qwen2);
  EXPECT_TRUE(qwen3->hparams().experts.renormalise);
  EXPECT_FALSE(qwen2->hparams().experts.renormalise);
  EXPECT_TRUE(qwen2->hparams().experts.shared_gate);
}

TEST(LoadExperts, ADenseModelHasNoneOfTheirTensors) {
  const auto fake = fake_llama();
  fake->add("blk.0.ffn_gate_inp.weight", DType::f32, {64, 8});
  expect_refused(fake, "E_TENSOR", "blk.0.ffn_gate_inp.weight is not part of a llama model");
}

}  // namespace
}  // namespace orrery::model
