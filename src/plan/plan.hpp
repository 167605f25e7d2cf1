// A Plan is what one forward pass does: a flat list of fused steps over buffers, weights and cache
// groups. A model family's function records it once per phase (builder.hpp); passes rewrite it
// (passes.hpp); a backend compiles it and from then on only runs it. No control flow, no pointers:
// a plan can be printed, compared and hashed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.hpp"
#include "tensor/packed.hpp"

namespace orrery::plan {

// decode: every row is one token of a running or verified sequence, at most capacity.tokens rows.
// prefill: rows are consecutive tokens of one sequence. embed: as prefill, and ends with one vector
// for the text instead of logits.
enum class Phase : std::uint8_t { decode, prefill, embed };

// How a step rounds (ARCHITECTURE.md, "number classes"). Follows from phase and weight type alone.
//   f32: 16 virtual lanes, one reduction tree, explicit fma.
//   b16: operands rounded to bf16, f32 sums in a fixed order over K.
//   i8:  activations as int8 with one scale per 32; exact int32 sums per scale group, four
//   partials.
enum class NumberClass : std::uint8_t { f32, b16, i8 };
std::string_view class_name(NumberClass number_class);

// Linear in N tokens, S sequences, R output rows.
struct Extent {
  std::int32_t per_token = 0, per_sequence = 0, per_output = 0, fixed = 0;
  constexpr std::int64_t at(std::int64_t n, std::int64_t s, std::int64_t r) const {
    return per_token * n + per_sequence * s + per_output * r + fixed;
  }
  bool operator==(const Extent&) const = default;
};
inline constexpr Extent kTokens{1, 0, 0, 0};
inline constexpr Extent kOutputs{0, 0, 1, 0};

// How the elements of a buffer are stored. The order of rows and columns is the backend's own
// (rows outermost, or blocks of 32 rows with features outermost); the bytes are the same.
//   f32:  4 bytes an element.
//   q8:   operand of class i8: int8 per element, f32 scale per 32, int16 sum per 16.
//   bf16: operand of class b16: 2 bytes an element, columns padded to 32.
enum class Form : std::uint8_t { f32, q8, bf16 };

// Which row of a buffer lies where.
//   any:     as the backend keeps the rows of tokens: one after the other, or in blocks of 32.
//   rows:    one after the other in every backend.
//   experts: a row for each pair of a token and an expert that it uses, in whatever order the
//            backend likes (sorted by expert); the extent has room for its padding.
enum class Order : std::uint8_t { any, rows, experts };

using BufferId = std::int16_t;
using WeightId = std::int16_t;
inline constexpr std::int16_t kNone = -1;

struct Buffer {
  std::string name;  // as the field says it: "q", "ffn_norm"; unique with the layer only
  Extent rows;
  std::uint32_t cols = 0;
  Form form = Form::f32;
  std::uint64_t offset = 0;  // bytes into the program's scratch; set by place()
  Order order = Order::any;
  bool operator==(const Buffer&) const = default;
};

// Rows [row_begin, row_begin + rows) of a tensor (rows, cols) with cols contiguous. Fused tensors
// (phi3's qkv) are several weights of one tensor. rows x cols may be 1 x n for norms and biases.
struct Weight {
  std::string tensor;
  DType dtype = DType::f32;
  std::uint32_t rows = 0, cols = 0;
  std::uint32_t row_begin = 0;
  Layout layout = Layout::file;
  std::uint32_t experts = 0;  // above 0: so many matrices of this shape, one an expert
  bool operator==(const Weight&) const = default;
  std::uint64_t bytes() const {  // of all experts
    return row_bytes(dtype, cols) * rows * (experts > 0 ? experts : 1);
  }
};

enum class CacheKind : std::uint8_t { full, window, state };

// Pages of 64 tokens; one page holds all layers of the group: [layer][kv_head]{ K | V }, each of
// its own type and laid out as tensor/cache_page.hpp says; plain types are rows (64, dim). With
// v_in_k (latent attention; plain types) there is no V part: a value is the first v_dim elements of
// its key.
//
// Of kind state, page i holds in f32 what the layers know after the last token so far in
// [64 i, 64 i + 64): [layer]{ history (conv_rows, conv_dim) | state (kv_heads, k_dim, v_dim) }. A
// step reads the page of the token before and writes that of its own, so what stands in page i once
// page i + 1 is begun is a snapshot. A table may name one page twice in a row: then there is none.
struct CacheGroup {
  CacheKind kind = CacheKind::full;
  std::uint32_t window = 0;  // tokens, kind == window
  std::uint32_t layers = 0;
  std::uint32_t kv_heads = 0, k_dim = 0, v_dim = 0;
  DType k_type = DType::f16, v_type = DType::f16;
  bool v_in_k = false;  // then v_type is k_type
  // kind == state: the last inputs of a convolution, oldest first.
  std::uint32_t conv_rows = 0, conv_dim = 0;
  bool operator==(const CacheGroup&) const = default;
  std::uint64_t k_row_bytes() const { return row_bytes(k_type, k_dim); }
  std::uint64_t v_row_bytes() const { return row_bytes(v_type, v_dim); }
  // From one value to the next, and from a head's first key to its first value.
  std::uint64_t v_stride() const { return v_in_k ? k_row_bytes() : v_row_bytes(); }
  std::uint64_t v_offset() const { return v_in_k ? 0 : 64 * k_row_bytes(); }
  std::uint64_t head_token_bytes() const { return k_row_bytes() + (v_in_k ? 0 : v_row_bytes()); }
  std::uint64_t head_bytes() const { return 64 * head_token_bytes(); }
  std::uint64_t history_floats() const { return std::uint64_t{conv_rows} * conv_dim; }
  std::uint64_t layer_bytes() const {
    if (kind != CacheKind::state) return head_bytes() * kv_heads;
    return 4 * (history_floats() + std::uint64_t{kv_heads} * k_dim * v_dim);
  }
  std::uint64_t page_bytes() const { return layer_bytes() * layers; }
};
inline constexpr std::uint32_t kPageTokens = 64;

enum class Op : std::uint8_t {
  embed,          // out0 (N, d) = scale * w0[ids] (+ w1[positions] and w2[types] when present);
                  // an id beyond the rows of w0 takes its first; w2 may have one row for all types
  norm,           // out0 = norm(in0) (* w0) (+ bias0) (+ residual); kind in norm_kind; with heads
                  // every one of so many parts of a row by itself, w0 as wide as a row or a part
  quantize_rows,  // out0 (form q8 or bf16) = in0 (form f32)
  matmul,         // out_i = epilogue(in0 x w_i^T (+ bias_i)), 1 to 3 weights that share the input
  mul,            // out0 = activation(in0) * in1
  split,          // in0 is `heads` parts of sections, widths[i] columns each: out1 (N, ...) takes
                  // the last section of every part, out0 the others: all first ones, all second ...
  columns,        // out0 (N, n) = columns [begin, begin + n) of in0
  join,           // out0 = the columns of in0, then those of in1
  sparsify,       // out0 = max(0, in0 - m - scale s), m and s the mean and the deviation of a row
  match_rms,      // out0 = scale (in0 rms(in1) / rms(in0) (+ residual)); see eps
  altup_predict,  // AltUp, see below: out0 (N, n d), out1 (N, d) from streams in0, router in1
  altup_correct,  // out0 (N, n d), out1 (N, d) from predictions in0, activated in1, router in2
  altup_add,      // out0 = in0 (N, n d) + in1 (N, d) in every stream but the first
  rope_kv_write,  // q, k, v -> rotated q in out0, k and v into pages of the cache group; q alone
                  // where the layer attends over another one's
  attention,      // out0 (N, heads*v_dim) = softmax(scale q k^T) v over the pages of the sequence;
                  // w0 (1, heads): sinks, scores without a value that count in the softmax
  mla_write,      // q, latent -> queries in out0, normed and rotated latents into pages (mla.hpp)
  mla_values,     // out0 (N, heads*v_head) = values of attended latents in0, each head by its w0
  mla_attention,  // the same as mla_write, attention, mla_values with keys and values expanded
  conv_state,     // out0 = activation(sum_j w0[:, j] x[t - taps + 1 + j] + bias0), a causal
                  // convolution of each channel by itself; x = in0 (* in1), the result (* in2)
  scan_state,     // Mamba-2, see below: out0 (N, heads*v_dim) from in0 = [x | B | C] and in1 = dt
  delta_state,    // gated delta rule, see below: out0 from in0 = [q | k | v], in1 = beta, in2 = dt
  select_rows,    // out0 (R, d) = in0[output_rows]
  pool,           // out0 (R, d) = one row made of all rows of in0; R is 1; kind in pool_kind
  logits,         // out0 (R, vocab) = in0 x w0^T (+ bias0), scaled and softcapped
  // Mixture of experts. The experts of a token and their weights are `routes` (N, 2 used (+ 1)),
  // f32 in row order: the used experts' numbers, the best first, then their weights in that order,
  // then the weight of the shared expert where it has a gate.
  moe_route,   // out0 routes = the choice from the router's logits in0 (N, experts), row order;
               // in1 (N, 1): logits of the shared expert's gate; w0 (1, experts): added to the
               // scores for the choice alone; w1 (1, experts): factors of the weights
  moe_matmul,  // out0 = epilogue(in0 x w_i[expert]^T (+ bias_i[expert])) for each expert of the
               // routes in1; in0 has rows of tokens, or of experts as another such step made them.
               // One weight, or with glu two; biases are (experts, n);
               // with weigh_input the factors of what comes out of a weight are those of the routes
  moe_combine,  // out0 (N, d) = scale * (sum of in0's rows of a token times their weights in the
                // routes in1, + in2 (N, d) times the shared expert's weight, + bias0) (+ residual);
                // with weigh_input the rows alone are summed
  add,          // out0 = scale (in0 + in1)
  tap,          // names in0 for tests; does nothing
};
std::string_view op_name(Op op);

// scan_state and delta_state keep a matrix S (k_dim, v_dim) for each of `heads` heads; head h
// shares q and k with the others of kv head h * kv_heads / heads. Of each token, with dt =
// softplus(dt + bias0) and decay = exp(dt w0), w0 and bias0 (heads):
//   scan:  x (v_dim of each head), B and C (k_dim of each kv head), w1 (heads):
//          S = decay S + B (dt x)^T,   out = S^T C + w1 x
//   delta: k / |k| and scale q / |q|, |x| = sqrt(sum x^2 + eps):
//          S = decay S,   S = S + k (sigmoid(beta) (v - S^T k))^T,   out = S^T q

// AltUp (arXiv 2301.13310): n streams of d columns lie side by side, and only the stream `active`
// is computed. With r the router's n values of a token and c = w0 r, w0 as n columns:
//   predict: out0_j = in0_j + sum_i c[n j + i] in0_i, out1 = out0_active
//   correct: out0_j = in0_j + (1 + c[j]) (in1 - in0_active), out1 = w1 out0_active, w1 (1, d)

enum class NormKind : std::uint8_t { rms, layer };
// Which rows make the vector of a text.
enum class PoolKind : std::uint8_t { mean, first, last };
// swiglu_clamped (gpt-oss), with glu only: gate * sigmoid(1.702 gate) * (1 + up), where gate is at
// most 7 and up within -7 and 7.
enum class Activation : std::uint8_t { none, silu, gelu_tanh, gelu_erf, sigmoid, swiglu_clamped };
// adjacent: pairs (2i, 2i+1), GGUF's llama. halves: pairs (i, i + dim/2), Hugging Face and neox.
enum class RopeStyle : std::uint8_t { none, adjacent, halves };
// How the router's logits become the weights of experts.
//   softmax:      over all experts.
//   softmax_used: over the chosen ones; the same as softmax, renormalised.
//   sigmoid:      of each logit.
enum class Gate : std::uint8_t { softmax, softmax_used, sigmoid };
// What a group of experts is chosen by: its best score, or the sum of its two best.
enum class GroupScore : std::uint8_t { best, best_two };
// What q_norm / k_norm of rope_kv_write normalise over: one head, or the whole width.
enum class QkNorm : std::uint8_t { none, head, width };

// Queries grow with their position p, so that attention stays sharp over long texts (Llama 4, after
// arXiv 2501.19399): times 1 + rate ln(1 + floor((p + 1) / step)); rate 0 is off.
struct QueryGrowth {
  float rate = 0.0F;
  std::uint32_t step = 1;  // tokens
  bool operator==(const QueryGrowth&) const = default;
  float at(std::int32_t position) const;
};

// How a file stores the matrices that make a head's keys and values from a latent: mla.hpp.
enum class LatentWeights : std::uint8_t { none, joint, split };

// One fused operation. A plain struct: every field has a value; those an op does not use keep
// their defaults, so that steps compare and hash.
struct Step {
  Op op = Op::tap;
  NumberClass number_class = NumberClass::f32;
  std::int16_t layer = -1;  // -1 outside of layers

