// Block attention against softmax in double precision over the same rounded operands.
#include <algorithm>
#include <string>

#include "kernels/block_support.hpp"

namespace orrery::kernels {
namespace {

struct Case {
  int k_dim, v_dim, heads, tokens, first;
  std::uint32_t window = 0;
  float softcap = 0.0F;
  DType k_type = DType::f16, v_type = DType::f16;
  bool causal = true;
  bool sinks = false;
};

// A cache of one kv head in shuffled pages; what lies behind the last query is NaN.
struct Cache {
  Case c;
  int keys, pages;
  std::size_t page_bytes, head_offset = 128;
  std::vector<float> k, v;  // (keys, dim), as stored
  std::vector<std::byte> pool;
  std::vector<std::int32_t> table;

  explicit Cache(const Case& shape) : c(shape), keys(shape.first + shape.tokens) {
    pages = (keys + 63) / 64;
    const std::size_t k_row = row_bytes(c.k_type, std::uint64_t(c.k_dim));
    const std::size_t v_row = row_bytes(c.v_type, std::uint64_t(c.v_dim));
    page_bytes = head_offset + 64 * (k_row + v_row) + 64;
    pool.assign(page_bytes * (pages + 1), std::byte{0xFF});
    for (int i = 0; i < pages; ++i) table.push_back(pages - i);  // page 0 of the pool is not used
    k = random_floats(std::size_t(keys) * c.k_dim, 1);
    v = random_floats(std::size_t(keys) * c.v_dim, 2);
    for (int key = 0; key < keys; ++key) {
      std::byte* page = pool.data() + table[key / 64] * page_bytes + head_offset;
      const int slot = key % 64;
      put(c.k_type, CacheSide::keys, slot, page, k.data() + std::size_t(key) * c.k_dim, c.k_dim);
      put(c.v_type, CacheSide::values, slot, page + 64 * k_row,
          v.data() + std::size_t(key) * c.v_dim, c.v_dim);
    }
  }
  static void put(DType type, CacheSide side, int slot, std::byte* bytes, float* row, int n) {
    write_cache_row(type, side, n, slot, row, bytes);
    read_cache_row(type, side, n, slot, bytes, row);
    for (int i = 0; i < n; ++i) row[i] = rounded_bf16(row[i]);
  }
};

constexpr float kSinks[] = {1.5F, -4.0F, 6.0F};  // of the heads

class BlockAttentionTest : public BlockTest {
 protected:
  // Queries (tokens, heads, k_dim) -> outputs (tokens, heads, v_dim), `blocks_per_call` at a time.
  std::vector<float> run(const Cache& cache, const std::vector<float>& q, int per_call,
                         int first_token = 0) {
    const Case& c = cache.c;
    const int q_features = c.heads * c.k_dim, features = c.heads * c.v_dim;
    const int tokens = c.tokens - first_token, n_blocks = (tokens + 31) / 32;
    std::vector<float> rows(q.begin() + std::size_t(first_token) * q_features, q.end());
    Aligned<float> f(std::size_t(n_blocks) * q_features * 32);
    fill_f_blocks(rows, tokens, q_features, 0.5F, f.data());
    Aligned<float> out(std::size_t(n_blocks) * features * 32, NAN);
    const std::size_t x_block = round_up(features, 32) * 64;
    Aligned<std::byte> out_x(n_blocks * x_block, std::byte{0xFF});
    Aligned<std::byte> scratch(blocks->attention_scratch_bytes(c.k_dim, c.v_dim), std::byte{0xFF});
    for (int b = 0; b < n_blocks; b += per_call) {
      AttentionBlock call = {};
      call.q = f.data() + std::size_t(b) * q_features * 32;
      call.k_dim = c.k_dim, call.v_dim = c.v_dim;
      call.blocks = std::min(per_call, n_blocks - b), call.heads = c.heads;
      call.first_position = c.first + first_token + 32 * b;
      call.n_tokens = std::min(32 * call.blocks, tokens - 32 * b);
      call.last_key = c.causal ? -1 : cache.keys - 1;
      call.window = c.window, call.scale = 0.2F, call.softcap = c.softcap;
      call.sinks = c.sinks ? kSinks : nullptr;
      call.pool = cache.pool.data(), call.page_bytes = cache.page_bytes;
      call.head_offset = cache.head_offset, call.pages = cache.table.data();
      call.k_type = c.k_type, call.v_type = c.v_type, call.scratch = scratch.data();
      call.q_block_stride = std::size_t(q_features) * 32;
      call.out_f_block_stride = std::size_t(features) * 32, call.out_x_block_stride = x_block;
      call.out_f = out.data() + std::size_t(b) * features * 32;
      call.out_x = out_x.data() + b * x_block, call.out_features = features;
      blocks->attention(call);
    }
    std::vector<float> result;
    for (int t = 0; t < tokens; ++t) {
      for (int i = 0; i < features; ++i) {
        result.push_back(f_value(out.data(), features, t, i));
        EXPECT_EQ(x_value(out_x.data(), features, t, i), rounded_bf16(result.back()));
      }
      for (int i = features; i < static_cast<int>(round_up(features, 32)); ++i) {
        EXPECT_EQ(x_bits(out_x.data(), features, t, i), 0) << "padding";
      }
    }
    return result;
  }

