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

// Groups [first, first + count) of a panel: block j of row r goes to out + r * stride + j * kBytes.
template <DType type, int kBytes>
ORRERY_INLINE void unpack_records(const std::uint8_t* panel, int groups, int first, int count,
                                  std::uint8_t* out, std::size_t stride) {
  constexpr PackedRecord kRecord = packed_record(type);
  constexpr int kFifthAt = kRecord.minimum != 0 ? 4 : 2;
  constexpr int kCodesAt = kRecord.fifth != 0 ? kFifthAt + 4 : kFifthAt;
  for (int j = 0; j < count; ++j, out += kBytes) {
    const std::uint8_t* in = panel + packed_position(first + j, groups) * kRecord.bytes;
    std::uint32_t fifth[kPackedRows];
    if constexpr (kRecord.fifth != 0) {
      const auto* planes = reinterpret_cast<const float*>(in + kRecord.fifth);
      V::store(reinterpret_cast<float*>(fifth),
               V::as_float(from_planes(V::as_int(V::load(planes)))));
    }
    for (int r = 0; r < kPackedRows; ++r) {
      std::uint8_t* to = out + static_cast<std::size_t>(r) * stride;
      __builtin_memcpy(to, in + 2 * r, 2);
      if constexpr (kRecord.minimum != 0) __builtin_memcpy(to + 2, in + kRecord.minimum + 2 * r, 2);
      if constexpr (kRecord.fifth != 0) __builtin_memcpy(to + kFifthAt, fifth + r, 4);
    }
    for (int word = 0; word < kRecord.words; word += 4) {
      const std::uint8_t* codes = in + kRecord.codes + 64 * word;
      V::B rows[4] = {V::load_b(codes), V::load_b(codes + 64), V::load_b(codes + 128),
                      V::load_b(codes + 192)};
      V::transpose_words(rows[0], rows[1], rows[2], rows[3]);
      for (int r = 0; r < 4; ++r) {
        V::store_groups(out + static_cast<std::size_t>(r) * stride + kCodesAt + 4 * word,
                        4 * stride, rows[r]);
      }
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
