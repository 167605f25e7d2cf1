// A token's keys or values of one head into their page.
#pragma once

#include "kernels/body/cache_store.hpp"
#include "kernels/body/cache_types.hpp"
#include "kernels/body/row_elementwise.hpp"

namespace orrery::kernels {
namespace {

inline void store_cache_row(const StoreCacheRow& a) {
  if (is_quantized_cache(a.type)) {
    for (int i = 0; i < a.dim; i += kCacheGroup) {
      store_cache_block(a.type, a.side, a.dim, a.slot, i / kCacheGroup, V::load(a.x + i),
                        V::load(a.x + i + 16), a.bytes);
    }
    return;
  }
  const std::size_t n = static_cast<std::size_t>(a.dim);
  std::byte* row = a.bytes + element_bytes(a.type) * n * static_cast<std::size_t>(a.slot);
  if (a.type == DType::f32) {
    __builtin_memcpy(row, a.x, 4 * n);
  } else if (a.type == DType::bf16) {
    to_bf16(a.x, row, a.dim);
  } else {
    to_f16(a.x, row, a.dim);
  }
}

}  // namespace
}  // namespace orrery::kernels
