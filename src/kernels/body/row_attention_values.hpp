// Weighted sums of quantized values: exact sums of int16 weights times codes, two positions at a
// time, rounded once for each part.
#pragma once

#include "kernels/body/attention_pages.hpp"

namespace orrery::kernels {
namespace {

// A pair of tokens' 32 elements as int16: elements 0 to 15 and 16 to 31, token after token.
struct ValuesQ8 {
  static constexpr DType kType = DType::q8_0;
  static constexpr int kZero = 0;
  ORRERY_INLINE void load(const std::byte* p, V::B& low, V::B& high) {
    low = V::extend_i8(p);
    high = V::extend_i8(p + 32);
  }
};

struct ValuesQ4 {
  static constexpr DType kType = DType::q4_0;
  static constexpr int kZero = 8;
  ORRERY_INLINE void load(const std::byte* p, V::B& low, V::B& high) {
    const V::B bytes = V::extend_u8(p);
    low = V::low_nibbles(bytes);
    high = V::high_nibbles(bytes);
  }
};

// Whole groups of sixteen positions that hold the part: always in pairs, never across pages.
struct Span {
  int begin, end;
  explicit Span(const AttentionPart& a) : begin(a.begin / 16 * 16), end((a.end + 15) / 16 * 16) {}
};

// What a head adds to 32 elements: int16 weights with one scale, scales of the values folded in.
struct FoldedWeights {
  alignas(64) std::int16_t codes[kPartPositions];  // of the span
  float scale;
  std::int32_t sum;

  // `weights` of the span; `d` of a position: the scales of the 32 elements from there on.
  template <class Scales>
  [[gnu::always_inline]] void fold(const float* weights, int n, Scales d) {
    alignas(64) float products[kPartPositions];
    V::F largest = V::zero(), not_finite = V::zero();
    for (int i = 0; i < n; i += 16) {
      const V::F w = V::load(weights + i);
      // No weight, no part in it: the scale may be that of a slot that was not written yet.
      const V::F product = V::select_lt(V::zero(), w, V::mul(w, d(i)), V::zero());
      V::store(products + i, product);
      largest = V::max(V::abs(product), largest);
      not_finite = V::fma(product, V::zero(), not_finite);
    }
    const float top = V::max_lane(largest);
    // Below that nothing is seen of it, and the quotient would not be finite.
    const V::F inverse = V::splat(top > 1e-30F ? 32767.0F / top : 0.0F);
    V::I total = V::splat_i(0);
    for (int i = 0; i < n; i += 16) {
      const V::I code = V::round_int(V::mul(V::load(products + i), inverse));
      V::store_i16(codes + i, code);
      total = V::add_i(total, code);
    }
    scale = top / 32767.0F + V::sum(not_finite);
    sum = V::sum_i(total);
  }
};

// o[head][32 group ..] of kHeads heads; `weights` as in weigh_quantized.
template <class Values, int kHeads>
[[gnu::always_inline]] inline void weigh_group(const AttentionPart& a, int head, int group,
                                               const float* weights) {
  constexpr int kPairBytes = 2 * cache_code_bytes(Values::kType);
  const Span span(a);
  const std::size_t at =
      a.v_offset + static_cast<std::size_t>(group * kPageTokens * cache_block_bytes(Values::kType));
  FoldedWeights folded[kHeads];
  for (FoldedWeights& head_weights : folded) {
    head_weights.fold(weights, span.end - span.begin, [&](int i) {
      const int t = span.begin + i;
      return V::load_f16(page_of(a, t) + at + 2 * (t % kPageTokens));
    });
    weights += kScoreStride;
  }
  V::I low_sum[kHeads], high_sum[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    // Modulo 2^32: the codes of NaN are anything.
    const std::uint32_t zeros =
        -std::uint32_t{Values::kZero} * static_cast<std::uint32_t>(folded[h].sum);
    low_sum[h] = high_sum[h] = V::splat_i(static_cast<std::int32_t>(zeros));
  }
  for (int t = span.begin; t < span.end;) {
    const std::byte* codes = page_of(a, t) + at + 2 * kPageTokens;
    const int page_end = (t / kPageTokens + 1) * kPageTokens;
    const Ahead ahead = keys_ahead(a, t, group, a.v_dim / kCacheGroup);
    for (const int stop = page_end < span.end ? page_end : span.end; t < stop; t += 2) {
      if (t % 16 == 0) ahead.fetch(t % kPageTokens, 16);
      V::B low, high;
      Values::load(codes + t % kPageTokens / 2 * kPairBytes, low, high);
      for (int h = 0; h < kHeads; ++h) {
        const V::B pair = V::repeat_word(folded[h].codes + (t - span.begin));
        low_sum[h] = V::dot_i16(low_sum[h], low, pair);
        high_sum[h] = V::dot_i16(high_sum[h], high, pair);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    float* out = a.o + static_cast<std::size_t>(head + h) * a.o_stride + kCacheGroup * group;
    const V::F scale = V::splat(folded[h].scale);
    V::store(out, V::mul(V::to_float(low_sum[h]), scale));
    V::store(out + 16, V::mul(V::to_float(high_sum[h]), scale));
  }
}

// `weights`: [head][t - begin], of positions from up to 15 before the part to up to 15 behind it;
// those outside of it become zero here.
template <class Values, int kHeads>
[[gnu::always_inline]] inline void weigh_quantized(const AttentionPart& a, int head,
                                                   float* weights) {
  const Span span(a);
  for (int h = 0; h < kHeads; ++h) {
    float* own = weights + h * kScoreStride - a.begin;
    for (int t = span.begin; t < a.begin; ++t) own[t] = 0.0F;
    for (int t = a.end; t < span.end; ++t) own[t] = 0.0F;
  }
  for (int group = 0; group < a.v_dim / kCacheGroup; ++group) {
    weigh_group<Values, kHeads>(a, head, group, weights - (a.begin - span.begin));
  }
}

}  // namespace
}  // namespace orrery::kernels