  void check(const Case& c) {
    const Cache cache(c);
    std::vector<float> q = random_floats(std::size_t(c.tokens) * c.heads * c.k_dim, 3, 2.0F);
    const std::vector<float> out = run(cache, q, std::max(1, kMaxAttentionUnits / c.heads));
    std::vector<double> p(cache.keys);
    for (int t = 0; t < c.tokens; ++t) {
      const int at = c.first + t;
      const int from =
          c.window == 0
              ? 0
              : static_cast<int>(std::max<std::int64_t>(0, at - std::int64_t{c.window} + 1));
      int to = c.causal ? at : cache.keys - 1;
      if (c.window != 0) {
        to = static_cast<int>(std::min<std::int64_t>(to, at - 1 + std::int64_t{c.window}));
      }
      for (int h = 0; h < c.heads; ++h) {
        double top = -1e30, sum = 0;
        for (int key = from; key <= to; ++key) {
          double s = 0;
          for (int i = 0; i < c.k_dim; ++i) {
            s += double(rounded_bf16(q[(std::size_t(t) * c.heads + h) * c.k_dim + i])) *
                 cache.k[std::size_t(key) * c.k_dim + i];
          }
          s *= 0.2F;
          if (c.softcap > 0) s = c.softcap * std::tanh(s / c.softcap);
          p[key] = s, top = std::max(top, s);
        }
        if (c.sinks) top = std::max(top, double{kSinks[h]}), sum = std::exp(kSinks[h] - top);
        for (int key = from; key <= to; ++key) sum += p[key] = std::exp(p[key] - top);
        for (int i = 0; i < c.v_dim; ++i) {
          double y = 0, size = 0;
          for (int key = from; key <= to; ++key) {
            const double term = p[key] / sum * cache.v[std::size_t(key) * c.v_dim + i];
            y += term, size += std::abs(term);
          }
          // Each weight is rounded to bf16 (2^-8); the rest is f32.
          const double bound = size * (0x1p-8 + 1e-4) + 1e-6;
          ASSERT_NEAR(out[(std::size_t(t) * c.heads + h) * c.v_dim + i], y, bound)
              << "token " << t << " head " << h << " feature " << i;
        }
      }
    }
  }
};

TEST_P(BlockAttentionTest, CausalFromTheStart) {
  check({.k_dim = 64, .v_dim = 64, .heads = 3, .tokens = 150, .first = 0});
}
TEST_P(BlockAttentionTest, OneTokenAlone) {
  check({.k_dim = 64, .v_dim = 64, .heads = 1, .tokens = 1, .first = 0});
}
TEST_P(BlockAttentionTest, PositionsBehindAPrefix) {
  check({.k_dim = 64, .v_dim = 64, .heads = 2, .tokens = 40, .first = 203});
}
TEST_P(BlockAttentionTest, DimensionsThatNeedPadding) {
  check({.k_dim = 16, .v_dim = 16, .heads = 4, .tokens = 70, .first = 5});
  check({.k_dim = 24, .v_dim = 40, .heads = 1, .tokens = 33, .first = 64});
  check({.k_dim = 8, .v_dim = 8, .heads = 2, .tokens = 20, .first = 60});
}
TEST_P(BlockAttentionTest, LargeHeads) {
  check({.k_dim = 128, .v_dim = 128, .heads = 1, .tokens = 64, .first = 64});
  check({.k_dim = 256, .v_dim = 256, .heads = 1, .tokens = 35, .first = 30});
  check({.k_dim = 192, .v_dim = 128, .heads = 1, .tokens = 35, .first = 30});
}
TEST_P(BlockAttentionTest, Windows) {
  for (const std::uint32_t window : {1U, 5U, 32U, 64U, 100U, 1000U, 0xFFFFFFFFU}) {
    check({.k_dim = 32, .v_dim = 32, .heads = 2, .tokens = 100, .first = 0, .window = window});
    check({.k_dim = 32, .v_dim = 32, .heads = 2, .tokens = 77, .first = 130, .window = window});
  }
}
TEST_P(BlockAttentionTest, BothWays) {
  for (const std::uint32_t window : {0U, 1U, 40U, 100U, 0xFFFFFFFFU}) {
    check({.k_dim = 32,
           .v_dim = 32,
           .heads = 2,
           .tokens = 150,
           .first = 0,
           .window = window,
           .causal = false});
  }
  check({.k_dim = 64, .v_dim = 64, .heads = 3, .tokens = 1, .first = 0, .causal = false});
}
TEST_P(BlockAttentionTest, Softcap) {
  check({.k_dim = 64, .v_dim = 64, .heads = 2, .tokens = 70, .first = 10, .softcap = 3.0F});
}
TEST_P(BlockAttentionTest, Sinks) {
  check({.k_dim = 64, .v_dim = 64, .heads = 3, .tokens = 70, .first = 70, .sinks = true});
  check({.k_dim = 32,
         .v_dim = 32,
         .heads = 2,
         .tokens = 40,
         .first = 99,
         .window = 5,
         .sinks = true});
}
TEST_P(BlockAttentionTest, CacheTypes) {
  const DType types[] = {DType::f16, DType::bf16, DType::f32, DType::q8_0, DType::q4_0};
  for (const DType k : types) {
    for (const DType v : types) {
      check({.k_dim = is_quantized_cache(k) ? 160 : 40,
             .v_dim = 64,
             .heads = 2,
             .tokens = 70,
             .first = 10,
             .k_type = k,
             .v_type = v});
    }
  }
}

TEST_P(BlockAttentionTest, BitsDependNeitherOnGroupingNorOnChunks) {
  for (const std::uint32_t window : {0U, 50U}) {
    const Case c{
        .k_dim = 32, .v_dim = 32, .heads = 2, .tokens = 150, .first = 17, .window = window};
    const Cache cache(c);
    const std::vector<float> q = random_floats(std::size_t(c.tokens) * c.heads * c.k_dim, 3, 2.0F);
    const std::vector<float> together = run(cache, q, 8);
    const std::vector<float> apart = run(cache, q, 1);
    ASSERT_EQ(std::memcmp(together.data(), apart.data(), apart.size() * 4), 0);
    const std::vector<float> later = run(cache, q, 2, 45);  // other tokens share a block
    ASSERT_EQ(std::memcmp(together.data() + 45 * 64, later.data(), later.size() * 4), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, BlockAttentionTest, kBlockIsas, isa_name);

}  // namespace
}  // namespace orrery::kernels
