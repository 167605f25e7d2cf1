// Kernels of layers with a state: short convolutions and recurrences (plan.hpp, Op). Class f32: the
// operations on one element and their order are fixed, so its bits depend neither on the ISA nor on
// how the tokens are cut into calls.
#pragma once

#include <cstddef>

#include "kernels/row_kernels.hpp"

namespace orrery::kernels {

inline constexpr int kMaxConvTaps = 16;
// Tokens of one call of scan and delta.
inline constexpr int kStateTokens = 16;

// `n` channels of a causal convolution:
//   x' = x gate_in, y = act(bias + filter[0] before[0] + ... + filter[taps - 1] x') gate_out,
// terms in this order, by fma. The last taps - 1 values of x', the oldest first, are the history.
struct Conv {
  const float* gate_in;   // as x, or null: ones
  const float* gate_out;  // as out, or null
  const float* before;    // history (taps - 1, n), rows `stride` floats apart, or null: zeros
  float* after;           // history behind the last token; may be `before`
  const float* filter;    // (taps, n), rows `stride` floats apart
  const float* bias;      // (n), or null
  int n, taps;
  std::size_t stride;
  ActivationKind activation;
};
// One token: x and out (n).
struct ConvRow {
  Conv conv;
  const float* x;
  float* out;
};
// Tokens [begin, end) of an F block (block_kernels.hpp): x, out and the gates are [n][32].
struct ConvBlock {
  Conv conv;
  const float* x;
  float* out;
  int begin, end;
};

// One token of one head. scan: q = C, k = B, v = x and beta = dt; delta: q and k are normed.
struct StateToken {
  const float *q, *k;  // (k_dim)
  const float* v;      // (v_dim)
  float* out;          // (v_dim)
  float decay, beta;
};
// Consecutive tokens of one head, S (k_dim, v_dim). Sums run over k in order, by fma from +0.
//   scan:  S = fma(k, beta v, decay S), out = fma(skip, v, sum_k S q)
//   delta: S = decay S, S = fma(k, beta (v - sum_k S k), S), out = sum_k S q
struct StateTokens {
  const float* before;  // S before the first token, or null: zeros
  float* after;         // S behind the last; may be `before`
  const StateToken* tokens;
  int n;  // 1 .. kStateTokens
  int k_dim, v_dim;
  float skip;  // scan
};

struct StateKernels {
  void (*conv_row)(const ConvRow&);
  void (*conv_block)(const ConvBlock&);
  void (*scan)(const StateTokens&);
  void (*delta)(const StateTokens&);
  // dt = softplus(raw + bias), decay = exp(dt a) of n <= kStateTokens tokens.
  void (*decay)(const float* raw, float bias, float a, int n, float* dt, float* decay);
  // out = x * (scale / sqrt(sum x^2 + eps))
  void (*l2_norm)(const float* x, int n, float eps, float scale, float* out);
};

}  // namespace orrery::kernels
