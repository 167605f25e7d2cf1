// Prefill attention (class b16): flash attention, feature-major. Per page of 64 keys:
// S^T[key][query] = K x Q^T, online softmax over keys (vertical, lanes = queries), then
// O^T[feature][query] += V^T x P^T. K, V, Q and P are rounded to bf16, sums are f32.
// Key pages are taken in order and a masked key adds exactly nothing, so the bits of a query do not
// depend on how queries were grouped. Method: Dao et al., FlashAttention (2022).
#pragma once

#include "kernels/body/block_layout.hpp"
#include "kernels/body/block_math.hpp"
#include "kernels/body/block_product.hpp"
#include "kernels/body/cache_panels.hpp"

namespace orrery::kernels {
namespace {

constexpr float kLog2E = 1.44269504F;
constexpr float kNoScore = -3.0e38F;  // a maximum that no score has raised yet

// The weights of a page of keys for 32 queries: exp2(score * unit - top), as X, and their sums. A
// pair of keys at a call, between tile products. Of one half of the queries, if `halves` is 1.
struct PageWeights {
  static constexpr bool kEarly = true;
  const float* scores;  // F block of 64 keys
  std::uint8_t* x;
  int halves;
  V::F unit = V::zero();
  V::F down[2] = {};    // -top, by halves of the queries
  V::F sum[2][2] = {};  // by halves, even and odd keys
  int next = 0;

  template <class Tile>
  [[gnu::always_inline]] inline void operator()(Tile) {
    if (next < kPageKeys) pair();
  }
  void finish() {
    while (next < kPageKeys) pair();
  }

