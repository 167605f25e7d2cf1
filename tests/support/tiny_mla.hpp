// A two-layer model of latent attention alone, recorded without a file: what backends are compared
// on.
#pragma once

#include <cmath>
#include <string>

#include "plan/builder.hpp"

namespace orrery::test {

struct TinyMla {
  static constexpr std::uint32_t kHidden = 128, kVocab = 97, kLayers = 2;
  static constexpr std::uint16_t kRank = 256, kRope = 32, kValue = 32;

  std::uint16_t heads = 3, nope = 64;
  DType keys = DType::f32, values = DType::f32;  // of the heads' matrices; joint ones have `values`
  plan::LatentWeights weights = plan::LatentWeights::joint;
  plan::RopeStyle rope = plan::RopeStyle::adjacent;
  DType cache_type = DType::f32;

  plan::Plan record(plan::Phase phase, plan::Capacity capacity, bool deterministic) const {
    plan::Builder b("tiny", phase, capacity, deterministic);
    const auto matrix = [&](std::string name, std::uint32_t rows, std::uint32_t cols,
                            DType type = DType::f32) {
      return b.weight({std::move(name), type, rows, cols, 0});
    };
    const auto vector = [&](std::string name, std::uint32_t cols) { return matrix(name, 1, cols); };
    plan::CacheGroup group;
    group.layers = kLayers;
    group.kv_heads = 1;
    group.k_dim = kRank + kRope;
    group.v_dim = kRank;
    group.k_type = group.v_type = cache_type;
    group.v_in_k = true;
    plan::LatentOptions a;
    a.group = b.cache_group(group);
    a.heads = heads;
    a.rank = kRank;
    a.rope_dim = kRope;
    a.nope_dim = nope;
    a.v_head = kValue;
    a.weights = weights;
    a.eps = 1e-5F;
    a.scale = 0.1F;
    a.rope = rope;
    const DType out_type = dtype_info(values).block_len > 32 ? DType::q8_0 : values;
    std::vector<float> frequencies;
    for (int i = 0; i < kRope / 2; ++i) {
      frequencies.push_back(std::pow(10000.0F, -2.0F * float(i) / float(kRope)));
    }
    a.rope_table = b.constant(frequencies);
    plan::BufferId x = b.embed(matrix("token_embd", kVocab, kHidden), plan::kNone, 1.0F);
    for (std::uint32_t l = 0; l < kLayers; ++l) {
      const std::string p = "blk." + std::to_string(l) + ".";
      b.set_layer(static_cast<std::int16_t>(l));
      a.group_layer = static_cast<std::int16_t>(l);
      const plan::BufferId h = b.norm("attn_norm", x, vector(p + "attn_norm", kHidden), {});
      const std::string names[] = {"q", "latent"};
      const plan::WeightId in[] = {matrix(p + "q", heads * (nope + kRope), kHidden),
                                   matrix(p + "kv_a", kRank + kRope, kHidden)};
      const auto out = b.matmul(names, h, in, {});
      a.norm = vector(p + "kv_a_norm", kRank);
      if (weights == plan::LatentWeights::joint) {
        a.keys = a.values = matrix(p + "kv_b", heads * (nope + kValue), kRank, values);
      } else {
        a.keys = matrix(p + "k_b", heads * kRank, nope, keys);
        a.values = matrix(p + "v_b", heads * kValue, kRank, values);
      }
      const plan::BufferId attended = b.latent_attention(out[0], out[1], a);
      plan::MatmulOptions residual;
      residual.residual = x;
      x = b.matmul("x", attended, matrix(p + "o", kHidden, heads * kValue, out_type), residual);
    }
    b.set_layer(-1);
    const plan::BufferId last = b.select_rows(x);
    const plan::BufferId n = b.norm("output_norm", last, vector("output_norm", kHidden), {});
    b.logits(n, matrix("output", kVocab, kHidden), 1.0F, 0.0F);
    return b.finish();
  }
};

}  // namespace orrery::test
