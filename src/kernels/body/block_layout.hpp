// Moves between rows, F blocks, X blocks and pages of the KV cache.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/cache_store.hpp"
#include "kernels/body/cache_types.hpp"
#include "kernels/isa/widen.hpp"

namespace orrery::kernels {
namespace {

// Features f and f + 1 (f even) of tokens 16 half.. into an X block.
ORRERY_INLINE void store_x_pair(void* x_block, int f, int half, V::F even, V::F odd) {
  std::uint8_t* x = static_cast<std::uint8_t*>(x_block);
  store_bf16_pairs(x + f / 32 * 2048 + 1024 * half + f % 32 * 32, even, odd);
}

// Features from n (rounded up to a pair) to the next multiple of 32 become zero.
inline void pad_x(void* x_block, int n) {
  for (int f = (n + 1) / 2 * 2; f % 32 != 0; f += 2) {
    store_x_pair(x_block, f, 0, V::zero(), V::zero());
    store_x_pair(x_block, f, 1, V::zero(), V::zero());
  }
}

void block_to_x(const float* f_block, int n, void* x_block) {
  for (int f = 0; f < n; f += 2) {
    for (int half = 0; half < 2; ++half) {
      const float* source = f_block + 32 * f + 16 * half;
      const V::F odd = f + 1 < n ? V::load(source + 32) : V::zero();
      store_x_pair(x_block, f, half, V::load(source), odd);
    }
  }
  pad_x(x_block, n);
}

void block_from_rows(const float* rows, std::size_t stride, int n_rows, int features, float* f) {
  for (int half = 0; half < 32; half += 16) {
    for (int base = 0; base < features; base += 16) {
      const int count = features - base < 16 ? features - base : 16;
      V::F v[16];  // [token][feature], then [feature][token]
      for (int i = 0; i < 16; ++i) {
        v[i] = half + i < n_rows ? V::load_partial(rows + (half + i) * stride + base, count)
                                 : V::zero();
      }
      transpose16(v);
      for (int i = 0; i < count; ++i) V::store(f + 32 * (base + i) + half, v[i]);
    }
  }
}

// Rows (n_rows <= 32, features) -> X block, without an F block between; groups of 16 tokens that
// have no row stay as they are.
void rows_to_x(const float* rows, std::size_t stride, int n_rows, int features, void* x_block) {
  for (int half = 0; 16 * half < n_rows; ++half) {
    for (int base = 0; base < features; base += 16) {
      const int count = features - base < 16 ? features - base : 16;
      V::F v[16];  // [token][feature], then [feature][token]
      for (int i = 0; i < 16; ++i) {
        const int row = 16 * half + i;
        v[i] = row < n_rows ? V::load_partial(rows + row * stride + base, count) : V::zero();
      }
      transpose16(v);
      for (int i = 0; i < 16; i += 2) store_x_pair(x_block, base + i, half, v[i], v[i + 1]);
    }
    for (int f = (features + 15) / 16 * 16; f % 32 != 0; f += 2) {
      store_x_pair(x_block, f, half, V::zero(), V::zero());
    }
  }
}

void block_to_row(const float* f, int t, int features, float* row) {
  for (int i = 0; i < features; ++i) row[i] = f[32 * i + t];
}

// 16 tokens of a half of a block: features base.. of each, count at most.
ORRERY_INLINE void load_tokens(const float* x, int half, int base, int count, V::F* v) {
  for (int i = 0; i < 16; ++i) {
    v[i] = i < count ? V::load(x + 32 * (base + i) + 16 * half) : V::zero();
  }
  transpose16(v);  // [feature][token], then [token][feature]
}

void store_plain_cache(const StoreCacheBlock& a, int half) {
  for (int base = 0; base < a.dim; base += 16) {
    const int count = a.dim - base < 16 ? a.dim - base : 16;
    V::F v[16];
    load_tokens(a.x, half, base, count, v);
    for (int i = 0; i < 16; ++i) {
      const CacheSlot& to = a.to[16 * half + i];
      if (to.bytes == nullptr) continue;
      std::byte* row = to.bytes + element_bytes(a.type) * static_cast<std::size_t>(a.dim * to.slot);
      if (a.type == DType::f32) {
        V::store_partial(reinterpret_cast<float*>(row) + base, v[i], count);
      } else if (a.type == DType::bf16) {
        std::uint16_t values[16];
        V::store_bf16(values, v[i]);
        __builtin_memcpy(row + 2 * base, values, 2 * static_cast<std::size_t>(count));
      } else {
        V::store_f16_partial(row + 2 * base, v[i], count);
      }
    }
  }
}

void store_quantized_cache(const StoreCacheBlock& a, int half) {
  for (int base = 0; base < a.dim; base += kCacheGroup) {
    V::F low[16], high[16];
    load_tokens(a.x, half, base, 16, low);
    load_tokens(a.x, half, base + 16, 16, high);
    for (int i = 0; i < 16; ++i) {
      const CacheSlot& to = a.to[16 * half + i];
      if (to.bytes == nullptr) continue;
      store_cache_block(a.type, a.side, a.dim, to.slot, base / kCacheGroup, low[i], high[i],
                        to.bytes);
    }
  }
}

void block_store_cache(const StoreCacheBlock& a) {
  for (int half = 0; half < 2; ++half) {
    if (is_quantized_cache(a.type)) {
      store_quantized_cache(a, half);
    } else {
      store_plain_cache(a, half);
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