 private:
  [[gnu::always_inline]] inline void pair() {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      if (half == halves) break;
      V::F p[2];
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const V::F score = V::load(scores + 32 * (next + i) + 16 * half);
        p[i] = exp2_b16(V::fma(score, unit, down[half]));
        sum[half][i] = V::add(sum[half][i], p[i]);
      }
      store_x_pair(x, next, half, p[0], p[1]);
    }
    next += 2;
  }
};

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
    return 2 * (kScoreBytes + kWeightBytes) + shape.k_bytes + shape.v_bytes +
           kMaxAttentionUnits * shape.unit_bytes;
  }

  static void run(const AttentionBlock& a) {
    BlockFlash flash(a);
    flash.all_pages();
  }

 private:
  explicit BlockFlash(const AttentionBlock& call) : a(call), shape(call.k_dim, call.v_dim) {
    std::uint8_t* p = static_cast<std::uint8_t*>(a.scratch);
    for (int i = 0; i < 2; ++i) {
      scores[i] = reinterpret_cast<float*>(p), p += kScoreBytes;
      weights[i] = p, p += kWeightBytes;
      __builtin_memset(weights[i], 0, kWeightBytes);  // tiles read those of no query too
    }
    k_panel = p, p += shape.k_bytes;
    v_panel = p, p += shape.v_bytes;
    units = p;
    last = a.first_position + a.n_tokens - 1;
    last_key = a.last_key < 0 ? last : a.last_key;
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
    const bool sink = a.sinks != nullptr;
    const float m = sink ? a.sinks[head] * kLog2E : kNoScore, l = sink ? 1.0F : 0.0F;
    for (int t = 0; t < 32; ++t) u.m[t] = m, u.l[t] = t < 16 * halves(block) ? l : 1.0F;
  }

  // Positions of a block's first token and of its last valid one.
  int block_first(int block) const { return a.first_position + 32 * block; }
  int block_last(int block) const {
    return block_first(block) + 31 < last ? block_first(block) + 31 : last;
  }
  // Of 16 queries each, those with a valid one; of the others nothing is computed.
  int halves(int block) const { return block_first(block) + 16 > last ? 1 : 2; }
  // The first position that a query at `position` sees.
  int first_seen(int position) const {
    if (a.window == 0 || static_cast<std::uint32_t>(position) < a.window) return 0;
    const int window = static_cast<int>(a.window);
    return a.chunked ? position - position % window : position + 1 - window;
  }

  // The last one.
  int last_seen(int position) const {
    if (a.last_key < 0) return position;
    if (a.window == 0 || a.window > static_cast<std::uint32_t>(last_key - position))
      return last_key;
    return position + static_cast<int>(a.window) - 1;
  }

  void all_pages() {
    const int end = last_seen(last) / kPageKeys + 1;
    for (int page = first_seen(a.first_position) / kPageKeys; page < end; ++page) {
      convert(page);
      visit(page);
    }
    for (int b = 0; b < a.blocks; ++b) {
      for (int h = 0; h < a.heads; ++h) finish(unit(b, h), b, h);
    }
  }

  bool sees(int block, int page) const {
    return block_first(block) <= last && page <= last_seen(block_last(block)) / kPageKeys &&
           page >= first_seen(block_first(block)) / kPageKeys;
  }

  // One page for all units that see it. While vectors compute the weights of a unit, tiles multiply
  // the queries of the one after it with K and the weights of the one before it with V.
  void visit(int page) {
    int blocks_of[kMaxAttentionUnits], n = 0;
    Unit list[kMaxAttentionUnits];
    for (int b = 0; b < a.blocks; ++b) {
      if (!sees(b, page)) continue;
      for (int h = 0; h < a.heads; ++h) blocks_of[n] = b, list[n++] = unit(b, h);
    }
    if (n == 0) return;
    NothingBetween nothing;
    multiply_scores(list[0], blocks_of[0], 0, nothing);
    chain.finish();
    for (int i = 0; i < n; ++i) {
      PageWeights weighing = weigh(list[i], page, blocks_of[i], i % 2);
      if (i + 1 < n) multiply_scores(list[i + 1], blocks_of[i + 1], (i + 1) % 2, weighing);
      if (i > 0) multiply_values(list[i - 1], blocks_of[i - 1], (i - 1) % 2, weighing);
      if (i == 0) chain.finish();  // or the next scores would wait for values
      weighing.finish();
      raise(list[i], weighing);
    }
    multiply_values(list[n - 1], blocks_of[n - 1], (n - 1) % 2, nothing);
    chain.finish();
  }

  template <class Between>
  [[gnu::always_inline]] inline void multiply_scores(const Unit& u, int block, int buffer,
                                                     Between& between) {
    const std::size_t panel_bytes = static_cast<std::size_t>(shape.k_steps) * P::kStepBytes;
    for (int i = 0; i < 2; ++i) {
      chain.template multiply<Stream::panel>(k_panel + i * panel_bytes, u.q, shape.k_steps,
                                             scores[buffer] + i * kBlockFloats, true, between,
                                             nullptr, 16 * halves(block));
    }
  }
  template <class Between>
  [[gnu::always_inline]] inline void multiply_values(const Unit& u, int block, int buffer,
                                                     Between& between) {
    for (int i = 0; i < shape.v_panels; ++i) {
      chain.template multiply<Stream::panel>(v_panel + 2 * i * P::kStepBytes, weights[buffer], 2,
                                             u.o + i * kBlockFloats, false, between, nullptr,
                                             16 * halves(block));
    }
  }

  // K and V of a page -> panels. Keys behind the last one are zeroed: their memory is not filled.
  void convert(int page) const {
    const int filled = last_key + 1 - page * kPageKeys;
    const std::byte* k = a.make_page != nullptr
                             ? a.make_page(a.context, page, filled)
                             : a.pool + a.pages[page] * a.page_bytes + a.head_offset;
    const std::byte* v = k + kPageKeys * cache_row_bytes(a.k_type, a.k_dim);
    CachePanels<P>::keys(a.k_type, k, a.k_dim, filled, k_panel);
    CachePanels<P>::values(a.v_type, v, a.v_dim, filled, v_panel);
  }

  // What makes a page's scores weights: caps and masks them, and finds the new maximum.
  PageWeights weigh(const Unit& u, int page, int block, int buffer) const {
    const int start = page * kPageKeys;
    const bool masked = start + kPageKeys - 1 > last_seen(block_first(block)) ||
                        start < first_seen(block_last(block));
    PageWeights weighing{scores[buffer], weights[buffer], halves(block)};
    weighing.unit = V::splat(a.softcap > 0.0F ? kLog2E : a.scale * kLog2E);
    for (int half = 0; half < weighing.halves; ++half) {
      float* s = scores[buffer] + 16 * half;
      if (a.softcap > 0.0F) cap(s);
      if (masked) mask(s, start, block, half);
      const V::F top = V::mul(greatest(s), weighing.unit);
      weighing.down[half] = V::neg(V::max(V::load(u.m + 16 * half), top));
    }
    return weighing;
  }

  // Of a page's keys, for 16 queries.
  static V::F greatest(const float* s) {
    V::F top[4] = {V::load(s), V::load(s + 32), V::load(s + 64), V::load(s + 96)};
    for (int key = 4; key < kPageKeys; key += 4) {
      for (int i = 0; i < 4; ++i) top[i] = V::max(top[i], V::load(s + 32 * (key + i)));
    }
    return V::max(V::max(top[0], top[1]), V::max(top[2], top[3]));
  }

  // score = softcap * tanh(score * scale / softcap)
  void cap(float* scores_of_half) const {
    const V::F inner = V::splat(a.scale / a.softcap), outer = V::splat(a.softcap);
    for (int key = 0; key < kPageKeys; ++key) {
      float* s = scores_of_half + 32 * key;
      V::store(s, V::mul(outer, tanh(V::mul(V::load(s), inner))));
    }
  }

  void mask(float* scores_of_half, int start, int block, int half) const {
    alignas(64) float newest[16], oldest[16];  // of the keys that a query sees, from `start`
    for (int i = 0; i < 16; ++i) {
      const int own = block_first(block) + 16 * half + i;
      const int position = own < last ? own : last;  // padding tokens act as the last valid one
      newest[i] = static_cast<float>(last_seen(position) - start);
      oldest[i] = static_cast<float>(first_seen(position) - start);
    }
    const V::F hidden = V::splat(-__builtin_inff());
    const V::F to = V::load(newest), from = V::load(oldest);
    for (int key = 0; key < kPageKeys; ++key) {
      float* s = scores_of_half + 32 * key;
      const V::F at = V::splat(static_cast<float>(key));
      const V::F seen = V::select_lt(to, at, hidden, V::load(s));
      V::store(s, V::select_lt(at, from, hidden, seen));
    }
  }

  // Raises m; rescales l and o, and adds the page's weights to l.
  void raise(const Unit& u, const PageWeights& page) const {
    for (int half = 0; half < page.halves; ++half) {
      const V::F before = V::load(u.m + 16 * half), now = V::neg(page.down[half]);
      const V::F shrink = exp2_b16(V::sub(before, now));
      const V::F l =
          V::fma(V::load(u.l + 16 * half), shrink, V::add(page.sum[half][0], page.sum[half][1]));
      V::store(u.l + 16 * half, l);
      V::store(u.m + 16 * half, now);
      if (V::max_lane(V::sub(now, before)) == 0.0F) continue;  // shrink is 1 everywhere
      for (int f = 0; f < 32 * shape.v_panels; ++f) {
        float* o = u.o + 32 * f + 16 * half;
        V::store(o, V::mul(V::load(o), shrink));
      }
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
  float* scores[2];                 // F block of 64 keys
  std::uint8_t* weights[2];         // X block of 64 keys
  std::uint8_t *k_panel, *v_panel;  // [2][k_steps], [v_panels][2] panel steps
  std::uint8_t* units;
  int last;      // position of the last valid query
  int last_key;  // of the last key that any query sees
  typename P::Chain chain;
};

}  // namespace
}  // namespace orrery::kernels
