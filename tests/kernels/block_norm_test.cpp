// Norms, RoPE and the moves between layouts.
#include <string>

#include "kernels/block_support.hpp"

namespace orrery::kernels {
namespace {

class BlockNormTest : public BlockTest {};

struct NormCase {
  int n;
  bool layer, weight, bias, residual;
};

const NormCase kNormCases[] = {{576, false, true, false, false}, {64, true, true, true, true},
                               {33, false, true, false, true},   {7, true, false, true, false},
                               {96, false, false, false, false}, {1, false, true, true, true}};

TEST_P(BlockNormTest, MatchesTheReference) {
  for (const auto& [n, layer, with_weight, with_bias, with_residual] : kNormCases) {
    const std::vector<float> x = random_floats(32 * n, n, 3.0F), weight = random_floats(n, 2);
    const std::vector<float> bias = random_floats(n, 3), residual = random_floats(32 * n, 4);
    std::vector<float> out(32 * n, NAN);
    Aligned<std::uint16_t> out_x(round_up(n, 32) * 32, 0xFFFF);
    NormBlock call = {};
    call.x = x.data(), call.n = n, call.eps = 1e-5F, call.offset = 0.25F, call.layer_norm = layer;
    call.weight = with_weight ? weight.data() : nullptr;
    call.bias = with_bias ? bias.data() : nullptr;
    call.residual = with_residual ? residual.data() : nullptr;
    call.out_f = out.data(), call.out_x = out_x.data();
    blocks->norm(call);
    for (int t = 0; t < 32; ++t) {
      double mean = 0, square = 0;
      for (int i = 0; i < n; ++i) mean += layer ? double(x[32 * i + t]) / n : 0.0;
      for (int i = 0; i < n; ++i) square += std::pow(x[32 * i + t] - mean, 2) / n;
      const double r = 1.0 / std::sqrt(square + 1e-5F);
      for (int i = 0; i < n; ++i) {
        double y = (x[32 * i + t] - mean) * r;
        y *= (with_weight ? double(weight[i]) : 1.0) + 0.25;
        if (with_bias) y += bias[i];
        if (with_residual) y += residual[32 * i + t];
        const double size = std::abs(y) + 5.0 + std::abs(r * x[32 * i + t]);
        ASSERT_NEAR(out[32 * i + t], y, (n / 2 + 8) * 0x1p-24 * size) << n << " " << i << " " << t;
        ASSERT_EQ(x_value(out_x.data(), n, t, i), rounded_bf16(out[32 * i + t]));
      }
      for (int i = n; i < static_cast<int>(round_up(n, 32)); ++i) {
        ASSERT_EQ(x_bits(out_x.data(), n, t, i), 0) << "padding";
      }
    }
  }
}

TEST_P(BlockNormTest, NormAndRopeHaveTheBitsOfTheRowKernels) {
  for (const auto& [n, layer, with_weight, with_bias, with_residual] : kNormCases) {
    const std::vector<float> x = random_floats(32 * n, n, 3.0F), weight = random_floats(n, 2);
    const std::vector<float> bias = random_floats(n, 3), residual = random_floats(32 * n, 4);
    std::vector<float> block(32 * n);
    NormBlock call = {};
    call.x = x.data(), call.n = n, call.eps = 1e-5F, call.offset = 0.25F, call.layer_norm = layer;
    call.weight = with_weight ? weight.data() : nullptr;
    call.bias = with_bias ? bias.data() : nullptr;
    call.residual = with_residual ? residual.data() : nullptr;
    call.out_f = block.data();
    blocks->norm(call);
    std::vector<float> in(n), added(n), out(n);
    for (int t = 0; t < 32; ++t) {
      blocks->block_to_row(x.data(), t, n, in.data());
      blocks->block_to_row(residual.data(), t, n, added.data());
      NormRow row = {};
      row.x = in.data(), row.weight = call.weight, row.bias = call.bias, row.out = out.data();
      row.residual = with_residual ? added.data() : nullptr;
      row.n = n, row.eps = call.eps, row.offset = call.offset, row.layer_norm = layer;
      row_kernels->norm(row);
      for (int i = 0; i < n; ++i) ASSERT_EQ(block[32 * i + t], out[i]) << n << " " << i << " " << t;
    }
  }
  for (const bool adjacent : {false, true}) {
    std::vector<float> x = random_floats(32 * 64, 1), row(64), cos(32), sin(32);
    const std::vector<float> before = x, c = random_floats(32 * 32, 2),
                             s = random_floats(32 * 32, 3);
    blocks->rope({x.data(), c.data(), s.data(), 64, adjacent});
    for (int t = 0; t < 32; ++t) {
      blocks->block_to_row(before.data(), t, 64, row.data());
      blocks->block_to_row(c.data(), t, 32, cos.data());
      blocks->block_to_row(s.data(), t, 32, sin.data());
      row_kernels->rope({row.data(), cos.data(), sin.data(), 64, adjacent});
      for (int i = 0; i < 64; ++i) ASSERT_EQ(x[32 * i + t], row[i]) << i << " " << t;
    }
  }
}

TEST_P(BlockNormTest, NormWorksInPlace) {
  const int dim = 208;
  std::vector<float> x = random_floats(32 * dim, 1), expected(32 * dim);
  const std::vector<float> weight = random_floats(dim, 2);
  NormBlock call = {};
  call.x = x.data(), call.weight = weight.data(), call.out_f = expected.data();
  call.n = dim, call.eps = 1e-6F, call.offset = 1.0F;
  blocks->norm(call);
  call.out_f = x.data();
  blocks->norm(call);
  EXPECT_EQ(x, expected);
}

TEST_P(BlockNormTest, RopeTurnsPairs) {
  const int dim = 48, rope_dim = 32;
  for (const bool adjacent : {false, true}) {
    std::vector<float> x = random_floats(32 * dim, 1);
    const std::vector<float> before = x, angle = random_floats(32 * rope_dim / 2, 2, 3.0F);
    std::vector<float> cos, sin;
    for (const float a : angle) cos.push_back(std::cos(a)), sin.push_back(std::sin(a));
    std::vector<float> apart(32 * dim, 0.0F);
    blocks->rope({apart.data(), cos.data(), sin.data(), rope_dim, adjacent, x.data()});
    ASSERT_EQ(x, before);
    blocks->rope({x.data(), cos.data(), sin.data(), rope_dim, adjacent});
    ASSERT_EQ(std::memcmp(apart.data(), x.data(), 4 * 32 * rope_dim), 0) << adjacent;
    for (int t = 0; t < 32; ++t) {
      for (int i = 0; i < rope_dim / 2; ++i) {
        const int first = adjacent ? 2 * i : i, second = adjacent ? 2 * i + 1 : i + rope_dim / 2;
        const double a = before[32 * first + t], b = before[32 * second + t];
        const double c = cos[32 * i + t], s = sin[32 * i + t];
        const double bound = 0x1p-22 * (std::abs(a) + std::abs(b));
        ASSERT_NEAR(x[32 * first + t], a * c - b * s, bound);
        ASSERT_NEAR(x[32 * second + t], b * c + a * s, bound);
      }
      for (int i = rope_dim; i < dim; ++i) ASSERT_EQ(x[32 * i + t], before[32 * i + t]);
    }
  }
}

TEST_P(BlockNormTest, RowsBecomeBlocksAndBlocksRows) {
  for (const int features : {1, 16, 33, 100}) {
    const std::size_t stride = features + 3;
    const std::vector<float> rows = random_floats(stride * 32, 1);
    for (const int n_rows : {1, 17, 32}) {
      std::vector<float> f(features * 32, NAN), row(features);
      blocks->rows_to_block(rows.data(), stride, n_rows, features, f.data());
      for (int t = 0; t < 32; ++t) {
        blocks->block_to_row(f.data(), t, features, row.data());
        for (int i = 0; i < features; ++i) {
          ASSERT_EQ(f[32 * i + t], t < n_rows ? rows[t * stride + i] : 0.0F);
          ASSERT_EQ(row[i], f[32 * i + t]);
        }
      }
    }
  }
}

TEST_P(BlockNormTest, ToXRoundsToNearestEven) {
  const int n = 65;
  std::vector<float> f = random_floats(32 * n, 9);
  f[0] = 0x1.01p0F, f[1] = 0x1.03p0F, f[2] = -0.0F, f[3] = INFINITY, f[4] = -INFINITY;
  f[5] = 0x1.fffffep127F;  // rounds to infinity
  f[6] = NAN;
  Aligned<std::uint16_t> x(96 * 32, 0xFFFF);
  blocks->to_x(f.data(), n, x.data());
  for (int t = 0; t < 32; ++t) {
    for (int i = 0; i < 96; ++i) {
      const float expected = i < n ? rounded_bf16(f[32 * i + t]) : 0.0F;
      const float actual = x_value(x.data(), n, t, i);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(actual)) << "NaN must survive";
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(actual), std::bit_cast<std::uint32_t>(expected));
      }
    }
  }
}

