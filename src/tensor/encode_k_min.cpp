// Q2_K, Q4_K and Q5_K: blocks of 256 in groups with an integer scale and an integer minimum, both
// multiples of F16 numbers of the block: x ~ d sc q - dmin mn.
#include <array>

#include "tensor/encode_blocks.hpp"
#include "tensor/encode_search.hpp"

namespace orrery::encode {
namespace {

constexpr int kBlock = 256;

// kGroup weights share a scale; codes reach kTop, scales and minima kLevels.
template <int kGroup, int kTop, int kLevels>
class MinBlock {
 public:
  static constexpr int kGroups = kBlock / kGroup;

  float d = 0.0F, dmin = 0.0F;  // as F16 holds them
  std::array<int, kGroups> sc{}, mn{};
  std::array<int, kBlock> codes{};

  MinBlock(const float* x, const float* w) : x_(x), w_(w) {
    start();
    adjust();
    for (int round = 0; round < 3 && improve(); ++round) {
    }
    for (int g = 0; g < kGroups; ++g) {
      const Affine a = affine(g);
      for (int i = 0; i < kGroup; i += 4) {
        const int at = kGroup * g + i;
        const Lanes q = affine_codes(load(x + at), inverse(a.s), a.m, kTop);
        for (int lane = 0; lane < 4; ++lane) codes[at + lane] = static_cast<int>(q[lane]);
      }
    }
  }

 private:
  Affine affine(int g) const { return affine(sc[g], mn[g]); }
  Affine affine(int s, int m) const {
    return {d * static_cast<float>(s), dmin * static_cast<float>(m)};
  }
  float error(int g, Affine a) const {
    return affine_error(x_ + kGroup * g, w_ + kGroup * g, kGroup, a, kTop);
  }

  // Each group by itself; the largest scale and minimum get the last level.
  void start() {
    std::array<Affine, kGroups> best;
    Affine most;
    for (int g = 0; g < kGroups; ++g) {
      best[g] = search_affine(x_ + kGroup * g, w_ + kGroup * g, kGroup, kTop, true);
      most = {std::max(most.s, best[g].s), std::max(most.m, best[g].m)};
    }
    d = as_f16(most.s / kLevels);
    dmin = as_f16(most.m / kLevels);
    for (int g = 0; g < kGroups; ++g) {
      sc[g] = level(best[g].s * inverse(d));
      mn[g] = level(best[g].m * inverse(dmin));
    }
  }
  static int level(float x) {
    return std::clamp(static_cast<int>(std::lround(std::min(x, 2.0F * kLevels))), 0, kLevels);
  }

  // Every group takes the neighbour of its pair that errs least. Gives the error of the block.
  float adjust() {
    float total = 0.0F;
    for (int g = 0; g < kGroups; ++g) {
      const int s0 = sc[g], m0 = mn[g];
      float least = error(g, affine(g));
      for (int s = std::max(s0 - 1, 0); s <= std::min(s0 + 1, kLevels); ++s) {
        for (int m = std::max(m0 - 1, 0); m <= std::min(m0 + 1, kLevels); ++m) {
          const float e = error(g, affine(s, m));
          if (e >= least) continue;
          least = e;
          sc[g] = s;
          mn[g] = m;
        }
      }
      total += least;
    }
    error_ = total;
    return total;
  }

