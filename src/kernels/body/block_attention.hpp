// Prefill attention (class b16): flash attention, feature-major. Per page of 64 keys:
// S^T[key][query] = K x Q^T, online softmax over keys (vertical, lanes = queries), then
// O^T[feature][query] += V^T x P^T. K, V, Q and P are rounded to bf16, sums are f32.
// Key pages are taken in order and a masked key adds exactly nothing, so the bits of a query do not
// depend on how queries were grouped. Method: Dao et al., FlashAttention (2022).
#pragma once

#include "kernels/body/block_layout.hpp"
#include "kernels/body/block_product.hpp"
#include "kernels/body/math.hpp"

namespace orrery::kernels {
namespace {

constexpr int kPageKeys = 64;
constexpr float kNoScore = -3.0e38F;  // a maximum that no score has raised yet

// 2^x for x <= 0, exactly 0 from -127 down; relative error 4e-6 (fitted polynomial), where bf16 has
// 4e-3. The result of the polynomial gets its exponent by an integer addition.
ORRERY_INLINE V::F exp2_negative(V::F x) {
  const V::F magic = V::splat(0x1.8p23F);  // leaves the nearest integer in the low bits
  const V::F bounded = V::max(V::splat(-127.0F), x);
  const V::F shifted = V::add(bounded, magic);
  const V::F f = V::sub(bounded, V::sub(shifted, magic));
  V::F y = V::splat(0x1.3a02ccp-7F);
  y = V::fma(y, f, V::splat(0x1.c9fc46p-5F));
  y = V::fma(y, f, V::splat(0x1.ec0378p-3F));
  y = V::fma(y, f, V::splat(0x1.62e12cp-1F));
  y = V::fma(y, f, V::splat(1.0F));
  return V::as_float(V::add_i(V::as_int(y), V::shl<23>(V::as_int(shifted))));
}

template <class P>
struct BlockFlash {
  // Per unit (head, block), in scratch.
  struct Unit {
    std::uint8_t* q;  // X block of k_dim features
    float* o;         // F block of v_dim features, rounded up to 32
    float* m;         // (32) running maximum of the scores, in units of log2
    float* l;         // (32) running sum of exp2(score - m)
  };
  struct Shape {
    int k_steps, v_panels;
    std::size_t k_bytes, v_bytes, unit_bytes;
    Shape(int k_dim, int v_dim) : k_steps((k_dim + 31) / 32), v_panels((v_dim + 31) / 32) {
      k_bytes = static_cast<std::size_t>(2) * k_steps * P::kStepBytes;
      v_bytes = static_cast<std::size_t>(2) * v_panels * P::kStepBytes;
      unit_bytes = static_cast<std::size_t>(k_steps) * kXStep +
                   static_cast<std::size_t>(v_panels) * kBlockFloats * 4 + 256;
    }
  };
  static constexpr std::size_t kScoreBytes = 2 * kBlockFloats * 4;  // F block of 64 keys
  static constexpr std::size_t kWeightBytes = 2 * kXStep;           // X block of 64 keys

  static std::size_t scratch_bytes(int k_dim, int v_dim) {
    const Shape shape(k_dim, v_dim);
    return kScoreBytes + kWeightBytes + shape.k_bytes + shape.v_bytes +
           kMaxAttentionUnits * shape.unit_bytes;
  }

  static void run(const AttentionBlock& a) { BlockFlash(a).all_pages(); }

 private:
  explicit BlockFlash(const AttentionBlock& call) : a(call), shape(call.k_dim, call.v_dim) {
    std::uint8_t* p = static_cast<std::uint8_t*>(a.scratch);
    scores = reinterpret_cast<float*>(p), p += kScoreBytes;
    weights = p, p += kWeightBytes;
    k_panel = p, p += shape.k_bytes;
    v_panel = p, p += shape.v_bytes;
    units = p;
    last = a.first_position + a.n_tokens - 1;
    for (int b = 0; b < a.blocks; ++b) {
      for (int h = 0; h < a.heads; ++h) start(unit(b, h), b, h);
    }
  }

  Unit unit(int block, int head) const {
    std::uint8_t* p = units + (block * a.heads + head) * shape.unit_bytes;
    Unit u;
    u.q = p, p += shape.k_steps * kXStep;
    u.o = reinterpret_cast<float*>(p), p += shape.v_panels * kBlockFloats * 4;
    u.m = reinterpret_cast<float*>(p), u.l = u.m + 32;
    return u;
  }

  void start(const Unit& u, int block, int head) const {
    block_to_x(a.q + block * a.q_block_stride + static_cast<std::size_t>(head) * a.k_dim * 32,
               a.k_dim, u.q);
    for (int i = 0; i < shape.v_panels * kBlockFloats; ++i) u.o[i] = 0.0F;
    for (int t = 0; t < 32; ++t) u.m[t] = kNoScore, u.l[t] = 0.0F;
  }

