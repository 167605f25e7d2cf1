// Records a Plan. A family's forward pass calls it as the paper is written; matmul() picks the
// number class from phase and weight type, inserts the operand conversion (quantize_rows) once per
// input and class, and splits weights of unlike classes into several steps.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/result.hpp"
#include "plan/mla.hpp"
#include "plan/plan.hpp"

namespace orrery::plan {

// The class of a weight type in a phase: see NumberClass. `deterministic` gives prefill the classes
// of decode.
NumberClass weight_class(Phase phase, DType dtype, bool deterministic);

struct MatmulOptions {
  std::array<WeightId, 3> bias{kNone, kNone, kNone};
  BufferId residual = kNone;
  float scale = 1.0F, softcap = 0.0F;
  Activation activation = Activation::none;
  // Decode's class in every phase, and results in row order: for products of few weight rows whose
  // rounding decides something (a router's logits).
  bool as_decode = false;
};

// moe_route: see the fields of Step.
struct RouteOptions {
  std::uint16_t used = 1;  // experts of a token
  Gate gate = Gate::softmax;
  bool renormalise = false;
  float scale = 1.0F;
  std::uint16_t groups = 0, groups_used = 0;
  GroupScore group_score = GroupScore::best;
  WeightId choice_bias = kNone;  // (1, experts)
  WeightId factors = kNone;      // (1, experts), of the weights
  BufferId shared_gate = kNone;  // logits (N, 1) in row order
};

// The feed-forward of experts: down[e] (act(x gate[e]^T) * (x up[e]^T)), combined.
struct ExpertOptions {
  // Stacks: (ffn, d), (ffn, d), (d, ffn). Without up: down[e] act(x gate[e]^T).
  WeightId gate = kNone, up = kNone, down = kNone;
  WeightId gate_bias = kNone, up_bias = kNone, down_bias = kNone;  // (experts, n)
  WeightId sum_bias = kNone;                                       // (1, d), of the sum
  bool weigh_input = false;
  Activation activation = Activation::silu;
  BufferId shared = kNone;  // (N, d): what a shared expert made, if routes have its weight
  float scale = 1.0F;       // of the sum, before the residual
  BufferId residual = kNone;
};

struct AttentionOptions {
  std::int16_t group = 0, group_layer = 0;
  std::uint16_t heads = 0, kv_heads = 0, k_dim = 0, v_dim = 0;
  float scale = 1.0F, softcap = 0.0F;
  std::uint32_t window = 0;
  bool chunked = false;
  bool causal = true;
  RopeStyle rope = RopeStyle::none;
  std::uint16_t rope_dim = 0;
  std::int16_t rope_table = -1;
  float rope_mscale = 1.0F;
  QkNorm qk_norm = QkNorm::none;
  WeightId q_norm = kNone, k_norm = kNone;
  QueryGrowth query_growth;
  WeightId sinks = kNone;  // (1, heads)
  float eps = 0.0F, norm_offset = 0.0F;
};

struct NormOptions {
  NormKind kind = NormKind::rms;
  float eps = 1e-5F;
  float offset = 0.0F;
  WeightId bias = kNone;
  BufferId residual = kNone;
  std::uint16_t parts = 0;  // of a row that are normed each by itself; 0: the whole row
};

struct MatchOptions {
  float least = 1e-5F;  // mean square of what is matched
  float scale = 1.0F;
  BufferId residual = kNone;
};

struct ConvOptions {
  std::int16_t group = 0, group_layer = 0;
  WeightId bias = kNone;
  BufferId gate_in = kNone, gate_out = kNone;  // factors of the input and of the result
  Activation activation = Activation::none;
};

// Of scan_state and delta_state (plan.hpp).
struct RecurrenceOptions {
  std::int16_t group = 0, group_layer = 0;
  std::uint16_t heads = 0, kv_heads = 0, k_dim = 0, v_dim = 0;
  WeightId decay = kNone, dt_bias = kNone;  // (heads)
  WeightId skip = kNone;                    // scan (heads)
  float scale = 1.0F, eps = 0.0F;           // delta: of q, and of the norms of q and k
};

class Builder {
 public:
  // `experts_as_decode`: prefill multiplies with quantized experts in decode's class, too.
  Builder(std::string family, Phase phase, Capacity capacity, bool deterministic,
          bool experts_as_decode = false);

  WeightId weight(Weight weight);
  std::int16_t constant(std::vector<float> values);
  std::int16_t cache_group(CacheGroup group);
  DType dtype(WeightId weight) const { return plan_.weights[weight].dtype; }
  void set_layer(std::int16_t layer) { layer_ = layer; }