  // Least squares of d and dmin for the codes as they are, then the pairs again. False, and nothing
  // changes, where that does not help.
  bool improve() {
    double ss = 0.0, sm = 0.0, mm = 0.0, xs = 0.0, xm = 0.0;  // of u = sc q and v = mn
    for (int g = 0; g < kGroups; ++g) {
      const Affine a = affine(g);
      Lanes q0 = all(0.0F), q1 = q0, q2 = q0, x1 = q0, xq = q0;
      for (int i = kGroup * g; i < kGroup * (g + 1); i += 4) {
        const Lanes x = load(x_ + i), w = load(w_ + i);
        const Lanes q = affine_codes(x, inverse(a.s), a.m, kTop);
        q0 += w;
        q1 += w * q;
        q2 += w * q * q;
        x1 += w * x;
        xq += w * x * q;
      }
      const double s = sc[g], m = mn[g];
      ss += s * s * sum(q2);
      sm += s * m * sum(q1);
      mm += m * m * sum(q0);
      xs += s * sum(xq);
      xm += m * sum(x1);
    }
    const MinBlock before = *this;
    const double det = ss * mm - sm * sm;
    if (ss <= 0.0) return false;
    if (det > 1e-9 * ss * mm) {  // x = d u - dmin v
      d = as_f16(static_cast<float>((xs * mm - xm * sm) / det));
      dmin = as_f16(static_cast<float>((xs * sm - xm * ss) / det));
    } else {
      d = as_f16(static_cast<float>(xs / ss));
    }
    if (d > 0.0F && dmin >= 0.0F && adjust() < before.error_) return true;
    *this = before;
    return false;
  }

  const float* x_;
  const float* w_;
  float error_ = 0.0F;
};

using Block2 = MinBlock<16, 3, 15>;
using Block4 = MinBlock<32, 15, 63>;
using Block5 = MinBlock<32, 31, 63>;

void encode_q2_k(const float* x, const float* w, std::uint8_t* block) {
  const Block2 b(x, w);
  std::memset(block, 0, 84);
  for (int g = 0; g < 16; ++g) block[g] = static_cast<std::uint8_t>(b.sc[g] | b.mn[g] << 4);
  for (int i = 0; i < kBlock; ++i) {
    block[16 + 32 * (i / 128) + i % 32] |=
        static_cast<std::uint8_t>(b.codes[i] << (2 * (i / 32 % 4)));
  }
  put_f16(block + 80, b.d);
  put_f16(block + 82, b.dmin);
}

// The 6-bit pairs of Q4_K and Q5_K in 12 bytes: four whole ones, then nibbles whose high bits stand
// above the first four.
void put_pairs(std::uint8_t* at, const std::array<int, 8>& sc, const std::array<int, 8>& mn) {
  for (int g = 0; g < 4; ++g) {
    at[g] = static_cast<std::uint8_t>(sc[g] | (sc[g + 4] >> 4) << 6);
    at[g + 4] = static_cast<std::uint8_t>(mn[g] | (mn[g + 4] >> 4) << 6);
    at[g + 8] = static_cast<std::uint8_t>((sc[g + 4] & 15) | (mn[g + 4] & 15) << 4);
  }
}

template <class Block>
void put_q45(const Block& b, std::uint8_t* block, std::uint8_t* nibbles) {
  put_f16(block, b.d);
  put_f16(block + 2, b.dmin);
  put_pairs(block + 4, b.sc, b.mn);
  for (int pair = 0; pair < 4; ++pair) put_nibbles(nibbles + 32 * pair, &b.codes[64 * pair], 64);
}

void encode_q4_k(const float* x, const float* w, std::uint8_t* block) {
  put_q45(Block4(x, w), block, block + 16);
}

void encode_q5_k(const float* x, const float* w, std::uint8_t* block) {
  const Block5 b(x, w);
  put_q45(b, block, block + 48);
  std::uint8_t* high = block + 16;
  std::memset(high, 0, 32);
  for (int i = 0; i < kBlock; ++i) {
    high[i % 32] |= static_cast<std::uint8_t>((b.codes[i] >> 4) << (i / 32));
  }
}

}  // namespace

EncodeBlock encoder_with_min(DType type) {
  switch (type) {
    case DType::q2_k:
      return encode_q2_k;
    case DType::q4_k:
      return encode_q4_k;
    case DType::q5_k:
      return encode_q5_k;
    default:
      return nullptr;
  }
}

}  // namespace orrery::encode
