// Records of a packed panel (tensor/packed.hpp) -> blocks as files have them.
#pragma once

#include "kernels/isa/vec.hpp"
#include "tensor/packed.hpp"

namespace orrery::kernels {
namespace {

// Bit 8 b + i of each lane becomes bit 4 i + b.
ORRERY_INLINE V::I from_planes(V::I planes) {
  const auto spread = [](V::I byte) {  // bit i of eight to bit 4 i
    V::I x = V::and_i(byte, V::splat_i(0xFF));
    x = V::and_i(V::or_i(x, V::shl<12>(x)), V::splat_i(0x000F000F));
    x = V::and_i(V::or_i(x, V::shl<6>(x)), V::splat_i(0x03030303));
    return V::and_i(V::or_i(x, V::shl<3>(x)), V::splat_i(0x11111111));
  };
  V::I bits = spread(planes);
  bits = V::or_i(bits, V::shl<1>(spread(V::shr<8>(planes))));
  bits = V::or_i(bits, V::shl<2>(spread(V::shr<16>(planes))));
  return V::or_i(bits, V::shl<3>(spread(V::shr<24>(planes))));
}

// A record to sixteen blocks, one after the other; without kHeaders their one or two halves are
// left out.
template <DType type, int kBytes, bool kHeaders>
ORRERY_INLINE void record_to_blocks(const std::uint8_t* record, std::uint8_t* blocks) {
  constexpr PackedRecord kRecord = packed_record(type);
  constexpr int kFifthAt = kRecord.minimum != 0 ? 4 : 2;
  constexpr int kCodesAt = kRecord.fifth != 0 ? kFifthAt + 4 : kFifthAt;
  if constexpr (kHeaders) {
    for (int r = 0; r < kPackedRows; ++r) {
      __builtin_memcpy(blocks + r * kBytes, record + 2 * r, 2);
      if constexpr (kRecord.minimum != 0)
        __builtin_memcpy(blocks + r * kBytes + 2, record + kRecord.minimum + 2 * r, 2);
    }
  }
  if constexpr (kRecord.fifth != 0) {
    std::uint32_t fifth[kPackedRows];
    const auto* planes = reinterpret_cast<const float*>(record + kRecord.fifth);
    V::store(reinterpret_cast<float*>(fifth), V::as_float(from_planes(V::as_int(V::load(planes)))));
    for (int r = 0; r < kPackedRows; ++r)
      __builtin_memcpy(blocks + r * kBytes + kFifthAt, fifth + r, 4);
  }
  for (int word = 0; word < kRecord.words; word += 4) {
    const std::uint8_t* codes = record + kRecord.codes + 64 * word;
    V::B rows[4] = {V::load_b(codes), V::load_b(codes + 64), V::load_b(codes + 128),
                    V::load_b(codes + 192)};
    V::transpose_words(rows[0], rows[1], rows[2], rows[3]);
    for (int r = 0; r < 4; ++r)
      V::store_groups(blocks + r * kBytes + kCodesAt + 4 * word, 4 * kBytes, rows[r]);
  }
}

}  // namespace
}  // namespace orrery::kernels
