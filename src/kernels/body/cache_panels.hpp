// The keys and values of a page as bf16 panels, the A operands of block attention's products.
#pragma once

#include "kernels/body/block_layout.hpp"
#include "kernels/body/block_product.hpp"
#include "kernels/body/cache_types.hpp"
#include "kernels/body/packed_rows.hpp"

namespace orrery::kernels {
namespace {

constexpr int kPageKeys = kCachePageTokens;

template <class P>
struct CachePanels {
  // Keys -> [2][steps of 32 elements] panel steps. Those from `filled` on are zero.
  static void keys(DType type, const std::byte* bytes, int dim, int filled, std::uint8_t* panels) {
    if (type == DType::q8_0) {
      packed_keys<WeightQ80>(bytes, dim, filled, panels);
    } else if (type == DType::q4_0) {
      packed_keys<WeightQ40>(bytes, dim, filled, panels);
    } else {
      plain_keys(type, bytes, dim, filled, panels);
    }
  }

  // Values -> [panels of 32 elements][2 halves of the keys] panel steps.
  static void values(DType type, const std::byte* bytes, int dim, int filled,
                     std::uint8_t* panels) {
    const auto transpose = [&](auto load) {
      for (int base = 0; base < (dim + 31) / 32 * 32; base += 16) {
        for (int half = 0; half < 2; ++half) {
          transposed(base, half, load, panels + (base / 32 * 2 + half) * P::kStepBytes);
        }
      }
    };
    if (type == DType::q8_0) {
      transpose(PairsQ8{bytes, filled});
    } else if (type == DType::q4_0) {
      transpose(PairsQ4{bytes, filled});
    } else {
      transpose(PlainPairs{type, bytes, dim, filled});
    }
  }

 private:
  static std::uint8_t* key_panel(std::uint8_t* panels, int dim, int key) {
    return panels + static_cast<std::size_t>(key / 32 * ((dim + 31) / 32)) * P::kStepBytes;
  }

  static void plain_keys(DType type, const std::byte* bytes, int dim, int filled,
                         std::uint8_t* panels) {
    for (int key = 0; key < kPageKeys; ++key, bytes += cache_row_bytes(type, dim)) {
      std::uint8_t* step = key_panel(panels, dim, key);
      for (int base = 0; base < dim; base += 32, step += P::kStepBytes) {
        P::pack(step, key % 32, cut_load(type, bytes, base, dim, key < filled),
                cut_load(type, bytes, base + 16, dim, key < filled));
      }
    }
  }

  template <class W>
  static void packed_keys(const std::byte* bytes, int dim, int filled, std::uint8_t* panels) {
    const int groups = dim / kCacheGroup;
    for (int first = 0; first < kPageKeys; first += kPackedRows) {
      const auto* packed = reinterpret_cast<const std::uint8_t*>(bytes) +
                           static_cast<std::size_t>(first * groups) * W::kBytes;
      std::uint8_t* step = key_panel(panels, dim, first);
      for (int g = 0; g < groups; ++g, step += P::kStepBytes) {
        std::uint8_t blocks[kPackedRows * W::kBytes];
        record_to_blocks<W::kType, W::kBytes, true>(
            packed + packed_position(g, groups) * packed_record(W::kType).bytes, blocks);
        for (int r = 0; r < kPackedRows; ++r) {
          const std::uint8_t* block = blocks + r * W::kBytes;
          if (first + r < filled) {
            P::template pack_weights<W>(step, (first + r) % 32, block, W::open(block), 0);
          } else {
            P::pack(step, (first + r) % 32, V::zero(), V::zero());
          }
        }
      }
    }
  }

  // 16 elements of a row from `base`; beyond dim, or where not valid, zero.
  static V::F cut_load(DType type, const std::byte* row, int base, int dim, bool valid) {
    const int count = !valid || base >= dim ? 0 : dim - base < 16 ? dim - base : 16;
    return load_cache(type, row + element_bytes(type) * static_cast<std::size_t>(base), count);
  }

  // Elements base.. of keys `key` and key + 1.
  struct PlainPairs {
    DType type;
    const std::byte* bytes;
    int dim, filled;
    void operator()(int base, int key, V::F& even, V::F& odd) const {
      const std::size_t row_bytes = cache_row_bytes(type, dim);
      const std::byte* row = bytes + row_bytes * static_cast<std::size_t>(key);
      even = cut_load(type, row, base, dim, key < filled);
      odd = cut_load(type, row + row_bytes, base, dim, key + 1 < filled);
    }
  };

  // Two bytes of each lane, in its upper half: one of each key.
  static V::I code_pairs(const std::byte* codes) { return V::as_int(V::load_bf16(codes)); }
  // Codes times the scale of key `key`, f16 at d.
  static V::F scaled_codes(V::I codes, const std::byte* d, int key, int filled) {
    if (key >= filled) return V::zero();
    return V::mul(splat_half(reinterpret_cast<const Byte*>(d) + 2 * key), V::to_float(codes));
  }

  struct PairsQ8 {
    const std::byte* bytes;
    int filled;
    void operator()(int base, int key, V::F& even, V::F& odd) const {
      const std::byte* d = bytes + base / 32 * kPageKeys * cache_block_bytes(DType::q8_0);
      const V::I both = code_pairs(d + 2 * kPageKeys + 32 * key + 2 * (base % 32));
      even = scaled_codes(signed_byte(V::shl<8>(both)), d, key, filled);
      odd = scaled_codes(signed_byte(both), d, key + 1, filled);
    }
    // The top byte of each lane.
    static V::I signed_byte(V::I a) {
      const V::I bias = V::splat_i(128);
      return V::sub_i(V::and_i(V::add_i(V::shr<24>(a), bias), V::splat_i(255)), bias);
    }
  };

  struct PairsQ4 {
    const std::byte* bytes;
    int filled;
    void operator()(int base, int key, V::F& even, V::F& odd) const {
      const std::byte* d = bytes + base / 32 * kPageKeys * cache_block_bytes(DType::q4_0);
      V::I both = code_pairs(d + 2 * kPageKeys + 16 * key);
      if (base % 32 == 0) both = V::shl<4>(both);  // low nibbles to where the high ones are
      even = scaled_codes(nibble(V::shl<8>(both)), d, key, filled);
      odd = scaled_codes(nibble(both), d, key + 1, filled);
    }
    static V::I nibble(V::I a) { return V::sub_i(V::shr<28>(a), V::splat_i(8)); }
  };

  template <class Load>
  static void transposed(int base, int half, const Load& load, std::uint8_t* step) {
    alignas(64) float pairs[16][16];
    V::F v[16];  // [pair of keys][feature], then [feature][pair of keys]
    for (int i = 0; i < 16; ++i) {
      V::F even, odd;
      load(base, 32 * half + 2 * i, even, odd);
      store_bf16_pairs(pairs[i], even, odd);
    }
    for (int i = 0; i < 16; ++i) v[i] = V::load(pairs[i]);
    transpose16(v);
    for (int i = 0; i < 16; ++i) {
      P::place(step, base % 32 + i,
               [&](void* target) { V::store(static_cast<float*>(target), v[i]); });
    }
  }
};

}  // namespace
}  // namespace orrery::kernels