  std::array<BufferId, 3> in{kNone, kNone, kNone};
  std::array<BufferId, 3> out{kNone, kNone, kNone};
  BufferId residual = kNone;  // norm, matmul (one weight): added to the result
  std::array<WeightId, 3> w{kNone, kNone, kNone};
  std::array<WeightId, 3> bias{kNone, kNone, kNone};

  // embed: factor of the row. matmul: result * scale before the residual. attention: of the scores.
  // logits: of the result. moe_route: of the weights of experts. moe_combine: before the residual.
  // add, match_rms: of the sum. sparsify: of the deviation.
  float scale = 1.0F;
  float softcap = 0.0F;      // attention, matmul, logits: cap * tanh(x / cap); 0 is off
  float eps = 0.0F;          // norm and q/k norms; match_rms: the least mean square of in0
  float norm_offset = 0.0F;  // norm and q/k norms: weight + offset (1 where a file stores w - 1)
  NormKind norm_kind = NormKind::rms;
  PoolKind pool_kind = PoolKind::mean;
  Activation activation = Activation::none;  // matmul; with glu: out0 = act(x w0^T) * (x w1^T)
  bool glu = false;

  std::int16_t group = -1;        // cache group
  std::int16_t group_layer = -1;  // layer inside the group's pages
  std::uint16_t heads = 0, kv_heads = 0;
  std::uint16_t k_dim = 0, v_dim = 0;  // per head
  // Latent attention: elements of a query head that do not rotate, elements of a head's value.
  std::uint16_t nope_dim = 0, v_head = 0;
  LatentWeights latent = LatentWeights::none;
  std::uint32_t window = 0;  // attention sees positions > p - window; 0 is all
  // attention: positions fall into chunks of `window`, and a row sees those of its own.
  bool chunked = false;
  // attention: up to the row's own position. Otherwise to the last of the batch, which is one whole
  // sequence, and with a window to those < p + window.
  bool causal = true;
  RopeStyle rope = RopeStyle::none;
  std::uint16_t rope_dim = 0;             // leading dims of a head that rotate
  std::int16_t rope_table = -1;           // constants[rope_table]: rope_dim/2 frequencies
  float rope_mscale = 1.0F;               // factor of cos and sin (YaRN, longrope)
  QkNorm qk_norm = QkNorm::none;          // weights w0 (q) and w1 (k); without: ones
  QueryGrowth query_growth;               // rope_kv_write
  std::array<std::uint32_t, 4> widths{};  // split: columns of the sections, 0 where there is none
  std::uint32_t begin = 0;                // columns: the first of them
  std::uint16_t active = 0;               // AltUp: the stream that is computed

