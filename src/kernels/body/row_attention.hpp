// Decode attention: scores and weighted sums of one part of at most 256 positions.
//
// Class f32, where keys and values are plain: score = tree sum of 16-lane fma dots, times scale,
// soft-capped; p = exp(score - max of the part); l = the tree sum of 16 lanes (lane i takes
// positions begin + i mod 16); o by fma, token by token. Scores with quantized keys and sums with
// quantized values: row_attention_keys.hpp and _values.hpp.
#pragma once

#include "kernels/body/attention_pages.hpp"
#include "kernels/body/math.hpp"
#include "kernels/body/row_attention_keys.hpp"
#include "kernels/body/row_attention_values.hpp"

namespace orrery::kernels {
namespace {

// scores[head][t - begin] of kHeads heads for four tokens at a time.
template <class Cache, int kHeads>
[[gnu::always_inline]] inline void score_part(const AttentionPart& a, int head, float* scores) {
  const std::ptrdiff_t row_bytes = static_cast<std::ptrdiff_t>(a.k_dim) * Cache::kBytes;
  for (int t = a.begin; t < a.end; t += 4) {
    values_ahead(a, t).fetch(t % kPageTokens, 4);
    const std::byte* k[4];
    for (int j = 0; j < 4; ++j) {
      const int position = t + j < a.end ? t + j : a.end - 1;
      k[j] = page_of(a, position) + position % kPageTokens * row_bytes;
    }
    V::F acc[kHeads][4];
    for (int h = 0; h < kHeads; ++h)
      for (int j = 0; j < 4; ++j) acc[h][j] = V::zero();
    for (int i = 0; i < a.k_dim; i += 16) {
      const int rest = a.k_dim - i;
      V::F keys[4];
      for (int j = 0; j < 4; ++j) keys[j] = Cache::load(k[j] + i * Cache::kBytes, rest);
      for (int h = 0; h < kHeads; ++h) {
        const float* p = a.q + static_cast<std::size_t>(head + h) * a.q_stride + i;
        const V::F q = rest >= 16 ? V::load(p) : V::load_partial(p, rest);
        for (int j = 0; j < 4; ++j) acc[h][j] = V::fma(q, keys[j], acc[h][j]);
      }
    }
    for (int h = 0; h < kHeads; ++h)
      V::sum4(acc[h][0], acc[h][1], acc[h][2], acc[h][3],
              scores + h * kScoreStride + (t - a.begin));
  }
}

// Scores to weights in place; m and l of the head. Entries from n on become 0.
inline void soften(const AttentionPart& a, float* scores, float* m, float* l) {
  const int n = a.end - a.begin;
  const V::F none = V::splat(-__builtin_inff());
  V::F largest = none;
  for (int i = 0; i < n; i += 16) {
    V::F s = V::mul(V::load(scores + i), V::splat(a.scale));
    if (a.softcap > 0.0F) {
      const V::F cap = V::splat(a.softcap);
      s = V::mul(cap, tanh(V::div(s, cap)));
    }
    s = V::first(n - i < 16 ? n - i : 16, s, none);
    V::store(scores + i, s);
    largest = V::max(s, largest);
  }
  *m = V::max_lane(largest);
  V::F total = V::zero();
  for (int i = 0; i < n; i += 16) {
    const V::F p = exp(V::sub(V::load(scores + i), V::splat(*m)));
    V::store(scores + i, p);
    total = V::add(total, p);
  }
  *l = V::sum(total);
}

// o[head][i .. i + 16 kSlices) of kHeads heads.
template <class Cache, int kHeads, int kSlices>
[[gnu::always_inline]] inline void weigh_slices(const AttentionPart& a, int head, int i,
                                                const float* weights) {
  const auto row_bytes = static_cast<std::ptrdiff_t>(a.v_stride);
  V::F acc[kHeads][kSlices];
  for (int h = 0; h < kHeads; ++h)
    for (int s = 0; s < kSlices; ++s) acc[h][s] = V::zero();
  for (int t = a.begin; t < a.end;) {
    const std::byte* v = page_of(a, t) + a.v_offset + i * Cache::kBytes;
    const int page_end = (t / kPageTokens + 1) * kPageTokens;
    const Ahead ahead = keys_ahead(a, t, 0, 1);
    for (const int stop = page_end < a.end ? page_end : a.end; t < stop; ++t) {
      if (i == 0) ahead.fetch(t % kPageTokens, 1);
      const std::byte* row = v + t % kPageTokens * row_bytes;
      for (int s = 0; s < kSlices; ++s) {
        const V::F value = Cache::load(row + 16 * s * Cache::kBytes, a.v_dim - i - 16 * s);
        for (int h = 0; h < kHeads; ++h) {
          const V::F p = V::splat(weights[h * kScoreStride + (t - a.begin)]);
          acc[h][s] = V::fma(p, value, acc[h][s]);
        }
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    float* out = a.o + static_cast<std::size_t>(head + h) * a.o_stride + i;
    for (int s = 0; s < kSlices; ++s) {
      const int rest = a.v_dim - i - 16 * s;
      V::store_partial(out + 16 * s, acc[h][s], rest < 16 ? rest : 16);
    }
  }
}

template <class Cache, int kHeads>
[[gnu::always_inline]] inline void weigh_part(const AttentionPart& a, int head,
                                              const float* weights) {
  constexpr int kSlices = kHeads * 4 <= V::kSums ? 4 : 2;
  int i = 0;
  for (; i + 16 * kSlices <= a.v_dim; i += 16 * kSlices)
    weigh_slices<Cache, kHeads, kSlices>(a, head, i, weights);
  for (; i < a.v_dim; i += 16) weigh_slices<Cache, kHeads, 1>(a, head, i, weights);
}

template <int kHeads>
[[gnu::always_inline]] inline void score_heads(const AttentionPart& a, int head, float* scores) {
  if (a.k_type == DType::q8_0) {
    score_panels<FormatQ8_0, DType::q8_0, kHeads>(a, head, scores);
  } else if (a.k_type == DType::q4_0) {
    score_panels<FormatQ4_0, DType::q4_0, kHeads>(a, head, scores);
  } else {
    with_cache(a.k_type, [&](auto cache) { score_part<decltype(cache), kHeads>(a, head, scores); });
  }
}

template <int kHeads>
[[gnu::always_inline]] inline void weigh_heads(const AttentionPart& a, int head, float* weights) {
  if (a.v_type == DType::q8_0) {
    weigh_quantized<ValuesQ8, kHeads>(a, head, weights);
  } else if (a.v_type == DType::q4_0) {
    weigh_quantized<ValuesQ4, kHeads>(a, head, weights);
  } else {
    with_cache(a.v_type,
               [&](auto cache) { weigh_part<decltype(cache), kHeads>(a, head, weights); });
  }
}

template <int kHeads>
void attend_heads(const AttentionPart& a, int head) {
  alignas(64) float memory[kHeads * kScoreStride];
  float* scores = memory + 16;
  score_heads<kHeads>(a, head, scores);
  for (int h = 0; h < kHeads; ++h)
    soften(a, scores + h * kScoreStride, a.m + head + h, a.l + head + h);
  weigh_heads<kHeads>(a, head, scores);
}

inline void attend(const AttentionPart& a) {
  constexpr int kMost = V::kMaxTile;  // every group of heads reads the whole part
  int head = 0;
  for (; head + kMost <= a.g; head += kMost) attend_heads<kMost>(a, head);
  if constexpr (kMost >= 4) {
    if (a.g - head == 3) return attend_heads<3>(a, head);
    if (a.g - head == 2) return attend_heads<2>(a, head);
  }
  for (; head < a.g; ++head) attend_heads<1>(a, head);
}

inline void attention_part(const AttentionPart& a) {
  if (a.begin >= a.end) {  // nothing to see: the neutral element of the merge
    for (int h = 0; h < a.g; ++h) {
      a.m[h] = -__builtin_inff();
      a.l[h] = 0.0F;
      for (int i = 0; i < a.v_dim; ++i) a.o[static_cast<std::size_t>(h) * a.o_stride + i] = 0.0F;
    }
    return;
  }
  attend(a);
}

// Weight of a part: exp(m - largest), 0 for an empty part.
inline float part_weight(float m, float largest) {
  if (m == -__builtin_inff()) return 0.0F;
  float lanes[16];
  V::store(lanes, exp(V::splat(m - largest)));
  return lanes[0];
}

inline void merge_head(const AttentionMerge& a, int head) {
  float largest = -__builtin_inff();
  for (int part = 0; part < a.parts; ++part) {
    const float m = a.m[part * a.g + head];
    largest = largest > m ? largest : m;
  }
  float total = 0.0F;
  for (int part = 0; part < a.parts; ++part) {
    const int at = part * a.g + head;
    total = __builtin_fmaf(part_weight(a.m[at], largest), a.l[at], total);
  }
  float* out = a.out + static_cast<std::size_t>(head) * a.out_stride;
  const V::F divisor = V::splat(total == 0.0F ? 1.0F : total);
  for (int i = 0; i < a.v_dim; i += 16) {
    const int n = a.v_dim - i < 16 ? a.v_dim - i : 16;
    V::F acc = V::zero();
    for (int part = 0; part < a.parts; ++part) {
      const int at = part * a.g + head;
      const float* o = a.o + static_cast<std::size_t>(at) * static_cast<std::size_t>(a.v_dim) + i;
      acc = V::fma(V::splat(part_weight(a.m[at], largest)), V::load_partial(o, n), acc);
    }
    V::store_partial(out + i, V::div(acc, divisor), n);
  }
}

inline void attention_merge(const AttentionMerge& a) {
  for (int head = 0; head < a.g; ++head) merge_head(a, head);
}

}  // namespace
}  // namespace orrery::kernels
