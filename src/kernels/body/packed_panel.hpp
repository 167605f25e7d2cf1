// Panels that lie ready in a weight (tensor/packed.hpp), for multiply_panels of row_panel.hpp.
#pragma once

#include "kernels/body/blocks_32.hpp"
#include "kernels/row_kernels.hpp"
#include "tensor/packed.hpp"

namespace orrery::kernels {
namespace {

template <class Format, DType type>
struct PackedPanel {
  static constexpr int kGroup = 32, kWords = 8;
  static constexpr bool kMin = Format::kMin, kSigned = Format::kSigned;
  static constexpr PackedRecord kRecord = packed_record(type);

  const std::uint8_t* partial[4];  // the records of each partial sum

  PackedPanel() = default;
  [[gnu::always_inline]] PackedPanel(const std::uint8_t* slab, int groups) {
    for (int p = 0; p < 4; ++p) {
      partial[p] = slab;
      slab += packed_partial(groups, p) * kRecord.bytes;
    }
  }

  [[gnu::always_inline]] const std::uint8_t* record(int g) const {
    return partial[g % 4] + g / 4 * kRecord.bytes;
  }
  [[gnu::always_inline]] void fetch(int g) const {
    constexpr int kAhead = 2048;
    const std::uint8_t* at = record(g) + kAhead;
    for (int i = 0; i < kRecord.bytes; i += 64) __builtin_prefetch(at + i, 0, 3);
  }
  template <int i>
  [[gnu::always_inline]] V::B word(int g) const {
    const V::B bytes = V::load_b(record(g) + kRecord.codes + 64 * (i % kRecord.words));
    if constexpr (kSigned) return V::signed_codes(bytes);
    const V::B nibbles = i < 4 ? V::low_nibbles(bytes) : V::high_nibbles(bytes);
    if constexpr (kRecord.fifth == 0) return nibbles;
    return V::or_b(nibbles, fifth<i>(g));
  }
  [[gnu::always_inline]] V::F scale(int g) const { return V::load_f16(record(g)); }
  [[gnu::always_inline]] V::F minimum(int g) const {
    return V::load_f16(record(g) + kRecord.minimum);
  }

 private:
  // Bit i of each byte, as bit 4.
  template <int i>
  [[gnu::always_inline]] V::B fifth(int g) const {
    const V::I planes =
        V::as_int(V::load(reinterpret_cast<const float*>(record(g) + kRecord.fifth)));
    V::I bits;
    if constexpr (i < 4) {
      bits = V::shl<4 - i>(planes);
    } else {
      bits = V::shr<i - 4>(planes);
    }
    return V::as_bytes(V::as_float(V::and_i(bits, V::splat_i(0x10101010))));
  }
};

}  // namespace
}  // namespace orrery::kernels
