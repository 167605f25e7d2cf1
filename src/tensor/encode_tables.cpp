// Types whose codes are those of a table: IQ4_NL, and MXFP4 and NVFP4 with scales of 8 bits.
#include <array>

#include "tensor/codebooks.hpp"
#include "tensor/encode_blocks.hpp"
#include "tensor/encode_search.hpp"

namespace orrery::encode {
namespace {

// E2M1 in ascending order, doubled; zero has one code here.
constexpr std::array<int, 15> kAscending = {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12};
using E2m1 = Table<kAscending>;

template <class Grid, std::size_t n>
void put_table_codes(const float* x, int length, float s, const std::array<int, n>& table,
                     std::uint8_t* at) {
  float q[32];
  int codes[32];
  snap_group<Grid>(x, length, s, q);
  for (int i = 0; i < length; ++i) codes[i] = index_of(table, q[i]);
  put_nibbles(at, codes, length);
}

void encode_iq4_nl(const float* x, const float* w, std::uint8_t* block) {
  const float s = as_f16(search_scale<Table<kNonLinear>>(x, w, 32));
  put_f16(block, s);
  put_table_codes<Table<kNonLinear>>(x, 32, s, kNonLinear, block + 2);
}

// Scales are powers of two: the byte e is 2^(e - 128), because the codes are doubled.
void encode_mxfp4(const float* x, const float* w, std::uint8_t* block) {
  const float extreme = std::abs(largest(x, 32));
  int best = 0;
  if (extreme > 0.0F) {
    const int middle = std::ilogb(extreme / 12.0F) + 128;
    float least = INFINITY;
    for (int e = std::max(middle - 1, 0); e <= std::min(middle + 2, 254); ++e) {
      const float error = scale_error<E2m1>(x, w, 32, std::ldexp(1.0F, e - 128));
      if (error >= least) continue;
      least = error;
      best = e;
    }
  }
  block[0] = static_cast<std::uint8_t>(best);
  put_table_codes<E2m1>(x, 32, std::ldexp(1.0F, best - 128), kE2m1, block + 1);
}

// Scales are E4M3 without a sign: the 126 values of codes 1 to 126 ascend.
void encode_nvfp4(const float* x, const float* w, std::uint8_t* block) {
  for (int group = 0; group < 4; ++group, x += 16, w += 16) {
    const float wanted = std::abs(search_scale<E2m1>(x, w, 16));
    int middle = 1;
    while (middle < 126 && 0.5F * ue4m3(static_cast<std::uint8_t>(middle)) < wanted) ++middle;
    float least = INFINITY, scale = 0.0F;
    for (int code = std::max(middle - 2, 0); code <= std::min(middle + 1, 126); ++code) {
      const float s = 0.5F * ue4m3(static_cast<std::uint8_t>(code));
      const float error = scale_error<E2m1>(x, w, 16, s);
      if (error >= least) continue;
      least = error;
      scale = s;
      block[group] = static_cast<std::uint8_t>(code);
    }
    put_table_codes<E2m1>(x, 16, scale, kE2m1, block + 4 + 8 * group);
  }
}

}  // namespace

EncodeBlock encoder_of_table(DType type) {
  switch (type) {
    case DType::iq4_nl:
      return encode_iq4_nl;
    case DType::mxfp4:
      return encode_mxfp4;
    case DType::nvfp4:
      return encode_nvfp4;
    default:
      return nullptr;
  }
}

}  // namespace orrery::encode