  std::uint16_t experts = 0, experts_used = 0;  // all ops of experts
  // moe_route. Weights are the scores that `gate` makes; scores plus w0 decide the choice.
  Gate gate = Gate::softmax;
  bool renormalise = false;  // the weights of a token sum to 1, before the scale
  // Groups of neighbouring experts: only those in the best `groups_used` of `groups` are chosen
  // from; 0: no groups.
  std::uint16_t groups = 0, groups_used = 0;
  GroupScore group_score = GroupScore::best;
  // moe_matmul, moe_combine: an expert gets a token's row times the weight of its route, and what
  // it makes of that is not weighed again.
  bool weigh_input = false;

  bool operator==(const Step&) const = default;
};

struct Capacity {
  std::uint32_t tokens = 0, sequences = 0, outputs = 0;
  bool operator==(const Capacity&) const = default;
};

struct Plan {
  std::string family;
  Phase phase = Phase::decode;
  Capacity capacity;
  std::uint32_t vocab = 0;
  std::vector<Weight> weights;
  std::vector<Buffer> buffers;
  std::vector<std::vector<float>> constants;  // rope frequencies and the like
  std::vector<CacheGroup> groups;
  std::vector<Step> steps;
  BufferId result = kNone;          // logits (R, vocab), or the vector (R, d) of phase embed
  std::uint64_t scratch_bytes = 0;  // set by place()
  bool operator==(const Plan&) const = default;
};

// Columns of one row of a buffer in bytes: q8 is [int8 q (cols) | f32 d (cols/32) | int16 sums
// (cols/16)], each part starting at a multiple of 64 bytes.
std::uint64_t form_row_bytes(Form form, std::uint32_t cols);
// Bytes for `rows` rows; rows are padded to 32 so that block layouts fit in the same space.
std::uint64_t buffer_bytes(const Buffer& buffer, std::uint64_t rows);

}  // namespace orrery::plan
