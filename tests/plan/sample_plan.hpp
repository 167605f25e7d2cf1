// A dense Llama of two layers, recorded by hand.
#pragma once

#include <string>

#include "plan/builder.hpp"

namespace orrery::plan {

struct SampleOptions {
  Phase phase = Phase::decode;
  DType matrix = DType::q4_0;
  DType value = DType::q4_0;  // of attn_v
  bool deterministic = false;
  bool taps = false;
};

inline Plan sample_plan(const SampleOptions& options) {
  constexpr std::uint32_t kHidden = 64, kFfn = 128, kVocab = 256;
  Builder builder("llama", options.phase, {8, 4, 4}, options.deterministic);
  const auto matrix = [&](std::string name, std::uint32_t rows, std::uint32_t cols) {
    return builder.weight({std::move(name), options.matrix, rows, cols, 0});
  };
  const auto vector = [&](std::string name) {
    return builder.weight({std::move(name), DType::f32, 1, kHidden, 0});
  };
  const WeightId embedding = matrix("token_embd.weight", kVocab, kHidden);
  const std::int16_t group = builder.cache_group({CacheKind::full, 0, 2, 2, 16, 16});
  AttentionOptions attention;
  attention.group = group;
  attention.heads = 4;
  attention.kv_heads = 2;
  attention.k_dim = attention.v_dim = attention.rope_dim = 16;
  attention.scale = 0.25F;
  attention.rope = RopeStyle::adjacent;
  attention.rope_table = builder.constant({1.0F, 0.5F, 0.25F, 0.125F, 0.1F, 0.05F, 0.01F, 0.001F});
  BufferId x = builder.embed(embedding, kNone, 1.0F);
  for (std::int16_t layer = 0; layer < 2; ++layer) {
    builder.set_layer(layer);
    const std::string block = "blk." + std::to_string(layer) + ".";
    const BufferId normed =
        builder.norm("attn_norm", x, vector(block + "attn_norm.weight"), NormOptions{});
    const WeightId v =
        builder.weight({block + "attn_v.weight", options.value, kHidden / 2, kHidden, 0});
    const std::array names = {std::string("q"), std::string("k"), std::string("v")};
    const std::array weights = {matrix(block + "attn_q.weight", kHidden, kHidden),
                                matrix(block + "attn_k.weight", kHidden / 2, kHidden), v};
    const std::vector<BufferId> qkv = builder.matmul(names, normed, weights, {});
    attention.group_layer = layer;
    const BufferId attended = builder.attention(qkv[0], qkv[1], qkv[2], attention);
    MatmulOptions residual;
    residual.residual = x;
    x = builder.matmul("attn_out", attended, matrix(block + "attn_output.weight", kHidden, kHidden),
                       residual);
    if (options.taps) builder.tap("attn_tap", x);
    const BufferId ffn_in =
        builder.norm("ffn_norm", x, vector(block + "ffn_norm.weight"), NormOptions{});
    const BufferId gated =
        builder.glu("ffn_glu", ffn_in, matrix(block + "ffn_gate.weight", kFfn, kHidden),
                    matrix(block + "ffn_up.weight", kFfn, kHidden), Activation::silu);
    residual.residual = x;
    x = builder.matmul("ffn_out", gated, matrix(block + "ffn_down.weight", kHidden, kFfn),
                       residual);
  }
  builder.set_layer(-1);
  const BufferId last = builder.select_rows(x);
  const BufferId normed = builder.norm("output_norm", last, vector("output_norm.weight"), {});
  builder.logits(normed, embedding, 1.0F, 0.0F);
  return builder.finish();
}

}  // namespace orrery::plan
