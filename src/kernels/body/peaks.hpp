// Loops at the limits of a core, on the vocabulary of the unit (peak_kernels.hpp).
#pragma once

#include "kernels/isa/vec.hpp"

namespace orrery::kernels {
namespace {

// hide() costs nothing and makes the compiler take a value for a new one, so that it can neither
// move a product out of the loop nor drop it. kChains sums are under way at once: more than one
// multiplier's latency times the multipliers, and no more than the registers hold.
#if defined(ORRERY_VEC_AVX512)
constexpr int kChains = 12;
ORRERY_INLINE void hide(V::F& a) {
  asm volatile("" : "+v"(a));
}
ORRERY_INLINE void hide(V::I& a) {
  asm volatile("" : "+v"(a.v));
}
ORRERY_INLINE void hide(V::B& a) {
  asm volatile("" : "+v"(a.v));
}
#elif defined(ORRERY_VEC_AVX2)
constexpr int kChains = 5;
template <class T>
ORRERY_INLINE void hide(T& a) {
  asm volatile("" : "+x"(a.l), "+x"(a.h));
}
#elif defined(ORRERY_VEC_NEON)
constexpr int kChains = 4;
template <class T>
ORRERY_INLINE void hide(T& a) {
  asm volatile("" : "+w"(a.v[0]), "+w"(a.v[1]), "+w"(a.v[2]), "+w"(a.v[3]));
}
#else
constexpr int kChains = 2;
template <class T>
ORRERY_INLINE void hide(T& a) {
  asm volatile("" : "+m"(a));
}
#endif

// Runs acc = mac(acc) on every chain; `macs` multiply-adds in each.
template <class Acc, class Mac>
ORRERY_INLINE double run_chains(int rounds, Acc zero, double macs, Mac mac) {
  Acc acc[kChains];
#pragma GCC unroll 16
  for (int c = 0; c < kChains; ++c) acc[c] = zero;
  for (int r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) acc[c] = mac(acc[c]);
  }
#pragma GCC unroll 16
  for (int c = 0; c < kChains; ++c) hide(acc[c]);
  return 2.0 * macs * kChains * rounds;
}

double multiply_f32(int rounds) {
  V::F a = V::splat(1.0F);
  const V::F b = V::splat(0.5F);
  return run_chains(rounds, V::zero(), 16, [&](V::F acc) {
    hide(a);
    return V::fma(a, b, acc);
  });
}

double multiply_i8(int rounds) {
  V::B w = V::splat_b(3);
  const V::B a = V::splat_b(1);
  return run_chains(rounds, V::zero_dots(), 64, [&](V::I acc) {
    hide(w);
    return V::dot(acc, w, a);
  });
}

#if defined(__AVX512BF16__)
double multiply_bf16(int rounds) {
  V::F a = V::splat(1.0F);
  const V::F b = V::splat(0.5F);
  return run_chains(rounds, V::zero(), 32, [&](V::F acc) -> V::F {
    hide(a);
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
  });
}
#endif

template <bool kAhead>
ORRERY_INLINE std::uint64_t read_bytes(const void* data, std::size_t bytes) {
  constexpr int kAheadBytes = 2048;
  const auto* p = static_cast<const std::uint8_t*>(data);
  V::B sums[4];
  for (V::B& sum : sums) sum = V::splat_b(0);
  std::size_t i = 0;
  for (; i + 256 <= bytes; i += 256) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const std::uint8_t* line = p + i + 64 * j;
      if constexpr (kAhead) __builtin_prefetch(line + kAheadBytes, 0, 3);
      sums[j] = V::xor_b(sums[j], V::load_b(line));
    }
  }
  std::uint64_t words[8];
  const V::B all = V::xor_b(V::xor_b(sums[0], sums[1]), V::xor_b(sums[2], sums[3]));
  __builtin_memcpy(words, &all, sizeof words);
  for (int j = 1; j < 8; ++j) words[0] ^= words[j];
  for (; i < bytes; ++i) words[0] ^= p[i];
  return words[0];
}

std::uint64_t read(const void* data, std::size_t bytes) {
  return read_bytes<false>(data, bytes);
}
std::uint64_t read_ahead(const void* data, std::size_t bytes) {
  return read_bytes<true>(data, bytes);
}

}  // namespace
}  // namespace orrery::kernels