  // Positions of a block's first token and of its last valid one.
  int block_first(int block) const { return a.first_position + 32 * block; }
  int block_last(int block) const {
    return block_first(block) + 31 < last ? block_first(block) + 31 : last;
  }
  // The first position that a query at `position` sees.
  int first_seen(int position) const {
    if (a.window == 0 || static_cast<std::uint32_t>(position) < a.window) return 0;
    return position + 1 - static_cast<int>(a.window);
  }

  void all_pages() const {
    for (int page = first_seen(a.first_position) / kPageKeys; page <= last / kPageKeys; ++page) {
      convert(page);
      for (int b = 0; b < a.blocks; ++b) {
        if (block_first(b) > last || page > block_last(b) / kPageKeys) continue;
        if (page < first_seen(block_first(b)) / kPageKeys) continue;
        for (int h = 0; h < a.heads; ++h) visit(unit(b, h), page, b);
      }
    }
    for (int b = 0; b < a.blocks; ++b) {
      for (int h = 0; h < a.heads; ++h) finish(unit(b, h), b, h);
    }
  }

  // K and V of a page -> panels. Keys behind the last query are zeroed: their memory is not filled.
  void convert(int page) const {
    const std::size_t element = a.f32_cache ? 4 : 2;
    const std::byte* k = a.pool + a.pages[page] * a.page_bytes + a.head_offset;
    const std::byte* v = k + element * kPageKeys * a.k_dim;
    const int filled = last + 1 - page * kPageKeys;
    for (int key = 0; key < kPageKeys; ++key) {
      std::uint8_t* panel =
          k_panel + static_cast<std::size_t>(key / 32) * shape.k_steps * P::kStepBytes;
      const std::byte* row = k + element * key * a.k_dim;
      for (int step = 0; step < shape.k_steps; ++step, panel += P::kStepBytes) {
        P::pack(panel, key % 32, cache_values(row, 32 * step, a.k_dim, key < filled),
                cache_values(row, 32 * step + 16, a.k_dim, key < filled));
      }
    }
    for (int base = 0; base < 32 * shape.v_panels; base += 16) {
      for (int half = 0; half < 2; ++half) {
        V::F low[16], high[16];  // [key][feature], then [feature][key]
        for (int i = 0; i < 16; ++i) {
          const int key = 32 * half + i;
          const std::byte* row = v + element * key * a.v_dim;
          low[i] = cache_values(row, base, a.v_dim, key < filled);
          high[i] = cache_values(row + 16 * element * a.v_dim, base, a.v_dim, key + 16 < filled);
        }
        transpose16(low), transpose16(high);
        std::uint8_t* panel = v_panel + (base / 32 * 2 + half) * P::kStepBytes;
        for (int i = 0; i < 16; ++i) P::pack(panel, base % 32 + i, low[i], high[i]);
      }
    }
  }

  // 16 elements of a cache row from `at`; beyond n, or where not valid, zero.
  V::F cache_values(const std::byte* row, int at, int n, bool valid) const {
    if (valid && at + 16 <= n) {
      return a.f32_cache ? V::load(reinterpret_cast<const float*>(row) + at)
                         : V::load_f16(row + 2 * at);
    }
    const int count = !valid || at >= n ? 0 : n - at;
    return a.f32_cache ? V::load_partial(reinterpret_cast<const float*>(row) + at, count)
                       : V::load_f16_partial(row + 2 * at, count);
  }

  // One page of keys for one unit.
  void visit(const Unit& u, int page, int block) const {
    const std::size_t panel_bytes = static_cast<std::size_t>(shape.k_steps) * P::kStepBytes;
    for (int i = 0; i < 2; ++i) {
      P::template multiply<Stream::panel>(k_panel + i * panel_bytes, u.q, shape.k_steps,
                                          scores + i * kBlockFloats, true);
    }
    const int start = page * kPageKeys;
    const bool masked =
        start + kPageKeys - 1 > block_first(block) || start < first_seen(block_last(block));
    for (int half = 0; half < 2; ++half) {
      if (a.softcap > 0.0F) cap(half);
      if (masked) mask(start, block, half);
      softmax(u, half);
    }
    for (int i = 0; i < shape.v_panels; ++i) {
      P::template multiply<Stream::panel>(v_panel + 2 * i * P::kStepBytes, weights, 2,
                                          u.o + i * kBlockFloats, false);
    }
  }