TEST_P(BlockNormTest, StoreCacheWritesTheBytesOfTheDefinitionAndSkipsPadding) {
  for (const int dim : {8, 40, 64, 160}) {
    const std::vector<float> x = random_floats(32 * dim, 1);
    for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::q8_0, DType::q4_0}) {
      if (dim % static_cast<int>(dtype_info(type).block_len) != 0) continue;
      for (const CacheSide side : {CacheSide::keys, CacheSide::values}) {
        const std::size_t bytes = 64 * row_bytes(type, static_cast<std::uint64_t>(dim));
        std::vector<std::byte> expected(2 * bytes, std::byte{0xAA}), pages = expected;
        CacheSlot to[32] = {};
        for (int t = 0; t < 32; ++t) {
          if (t == 4) continue;
          const std::size_t page = t < 15 ? 0 : bytes;
          const int slot = (7 * t + 50) % 64;
          to[t] = {pages.data() + page, slot};
          std::vector<float> row;
          for (int i = 0; i < dim; ++i) row.push_back(x[32 * i + t]);
          write_cache_row(type, side, dim, slot, row.data(), expected.data() + page);
        }
        blocks->store_cache({x.data(), dim, to, type, side});
        ASSERT_EQ(pages, expected) << dtype_info(type).name << " " << dim;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, BlockNormTest, kBlockIsas, isa_name);

}  // namespace
}  // namespace orrery::kernels
