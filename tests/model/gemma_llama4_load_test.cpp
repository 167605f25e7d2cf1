// Parameters of Llama 4, Gemma 3n and 4 and Nomic's experts that do not fit: one sentence each.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/model.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace orrery::model {
namespace {

using Json = nlohmann::json;

// What the golden model of that name says of itself when config.json is changed so.
Result<Hparams> load_with(const std::string& name, const Json& changes) {
  const std::string folder = test::source_dir() + "/tests/golden/" + name;
  const test::TempDir temporary;
  std::filesystem::copy_file(folder + "/model.safetensors", temporary.file("model.safetensors"));
  std::ifstream file(folder + "/config.json");
  Json config = Json::parse(file);
  config.merge_patch(changes);
  temporary.write("config.json", config.dump());
  ORRERY_TRY(auto checkpoint, storage::Checkpoint::open(temporary.path(), storage::system_io()));
  ORRERY_TRY(const LoadedModel model, load_model(std::move(checkpoint)));
  return model.hparams();
}

void expect_refused(const std::string& name, const Json& changes, std::string_view kind,
                    std::string_view text) {
  const Result<Hparams> loaded = load_with(name, changes);
  ASSERT_FALSE(loaded) << changes;
  EXPECT_EQ(loaded.error().kind, kind) << loaded.error().message;
  EXPECT_NE(loaded.error().message.find(text), std::string::npos) << loaded.error().message;
}

TEST(Llama4Load, WhatFilesMayLeaveOut) {
  const Json unsaid = {{"attention_chunk_size", nullptr}, {"floor_scale", nullptr},
                       {"attn_scale", nullptr},           {"layer_types", nullptr},
                       {"no_rope_layers", nullptr},       {"moe_layers", nullptr}};
  const Result<Hparams> h = load_with("llama4", unsaid);
  ASSERT_TRUE(h) << h.error().message;
  EXPECT_EQ(h->window, 8192U);
  EXPECT_EQ(h->query_growth, (plan::QueryGrowth{.rate = 0.1F, .step = 8192}));
  EXPECT_EQ(h->rope_layers, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(h->window_layers, h->rope_layers);
  EXPECT_EQ(h->experts.layers, (std::vector<bool>{false, true, false, true}));
  EXPECT_TRUE(h->qk_norm);
  EXPECT_FALSE(load_with("llama4", {{"use_qk_norm", false}})->qk_norm);
  EXPECT_EQ(load_with("llama4", {{"attn_temperature_tuning", false}})->query_growth.rate, 0.0F);
}

TEST(Llama4Load, WhatDoesNotFit) {
  expect_refused("llama4", {{"no_rope_layers", {1, 1}}}, "E_HPARAM", "2 items for 4 layers");
  expect_refused("llama4", {{"layer_types", {"full_attention"}}}, "E_HPARAM",
                 "1 items for 4 layers");
  expect_refused("llama4", {{"floor_scale", 0}}, "E_HPARAM", "floor_scale");
  expect_refused("llama4", {{"moe_layers", {9}}}, "E_HPARAM", "moe_layers");
  expect_refused("llama4", {{"moe_layers", {1}}}, "E_TENSOR", "feed_forward.gate_proj");
  expect_refused("llama4", {{"intermediate_size", 16}}, "E_SHAPE", "gate_up_proj");
  expect_refused("llama4", {{"num_experts_per_tok", 5}}, "E_HPARAM", "num_experts_per_tok");
}

TEST(NomicMoeLoad, WhatDoesNotFit) {
  expect_refused("nomic-bert-moe", {{"activation_function", "swiglu"}}, "E_HPARAM", "gelu");
  expect_refused("nomic-bert-moe", {{"moe_every_n_layers", 1}}, "E_HPARAM", "moe_every_n_layers");
  expect_refused("nomic-bert-moe", {{"num_experts", 3}}, "E_SHAPE", "mlp.experts.mlp.w1");
  expect_refused("nomic-bert-moe", {{"num_experts", 0}}, "E_HPARAM", "no experts");
  expect_refused("nomic-bert-moe", {{"moe_every_n_layers", nullptr}}, "E_HPARAM",
                 "qkv_proj_bias is not supported");
}

TEST(Gemma3nLoad, WhatDoesNotFit) {
  expect_refused("gemma3n", {{"num_kv_shared_layers", 4}}, "E_HPARAM",
                 "leaves no full layer whose keys the others could share");
  expect_refused("gemma3n", {{"num_kv_shared_layers", 5}}, "E_HPARAM", "num_kv_shared_layers");
  expect_refused("gemma3n", {{"altup_num_inputs", 5}}, "E_HPARAM", "altup_num_inputs");
  expect_refused("gemma3n", {{"altup_active_idx", 4}}, "E_HPARAM", "altup_active_idx");
  expect_refused("gemma3n", {{"activation_sparsity_pattern", {0.5}}}, "E_HPARAM",
                 "1 items for 5 layers");
  expect_refused("gemma3n", {{"activation_sparsity_pattern", {1.0, 0, 0, 0, 0}}}, "E_HPARAM",
                 "shares from 0 to below 1");
  expect_refused("gemma3n", {{"hidden_size_per_layer_input", 0}}, "E_HPARAM", "no inputs");
  expect_refused("gemma3n", {{"laurel_rank", 8}}, "E_SHAPE", "laurel.linear_left");
  expect_refused("gemma3n", {{"altup_correct_scale", false}}, "E_HPARAM", "altup_correct_scale");
}

// 95 of 100 values of a normal distribution are below 1.645 deviations.
TEST(Gemma3nLoad, SharesOfGatesBecomeDeviations) {
  const auto h = load_with("gemma3n", {{"activation_sparsity_pattern", {0.95, 0.5, 0, 0, 0}}});
  ASSERT_TRUE(h) << h.error().message;
  EXPECT_NEAR(h->sparsity[0], 1.6448536F, 1e-6F);
  EXPECT_NEAR(h->sparsity[1], 0.0F, 1e-6F);
  EXPECT_EQ(h->sparsity[2], -HUGE_VALF);
}

TEST(Gemma4Load, WhatDoesNotFit) {
  expect_refused("gemma4", {{"per_layer_config", {{"1", {{"head_dim", 16}}}}}}, "E_SHAPE",
                 "layers.1.self_attn.q_proj");
  expect_refused("gemma4", {{"num_key_value_heads", 3}}, "E_HPARAM",
                 "3 key heads do not divide the 4 heads");
  expect_refused("gemma4", {{"use_bidirectional_attention", "all"}}, "E_HPARAM",
                 "use_bidirectional_attention");
  const Json yarn = {{"full_attention", {{"rope_type", "yarn"}}}};
  expect_refused("gemma4", {{"rope_parameters", yarn}}, "E_HPARAM", "yarn");
  expect_refused("gemma4-moe", {{"top_k_experts", 5}}, "E_HPARAM", "top_k_experts");
  expect_refused("gemma4-moe", {{"enable_moe_block", false}}, "E_TENSOR", "is not part of");
}

// Published files have keys of their own for what transformers 5 says layer by layer.
TEST(Gemma4Load, HeadsOfFullLayersInBothForms) {
  const auto as_made = load_with("gemma4-moe", Json::object());
  ASSERT_TRUE(as_made) << as_made.error().message;
  const auto published = load_with(
      "gemma4-moe",
      {{"per_layer_config", nullptr}, {"global_head_dim", 32}, {"num_global_key_value_heads", 1}});
  ASSERT_TRUE(published) << published.error().message;
  EXPECT_EQ(*as_made, *published);
  EXPECT_EQ(published->full_heads, (HeadShape{.kv_heads = 1, .dim = 32, .rope_dim = 32}));
}

}  // namespace
}  // namespace orrery::model