  // score = softcap * tanh(score * scale / softcap)
  void cap(int half) const {
    const V::F inner = V::splat(a.scale / a.softcap), outer = V::splat(a.softcap);
    for (int key = 0; key < kPageKeys; ++key) {
      float* s = scores + 32 * key + 16 * half;
      V::store(s, V::mul(outer, tanh(V::mul(V::load(s), inner))));
    }
  }

  void mask(int start, int block, int half) const {
    alignas(64) float newest[16], oldest[16];  // of the keys that a query sees, from `start`
    for (int i = 0; i < 16; ++i) {
      const int own = block_first(block) + 16 * half + i;
      const int position = own < last ? own : last;  // padding tokens act as the last valid one
      newest[i] = static_cast<float>(position - start);
      oldest[i] = static_cast<float>(first_seen(position) - start);
    }
    const V::F hidden = V::splat(-__builtin_inff());
    const V::F to = V::load(newest), from = V::load(oldest);
    for (int key = 0; key < kPageKeys; ++key) {
      float* s = scores + 32 * key + 16 * half;
      const V::F at = V::splat(static_cast<float>(key));
      const V::F seen = V::select_lt(to, at, hidden, V::load(s));
      V::store(s, V::select_lt(at, from, hidden, seen));
    }
  }

  // 16 queries: raises m, rescales l and o, and writes the page's weights as X.
  void softmax(const Unit& u, int half) const {
    const float* s = scores + 16 * half;
    const float log2e = 1.44269504F;
    const V::F unit = V::splat(a.softcap > 0.0F ? log2e : a.scale * log2e);
    V::F top[4] = {V::load(s), V::load(s + 32), V::load(s + 64), V::load(s + 96)};
    for (int key = 4; key < kPageKeys; key += 4) {
      for (int i = 0; i < 4; ++i) top[i] = V::max(top[i], V::load(s + 32 * (key + i)));
    }
    const V::F page_top = V::max(V::max(top[0], top[1]), V::max(top[2], top[3]));
    const V::F before = V::load(u.m + 16 * half);
    const V::F now = V::max(before, V::mul(page_top, unit));
    const V::F down = V::neg(now);
    V::F sum[2] = {V::zero(), V::zero()};
    for (int key = 0; key < kPageKeys; key += 2) {
      V::F p[2];
      for (int i = 0; i < 2; ++i) {
        p[i] = exp2_negative(V::fma(V::load(s + 32 * (key + i)), unit, down));
        sum[i] = V::add(sum[i], p[i]);
      }
      store_x_pair(weights, key, half, p[0], p[1]);
    }
    const V::F shrink = exp2_negative(V::sub(before, now));
    const V::F l = V::fma(V::load(u.l + 16 * half), shrink, V::add(sum[0], sum[1]));
    V::store(u.l + 16 * half, l);
    V::store(u.m + 16 * half, now);
    if (V::max_lane(V::sub(now, before)) == 0.0F) return;  // shrink is 1 everywhere
    for (int f = 0; f < 32 * shape.v_panels; ++f) {
      float* o = u.o + 32 * f + 16 * half;
      V::store(o, V::mul(V::load(o), shrink));
    }
  }

  void finish(const Unit& u, int block, int head) const {
    float* f_block = a.out_f == nullptr ? nullptr
                                        : a.out_f + block * a.out_f_block_stride +
                                              static_cast<std::size_t>(head) * a.v_dim * 32;
    std::uint8_t* x_block = static_cast<std::uint8_t*>(a.out_x);
    if (x_block != nullptr) x_block += block * a.out_x_block_stride;
    for (int half = 0; half < 2; ++half) {
      const V::F inverse = V::div(V::splat(1.0F), V::load(u.l + 16 * half));
      for (int f = 0; f < a.v_dim; f += 2) {
        const float* o = u.o + 32 * f + 16 * half;
        const V::F even = V::mul(V::load(o), inverse), odd = V::mul(V::load(o + 32), inverse);
        if (f_block != nullptr) {
          V::store(f_block + 32 * f + 16 * half, even);
          V::store(f_block + 32 * (f + 1) + 16 * half, odd);
        }
        if (x_block != nullptr) {
          store_x_pair(x_block, a.out_feature + head * a.v_dim + f, half, even, odd);
        }
      }
    }
    const int end = a.out_feature + (head + 1) * a.v_dim;
    if (x_block != nullptr && end == a.out_features) pad_x(x_block, end);
  }

  const AttentionBlock& a;
  const Shape shape;
  float* scores;                    // F block of 64 keys
  std::uint8_t* weights;            // X block of 64 keys
  std::uint8_t *k_panel, *v_panel;  // [2][k_steps], [v_panels][2] panel steps
  std::uint8_t* units;
  int last;  // position of the last valid query
};

}  // namespace
}  // namespace orrery::kernels
