// Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0: blocks of 32 with a scale in F16, and a minimum where the name
// ends in 1.
#include <array>

#include "tensor/encode_blocks.hpp"
#include "tensor/encode_search.hpp"

namespace orrery::encode {
namespace {

constexpr int kBlock = 32;
using Codes = std::array<int, kBlock>;

// The scale as the file will hold it, and codes from 0 on.
template <int low, int high>
float symmetric(const float* x, const float* w, Codes& codes) {
  using Grid = Integers<low, high>;
  const float s = as_f16(search_scale<Grid>(x, w, kBlock));
  float q[kBlock];
  snap_group<Grid>(x, kBlock, s, q);
  for (int i = 0; i < kBlock; ++i) codes[i] = static_cast<int>(q[i]) - low;
  return s;
}

// The same with a minimum: x ~ s q + m.
Affine with_minimum(const float* x, const float* w, float top, Codes& codes) {
  Affine a = search_affine(x, w, kBlock, top, false);
  a = {as_f16(a.s), as_f16(a.m)};
  const float inv = inverse(a.s);
  for (int i = 0; i < kBlock; i += 4) {
    const Lanes q = affine_codes(load(x + i), inv, a.m, top);
    for (int lane = 0; lane < 4; ++lane) codes[i + lane] = static_cast<int>(q[lane]);
  }
  return a;
}

void put_fifth_bits(std::uint8_t* at, const Codes& codes) {
  std::uint32_t bits = 0;
  for (int i = 0; i < kBlock; ++i) bits |= (static_cast<std::uint32_t>(codes[i]) >> 4 & 1U) << i;
  std::memcpy(at, &bits, 4);
}

void encode_q4_0(const float* x, const float* w, std::uint8_t* block) {
  Codes codes;
  put_f16(block, symmetric<-8, 7>(x, w, codes));
  put_nibbles(block + 2, codes.data(), kBlock);
}

void encode_q5_0(const float* x, const float* w, std::uint8_t* block) {
  Codes codes;
  put_f16(block, symmetric<-16, 15>(x, w, codes));
  put_fifth_bits(block + 2, codes);
  put_nibbles(block + 6, codes.data(), kBlock);
}

void encode_q4_1(const float* x, const float* w, std::uint8_t* block) {
  Codes codes;
  const Affine a = with_minimum(x, w, 15.0F, codes);
  put_f16(block, a.s);
  put_f16(block + 2, -a.m);
  put_nibbles(block + 4, codes.data(), kBlock);
}

void encode_q5_1(const float* x, const float* w, std::uint8_t* block) {
  Codes codes;
  const Affine a = with_minimum(x, w, 31.0F, codes);
  put_f16(block, a.s);
  put_f16(block + 2, -a.m);
  put_fifth_bits(block + 4, codes);
  put_nibbles(block + 8, codes.data(), kBlock);
}

void encode_q8_0(const float* x, const float* w, std::uint8_t* block) {
  Codes codes;
  put_f16(block, symmetric<-127, 127>(x, w, codes));
  for (int i = 0; i < kBlock; ++i) block[2 + i] = static_cast<std::uint8_t>(codes[i] - 127);
}

}  // namespace

EncodeBlock encoder_of_32(DType type) {
  switch (type) {
    case DType::q4_0:
      return encode_q4_0;
    case DType::q4_1:
      return encode_q4_1;
    case DType::q5_0:
      return encode_q5_0;
    case DType::q5_1:
      return encode_q5_1;
    case DType::q8_0:
      return encode_q8_0;
    default:
      return nullptr;
  }
}

}  // namespace orrery::encode
