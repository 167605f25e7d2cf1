// Row kernels: activations as rows (row-major), used by decode and by everything of few rows.
// Classes i8 and f32: equal bits for every ISA, number of rows and split of the work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cache_page.hpp"
#include "tensor/dtype.hpp"
#include "tensor/packed.hpp"

namespace orrery::kernels {

inline constexpr int kMaxDTypeId = 48;

// One row of an operand of class i8, k activations (k % 32 == 0), parts 64-byte aligned:
//   int8 q[k] | float d[k / 32] | int16 sums[k / 16]   (sums of q over 16)
// d = absmax / 127 (0 for a zero block), q = round-half-even(x / d).
struct Q8Layout {
  std::size_t d_offset, sums_offset, stride;
};
[[gnu::always_inline]] constexpr Q8Layout q8_layout(std::size_t k) {
  const std::size_t d = (k + 63) / 64 * 64;
  const std::size_t sums = d + (k / 8 + 63) / 64 * 64;
  return {d, sums, sums + (k / 8 + 63) / 64 * 64};
}

// y[i][r] = dot(x_i, w_r) for i < m, r < n.
//
// Class i8, the one definition for every layout, ISA and number of rows. Scale group b of a row is
// its b-th group along k: 32 weights, or 16 for Q2_K, Q3_K, Q6_K and NVFP4. With the codes w (the
// zero point taken off) and the activations q of the group, all in float but I and the sum of q:
//   I = sum(w q) exactly, s = d_w d_x rounded once, acc[b mod 4] = fma(I, s, acc[b mod 4]),
//   then, where the type has a minimum, c = d_x sum(q), acc[b mod 4] = fma(m_w, c, acc[b mod 4]);
//   from +0, y = (acc[0] + acc[2]) + (acc[1] + acc[3]).
// d_w is the block's d; for K types and IQ4_XS d times the group's integer scale; for MXFP4
// 2^(e - 128) and for NVFP4 half the e4m3 scale, because the E2M1 codes are doubled. m_w is what is
// added: m of Q4_1 and Q5_1, -(dmin * min) of K types. d_x is that of the 32 activations.
//
// Class f32: 16 lanes, lane i takes k = i (mod 16) in order by fma from +0, a cut end filled with
// zeros; the lanes are summed i + 8, i + 4, i + 2, i + 1.
struct MatmulRows {
  const void* w;         // n rows of file blocks or n / 16 packed panels, any alignment
  std::size_t w_stride;  // bytes between weight rows
  int n, k;
  const void* x;         // m rows: Q8Layout rows (class i8) or float rows (class f32)
  std::size_t x_stride;  // bytes between activation rows
  int m;
  float* y;              // (m, n)
  std::size_t y_stride;  // floats between rows of y
};

struct NormRow {
  const float* x;         // (n)
  const float* weight;    // (n), or null: ones
  const float* bias;      // (n), or null
  const float* residual;  // (n), or null: added to the result
  float* out;             // (n), may be x or residual
  int n;
  float eps, offset;  // out = x * r * (weight + offset) + bias + residual
  bool layer_norm;    // subtract the mean first
};

// swiglu_clamped: see clamped_gate() in body/math.hpp; with a gate only.
enum class ActivationKind : std::uint8_t {
  none,
  silu,
  gelu_tanh,
  gelu_erf,
  sigmoid,
  swiglu_clamped
};

// One head of one row: x (dim) rotated in place by cos/sin (rope_dim / 2 each).
struct RopeRow {
  float* x;
  const float* cos;
  const float* sin;
  int rope_dim;
  bool adjacent;  // pairs (2i, 2i+1), else (i, i + rope_dim / 2)
};

// A token's keys or values of one head into their page (tensor/cache_page.hpp).
struct StoreCacheRow {
  const float* x;    // (dim)
  std::byte* bytes;  // the side's, of this head in the token's page
  int dim, slot;     // slot: the token's place in the page
  DType type;
  CacheSide side;
};

// The widest head that may have quantized keys or values.
inline constexpr int kMaxQuantizedDim = 1024;

// Partial attention of `g` query heads that share a kv head over positions [begin, end), a part of
// one 256-token block (blocks start at multiples of 256).
//
// Scores with quantized keys are products of class i8 (MatmulRows): the query is its activation
// row, a key its weight row. Sums with quantized values: the weights of the block, times the scales
// of the 32 elements that they meet, become int16 with one scale, largest / 32767; the sum over the
// block is exact and is rounded once.
struct AttentionPart {
  const float* q;  // (g, k_dim), q_stride floats apart
  std::size_t q_stride;
  int g, k_dim, v_dim;
  const std::byte* pool;  // + page * page_bytes + head_offset: keys | values (cache_page.hpp)
  std::size_t page_bytes, head_offset;
  std::size_t v_offset, v_stride;  // bytes from K to V, and between its rows where it is plain
  const std::int32_t* pages;       // pages[i] covers positions [64 i, 64 i + 64)
  int begin, end;
  int filled = 0;  // positions that the sequence has: the next part's are fetched ahead
  DType k_type, v_type;
  float scale, softcap;
  float* m;  // (g) running maximum of the scores
  float* l;  // (g) sum of exp(score - m)
  float* o;  // (g, v_dim) sum of exp(score - m) * v, o_stride floats apart
  std::size_t o_stride;
};

// Parts in index order -> out (g, v_dim): the same result for every split over threads.
struct AttentionMerge {
  const float* m;  // (parts, g)
  const float* l;  // (parts, g)
  const float* o;  // (parts, g, v_dim)
  int parts, g, v_dim;
  float* out;  // (g, v_dim), out_stride floats apart
  std::size_t out_stride;
};

// Class i8 by panels of sixteen weight rows: the same bits as `matmul`, faster from `rows`
// activation rows on. Those for packed layout (tensor/packed.hpp) take any number of rows; n % 16
// == 0 there.
struct PanelKernels {
  int rows;
  void (*matmul[kMaxDTypeId])(const MatmulRows&);
};

// out += factors[0] rows[0] + factors[1] rows[1] + ..., by fma in this order: class f32.
struct RowSum {
  const float* rows;  // (n, cols), stride floats apart
  std::size_t stride;
  int n, cols;
  const float* factors;  // (n)
  float* out;            // (cols)
};

struct DecodeKernels {
  // n elements of a row as floats, those of orrery::decode_row: whole blocks, any n of plain types.
  void (*decode[kMaxDTypeId])(const void* row, int n, float* out);
  void (*add_rows)(const RowSum&);
};
struct StateKernels;  // state_kernels.hpp

struct RowKernels {
  const char* isa;  // "emu", "avx2", "avx512"
  // By dtype id; null where a type has no kernel. Quantized types: class i8; float types: f32.
  void (*matmul[kMaxDTypeId])(const MatmulRows&);
  const PanelKernels* panels;
  const PanelKernels* packed;
  const DecodeKernels* decode;
  const StateKernels* state;
  void (*quantize_q8)(const float* x, int k, void* q8_row);
  void (*norm)(const NormRow&);
  void (*rope)(const RopeRow&);
  void (*store_cache)(const StoreCacheRow&);
  void (*attention_part)(const AttentionPart&);
  void (*attention_merge)(const AttentionMerge&);
  void (*activate)(ActivationKind, float* y, int n);  // y = act(y)
  void (*glu)(ActivationKind, const float* gate, const float* up, float* out, int n);
  void (*add)(const float* a, const float* b, float* out, int n);  // a + b
  void (*mul)(const float* a, const float* b, float* out, int n);  // a * b
  // y = y * scale + residual (residual may be null)
  void (*scale_add)(float* y, float scale, const float* residual, int n);
  void (*softcap)(float* y, float cap, int n);  // cap * tanh(y / cap)
  void (*to_f16)(const float* x, void* out, int n);
  void (*to_bf16)(const float* x, void* out, int n);
  void (*from_f16)(const void* x, float* out, int n);
};

// The kernel for m activation rows; null where a type has none.
inline auto row_matmul(const RowKernels& table, DType type, Layout layout, int m) {
  const auto id = static_cast<std::size_t>(type);
  if (layout == Layout::packed) return table.packed->matmul[id];
  const bool many = m >= table.panels->rows && table.panels->matmul[id] != nullptr;
  return many ? table.panels->matmul[id] : table.matmul[id];
}

}  // namespace orrery::kernels
