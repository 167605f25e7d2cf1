// A layer of each kind that keeps a state (a gated convolution, Mamba-2, the gated delta rule) and
// one of gated attention, recorded without a file. Widths are no multiples of a vector.
#pragma once

#include <string>
#include <utility>

#include "plan/builder.hpp"

namespace orrery::test {

struct TinyHybrid {
  static constexpr std::uint32_t kHidden = 128, kVocab = 97;

  DType type = DType::f32;

  plan::Plan record(plan::Phase phase, plan::Capacity capacity, bool deterministic) const {
    Recording r{plan::Builder("hybrid", phase, capacity, deterministic), type};
    plan::Builder& b = r.b;
    r.add_groups();
    const plan::WeightId embedding = r.matrix("token_embd", kVocab, kHidden);
    plan::BufferId x = b.embed(embedding, plan::kNone, 1.0F);
    for (std::int16_t layer = 0; layer < 4; ++layer) {
      b.set_layer(layer);
      const std::string p = "blk." + std::to_string(layer) + ".";
      const plan::BufferId h = b.norm("norm", x, r.vector(p + "norm", kHidden), {});
      const plan::BufferId y = layer == 0   ? r.short_conv(p, h)
                               : layer == 1 ? r.mamba(p, h)
                               : layer == 2 ? r.attention(p, h)
                                            : r.delta(p, h);
      plan::MatmulOptions residual;
      residual.residual = x;
      x = b.matmul("x", y, r.matrix(p + "out", kHidden, r.width[layer]), residual);
    }
    b.set_layer(-1);
    const plan::BufferId last = b.select_rows(x);
    const plan::BufferId n = b.norm("output_norm", last, r.vector("output_norm", kHidden), {});
    b.logits(n, r.matrix("output", kVocab, kHidden), 1.0F, 0.0F);
    return b.finish();
  }

 private:
  struct Recording {
    plan::Builder b;
    DType type;
    std::uint32_t width[4] = {kHidden, 96, 128, 320};  // of what a layer's mixer gives

    plan::WeightId matrix(std::string name, std::uint32_t rows, std::uint32_t cols) {
      return b.weight({std::move(name), type, rows, cols, 0});
    }
    plan::WeightId vector(std::string name, std::uint32_t cols) {
      return b.weight({std::move(name), DType::f32, 1, cols, 0});
    }
    plan::BufferId project(const std::string& name, plan::BufferId x, std::uint32_t rows) {
      return b.matmul(name, x, matrix(name, rows, kHidden), {});
    }

    void add_groups() {
      plan::CacheGroup conv;
      conv.kind = plan::CacheKind::state;
      conv.layers = 1;
      conv.conv_rows = 2;
      conv.conv_dim = kHidden;
      b.cache_group(conv);
      plan::CacheGroup mamba = conv;  // 4 heads of 24 x 24 in 2 groups
      mamba.conv_rows = 3;
      mamba.conv_dim = 192;
      mamba.kv_heads = 4;
      mamba.k_dim = mamba.v_dim = 24;
      b.cache_group(mamba);
      plan::CacheGroup full;
      full.layers = 1;
      full.kv_heads = 1;
      full.k_dim = full.v_dim = 64;
      full.k_type = full.v_type = DType::f32;
      b.cache_group(full);
      plan::CacheGroup delta = mamba;  // 4 heads of 16 x 80, 2 of them for one key head
      delta.conv_dim = 384;
      delta.k_dim = 16;
      delta.v_dim = 80;
      b.cache_group(delta);
    }

    plan::BufferId conv(const std::string& p, plan::BufferId x, std::int16_t group,
                        std::uint32_t channels, std::uint32_t taps, plan::ConvOptions options) {
      options.group = group;
      options.bias = vector(p + "conv_bias", channels);
      return b.conv_state("conv", x, b.weight({p + "conv", DType::f32, channels, taps, 0}),
                          options);
    }

    plan::BufferId short_conv(const std::string& p, plan::BufferId h) {
      plan::ConvOptions gates;
      gates.gate_in = project(p + "b", h, kHidden);
      gates.gate_out = project(p + "c", h, kHidden);
      return conv(p, project(p + "x", h, kHidden), 0, kHidden, 3, gates);
    }

    plan::BufferId mamba(const std::string& p, plan::BufferId h) {
      const plan::BufferId z = project(p + "z", h, 96), xbc = project(p + "xbc", h, 192);
      const plan::BufferId dt = project(p + "dt", h, 4);
      plan::ConvOptions silu;
      silu.activation = plan::Activation::silu;
      plan::RecurrenceOptions scan;
      scan.group = 1;
      scan.heads = 4;
      scan.kv_heads = 2;
      scan.k_dim = scan.v_dim = 24;
      scan.decay = vector(p + "ssm_a", 4);
      scan.dt_bias = vector(p + "dt_bias", 4);
      scan.skip = vector(p + "d", 4);
      const plan::BufferId y = b.scan_state(conv(p, xbc, 1, 192, 4, silu), dt, scan);
      plan::NormOptions parts;
      parts.parts = 3;
      return b.norm("y", b.mul("gated", z, y, plan::Activation::silu), vector(p + "y_norm", 96),
                    parts);
    }

    plan::BufferId attention(const std::string& p, plan::BufferId h) {
      const plan::BufferId joint = project(p + "q", h, 256);
      const auto [q, gate] = b.split("q", "gate", joint, 2, {64, 64});
      plan::AttentionOptions a;
      a.group = 2;
      a.heads = 2;
      a.kv_heads = 1;
      a.k_dim = a.v_dim = 64;
      a.scale = 0.125F;
      const plan::BufferId y = b.attention(q, project(p + "k", h, 64), project(p + "v", h, 64), a);
      return b.mul("gated", gate, y, plan::Activation::sigmoid);
    }

    plan::BufferId delta(const std::string& p, plan::BufferId h) {
      const plan::BufferId joint = project(p + "qkvz", h, 704);
      const auto [qkv, z] = b.split("qkv", "z", joint, 2, {16, 16, 160, 160});
      const auto [beta, dt] = b.split("beta", "dt", project(p + "ba", h, 8), 2, {2, 2});
      plan::ConvOptions silu;
      silu.activation = plan::Activation::silu;
      plan::RecurrenceOptions rule;
      rule.group = 3;
      rule.heads = 4;
      rule.kv_heads = 2;
      rule.k_dim = 16;
      rule.v_dim = 80;
      rule.decay = vector(p + "ssm_a", 4);
      rule.dt_bias = vector(p + "dt_bias", 4);
      rule.scale = 0.25F;
      rule.eps = 1e-6F;
      const plan::BufferId y = b.delta_state(conv(p, qkv, 3, 384, 4, silu), beta, dt, rule);
      plan::NormOptions heads;
      heads.parts = 4;
      return b.mul("gated", z, b.norm("y", y, vector(p + "y_norm", 80), heads),
                   plan::Activation::silu);
    }
  };
};

}  // namespace orrery::test
