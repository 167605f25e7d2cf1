// The plain element types of cached keys and values, and how 16 elements of a row become floats.
#pragma once

#include "kernels/isa/vec.hpp"
#include "tensor/cache_page.hpp"
#include "tensor/dtype.hpp"

namespace orrery::kernels {
namespace {

struct CacheF16 {
  static constexpr int kBytes = 2;
  ORRERY_INLINE V::F load(const std::byte* p, int n) {
    return n >= 16 ? V::load_f16(p) : V::load_f16_partial(p, n);
  }
};

struct CacheBf16 {
  static constexpr int kBytes = 2;
  ORRERY_INLINE V::F load(const std::byte* p, int n) {
    return n >= 16 ? V::load_bf16(p) : V::load_bf16_partial(p, n);
  }
};

struct CacheF32 {
  static constexpr int kBytes = 4;
  ORRERY_INLINE V::F load(const std::byte* p, int n) {
    const auto* q = reinterpret_cast<const float*>(p);
    return n >= 16 ? V::load(q) : V::load_partial(q, n);
  }
};

// function(CacheF16{}), or that of another type.
template <class Function>
[[gnu::always_inline]] inline auto with_cache(DType type, Function function) {
  if (type == DType::f32) return function(CacheF32{});
  if (type == DType::bf16) return function(CacheBf16{});
  return function(CacheF16{});
}

ORRERY_INLINE std::size_t element_bytes(DType type) {
  return type == DType::f32 ? 4 : 2;
}
// Of a token: keys or values of one head.
ORRERY_INLINE std::size_t cache_row_bytes(DType type, int dim) {
  if (is_quantized_cache(type)) {
    return static_cast<std::size_t>(dim / kCacheGroup * cache_block_bytes(type));
  }
  return element_bytes(type) * static_cast<std::size_t>(dim);
}
// The first n (at most 16) elements from p, the others zero.
ORRERY_INLINE V::F load_cache(DType type, const std::byte* p, int n) {
  return with_cache(type, [&](auto cache) { return cache.load(p, n); });
}

}  // namespace
}  // namespace orrery::kernels