  // `types`: rows that are added by token type, or one that is added to each.
  BufferId embed(WeightId table, WeightId positions, float scale, WeightId types = kNone);
  BufferId norm(std::string name, BufferId x, WeightId weight, const NormOptions& options);
  // One to three weights that share the input; results in order, one buffer each.
  std::vector<BufferId> matmul(std::span<const std::string> names, BufferId x,
                               std::span<const WeightId> weights, const MatmulOptions& options);
  BufferId matmul(std::string name, BufferId x, WeightId weight, const MatmulOptions& options);
  // activation(x gate^T) * (x up^T)
  BufferId glu(std::string name, BufferId x, WeightId gate, WeightId up, Activation activation);
  // The routes of every token (plan.hpp, moe_route) from the router's logits, made `as_decode`.
  BufferId moe_route(BufferId logits, const RouteOptions& options);
  // (N, d) from x (N, d). Gate and up share an element type.
  BufferId experts(std::string name, BufferId x, BufferId routes, const ExpertOptions& options);
  // rope_kv_write and attention; returns (N, heads * v_dim).
  BufferId attention(BufferId q, BufferId k, BufferId v, const AttentionOptions& options);
  // Latent attention (mla.hpp), absorbed or expanded as the phase wants; returns (N, heads *
  // v_head).
  BufferId latent_attention(BufferId q, BufferId latent, const LatentOptions& options);
  BufferId add(std::string name, BufferId a, BufferId b, float scale = 1.0F);
  // activation(a) * b
  BufferId mul(std::string name, BufferId a, BufferId b, Activation activation);
  // builder_state.cpp
  // x (N, heads * sum of widths): the last section of every part, and the others (plan.hpp, split).
  struct Sections {
    BufferId first = kNone, last = kNone;
  };
  Sections split(std::string first, std::string last, BufferId x, std::uint16_t heads,
                 const std::array<std::uint32_t, 4>& widths);
  BufferId conv_state(std::string name, BufferId x, WeightId filter, const ConvOptions& options);
  BufferId scan_state(BufferId xbc, BufferId dt, const RecurrenceOptions& options);
  BufferId delta_state(BufferId qkv, BufferId beta, BufferId dt, const RecurrenceOptions& options);
  // builder_streams.cpp: see the ops of the same names.
  BufferId columns(std::string name, BufferId x, std::uint32_t begin, std::uint32_t cols);
  BufferId join(std::string name, BufferId a, BufferId b);
  BufferId sparsify(std::string name, BufferId x, float deviations);
  BufferId match_rms(std::string name, BufferId x, BufferId like, const MatchOptions& options);
  struct Streams {
    BufferId all, active;
  };
  Streams altup_predict(BufferId streams, BufferId router, WeightId coefficients,
                        std::uint16_t active);
  Streams altup_correct(BufferId predicted, BufferId activated, BufferId router,
                        WeightId coefficients, WeightId scale, std::uint16_t active);
  BufferId altup_add(BufferId streams, BufferId x);
  void tap(std::string name, BufferId x);
  // Takes the output rows; the result has R rows.
  BufferId select_rows(BufferId x);
  void logits(BufferId x, WeightId head, float scale, float softcap, WeightId bias = kNone);
  // The rows of a whole text -> one vector (R, cols).
  BufferId pool(BufferId x, PoolKind kind);
  // What phase embed gives.
  void result(BufferId x) { plan_.result = x; }
  Plan finish();

 private:
  BufferId buffer(std::string name, Extent rows, std::uint32_t cols, Form form,
                  Order order = Order::any);
  BufferId operand(BufferId x, NumberClass number_class);
  Step& append(Op op, NumberClass number_class);
  Step& append_recurrence(Op op, const RecurrenceOptions& options);
  Step& append_latent(Op op, NumberClass number_class, const LatentOptions& options);
  NumberClass class_of(WeightId weight, Extent rows, bool as_decode = false) const;
  // Prefill that rounds to bf16.
  bool is_b16() const { return plan_.phase != Phase::decode && !deterministic_; }
  Step& append_moe_matmul(BufferId x, BufferId routes, std::array<WeightId, 2> weights,
                          bool as_decode);

  Plan plan_;
  bool deterministic_, experts_as_decode_;
  std::int16_t layer_ = -1;
  std::map<std::pair<BufferId, Form>, BufferId> operands_;
};

}  // namespace orrery::plan
