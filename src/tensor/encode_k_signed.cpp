// Q3_K, Q6_K and IQ4_XS: blocks of 256 in groups with an integer scale of either sign, a multiple
// of one F16 number: x ~ d sc q.
#include <array>

#include "tensor/codebooks.hpp"
#include "tensor/encode_blocks.hpp"
#include "tensor/encode_search.hpp"

namespace orrery::encode {
namespace {

constexpr int kBlock = 256;

// kGroup weights share a scale in [-kLevels, kLevels - 1].
template <class Grid, int kGroup, int kLevels>
class SignedBlock {
 public:
  static constexpr int kGroups = kBlock / kGroup;

  float d = 0.0F;  // as F16 holds it
  std::array<int, kGroups> sc{};
  std::array<float, kBlock> codes{};  // values of the grid

  SignedBlock(const float* x, const float* w) : x_(x), w_(w) {
    start();
    adjust();
    for (int round = 0; round < 3 && improve(); ++round) {
    }
    for (int g = 0; g < kGroups; ++g) {
      snap_group<Grid>(x + kGroup * g, kGroup, scale(sc[g]), &codes[kGroup * g]);
    }
  }

 private:
  float scale(int s) const { return d * static_cast<float>(s); }
  float error(int g, int s) const {
    return scale_error<Grid>(x_ + kGroup * g, w_ + kGroup * g, kGroup, scale(s));
  }

  // Each group by itself; the largest scale gets the level -kLevels.
  void start() {
    std::array<float, kGroups> best;
    for (int g = 0; g < kGroups; ++g) {
      best[g] = search_scale<Grid>(x_ + kGroup * g, w_ + kGroup * g, kGroup);
    }
    d = as_f16(largest(best.data(), kGroups) / -kLevels);
    for (int g = 0; g < kGroups; ++g) {
      const float level = std::clamp(best[g] * inverse(d), -2.0F * kLevels, 2.0F * kLevels);
      sc[g] = std::clamp(static_cast<int>(std::lround(level)), -kLevels, kLevels - 1);
    }
  }

  // Every group takes the neighbour of its scale that errs least. Gives the error of the block.
  float adjust() {
    error_ = 0.0F;
    for (int g = 0; g < kGroups; ++g) {
      const int s0 = sc[g];
      float least = error(g, s0);
      for (const int s : {s0 - 1, s0 + 1}) {
        if (s < -kLevels || s >= kLevels) continue;
        const float e = error(g, s);
        if (e >= least) continue;
        least = e;
        sc[g] = s;
      }
      error_ += least;
    }
    return error_;
  }

  // Least squares of d for the codes as they are, then the scales again. False, and nothing
  // changes, where that does not help.
  bool improve() {
    double xq = 0.0, qq = 0.0;
    for (int g = 0; g < kGroups; ++g) {
      const int at = kGroup * g;
      const Fit fit = fit_codes<Grid>(x_ + at, w_ + at, kGroup, inverse(scale(sc[g])));
      xq += double{fit.xq} * sc[g];
      qq += double{fit.qq} * sc[g] * sc[g];
    }
    if (qq <= 0.0) return false;
    const SignedBlock before = *this;
    d = as_f16(static_cast<float>(xq / qq));
    if (adjust() < before.error_) return true;
    *this = before;
    return false;
  }

  const float* x_;
  const float* w_;
  float error_ = 0.0F;
};

void encode_q3_k(const float* x, const float* w, std::uint8_t* block) {
  const SignedBlock<Integers<-4, 3>, 16, 32> b(x, w);
  std::memset(block, 0, 110);
  for (int i = 0; i < kBlock; ++i) {
    const int code = static_cast<int>(b.codes[i]) + 4;
    block[i % 32] |= static_cast<std::uint8_t>((code >> 2) << (i / 32));
    block[32 + 32 * (i / 128) + i % 32] |=
        static_cast<std::uint8_t>((code & 3) << (2 * (i / 32 % 4)));
  }
  std::uint8_t* scales = block + 96;
  for (int g = 0; g < 16; ++g) {
    const int s = b.sc[g] + 32;
    scales[g % 8] |= static_cast<std::uint8_t>((s & 15) << (4 * (g / 8)));
    scales[8 + g % 4] |= static_cast<std::uint8_t>((s >> 4) << (2 * (g / 4)));
  }
  put_f16(block + 108, b.d);
}

void encode_q6_k(const float* x, const float* w, std::uint8_t* block) {
  const SignedBlock<Integers<-32, 31>, 16, 128> b(x, w);
  std::memset(block, 0, 192);
  for (int i = 0; i < kBlock; ++i) {
    const int n = i / 128, j = i / 32 % 4, l = i % 32;
    const int code = static_cast<int>(b.codes[i]) + 32;
    block[64 * n + 32 * (j & 1) + l] |= static_cast<std::uint8_t>((code & 15) << (j < 2 ? 0 : 4));
    block[128 + 32 * n + l] |= static_cast<std::uint8_t>((code >> 4) << (2 * j));
  }
  for (int g = 0; g < 16; ++g) block[192 + g] = static_cast<std::uint8_t>(b.sc[g]);
  put_f16(block + 208, b.d);
}

void encode_iq4_xs(const float* x, const float* w, std::uint8_t* block) {
  const SignedBlock<Table<kNonLinear>, 32, 32> b(x, w);
  put_f16(block, b.d);
  std::memset(block + 2, 0, 6);
  for (int g = 0; g < 8; ++g) {
    const int s = b.sc[g] + 32;
    block[2 + g / 4] |= static_cast<std::uint8_t>((s >> 4) << (2 * (g % 4)));
    block[4 + g / 2] |= static_cast<std::uint8_t>((s & 15) << (4 * (g % 2)));
    int codes[32];
    for (int i = 0; i < 32; ++i) codes[i] = index_of(kNonLinear, b.codes[32 * g + i]);
    put_nibbles(block + 8 + 16 * g, codes, 32);
  }
}

}  // namespace

EncodeBlock encoder_signed(DType type) {
  switch (type) {
    case DType::q3_k:
      return encode_q3_k;
    case DType::q6_k:
      return encode_q6_k;
    case DType::iq4_xs:
      return encode_iq4_xs;
    default:
      return nullptr;
  }
}

}  // namespace orrery::encode
