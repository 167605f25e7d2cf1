// What a family's forward pass is written in: names of tensors go in, steps of a plan come out.
// The first error sticks and finish() gives it, so that a pass reads as in its paper.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "model/hparams.hpp"
#include "model/model.hpp"
#include "model/tensors.hpp"
#include "plan/builder.hpp"

namespace orrery::model {

struct Qkv {
  plan::BufferId q = plan::kNone, k = plan::kNone, v = plan::kNone;
};

class Recorder {
 public:
  Recorder(const Hparams& hparams, const RecordOptions& options, Tensors& tensors);

  const Hparams& hparams() const { return h_; }
  // Enters layer i: the stems below then name tensors of "blk.i.".
  void layer(std::uint32_t i);

  // Weights. `stem` is GGUF's name without the block and ".weight".
  plan::WeightId matrix(std::string_view stem, std::uint32_t rows, std::uint32_t cols);
  // Rows [begin, begin + rows) of a fused matrix of `total` rows.
  plan::WeightId slice(std::string_view stem, std::uint32_t total, std::uint32_t begin,
                       std::uint32_t rows, std::uint32_t cols);
  plan::WeightId vector(std::string_view stem, std::uint32_t n);
  plan::WeightId bias(std::string_view stem, std::uint32_t n);
  // Elements [begin, begin + n) of a fused bias of `total`; begin is a multiple of n.
  plan::WeightId bias_slice(std::string_view stem, std::uint32_t total, std::uint32_t begin,
                            std::uint32_t n);
  bool has_bias(std::string_view stem) const;
  // A matrix for each expert; rows [begin, begin + rows) of their `total`.
  plan::WeightId experts(std::string_view stem, std::uint32_t total, std::uint32_t begin,
                         std::uint32_t rows, std::uint32_t cols);
  bool has(std::string_view stem) const;
  // recorder_state.cpp. A filter for each channel, and tensors whose name has no ending.
  plan::WeightId filters(std::string_view stem, std::uint32_t channels, std::uint32_t taps);
  plan::WeightId series(std::string_view name, std::uint32_t n);
  plan::WeightId decay(std::string_view name, std::uint32_t n);

  // Steps.
  plan::BufferId embed();                 // (N, hidden)
  plan::BufferId embed_with_positions();  // the same, learned positions
  // The same with BERT's token types: those of a pair's texts where the model ranks, else the
  // first one's.
  plan::BufferId embed_with_types(bool positions);
  plan::BufferId norm(std::string_view stem, plan::BufferId x);  // RMSNorm
  plan::BufferId norm_add(std::string_view stem, plan::BufferId x, plan::BufferId residual);
  plan::BufferId layer_norm(std::string_view stem, plan::BufferId x);  // bias: norm_bias
  // attn_q, attn_k, attn_v, with their biases where the file has them.
  Qkv qkv(plan::BufferId x);
  // The same where attn_qkv holds the three one after the other.
  Qkv qkv_fused(plan::BufferId x);
  // Products of up to three matrices without biases that share their input, in one step.
  struct Product {
    std::string_view stem;
    std::uint32_t rows;
  };
  std::vector<plan::BufferId> together(std::initializer_list<Product> products, plan::BufferId x);
  // The same of the parts of a fused matrix: one result for each of up to three parts.
  std::vector<plan::BufferId> parts(std::string_view stem, plan::BufferId x,
                                    std::span<const std::string> names,
                                    std::span<const std::uint32_t> widths);
  // Causal attention with the layer's window, rotation and cache group: (N, q_dim). With norms,
  // attn_q_norm and attn_k_norm come before the rotation.
  plan::BufferId attention(const Qkv& qkv, plan::QkNorm norms = plan::QkNorm::none);
  // The same with latents in the cache (plan/mla.hpp): (N, heads * v_dim).
  plan::BufferId latent_attention(plan::BufferId x);
  // The layer's causal convolution of each channel, and the recurrences behind it
  // (recorder_state.cpp): xbc is [x | B | C], qkv is [q | k | v].
  plan::BufferId convolve(std::string_view stem, plan::BufferId x, plan::ConvOptions options);
  plan::BufferId scan(plan::BufferId xbc, plan::BufferId dt);
  plan::BufferId delta_rule(plan::BufferId qkv, plan::BufferId beta, plan::BufferId dt);
  // The sections of each of `heads` parts of x: the last, and the others (plan.hpp, split).
  plan::Builder::Sections split(std::string first, std::string last, plan::BufferId x,
                                std::uint32_t heads, const std::array<std::uint32_t, 4>& widths);
  // activation(a) * b
  plan::BufferId mul(std::string name, plan::BufferId a, plan::BufferId b,
                     plan::Activation activation);
  // RMSNorm of each of `parts` equal parts of a row, with a weight of `width` elements: a row's or
  // a part's.
  plan::BufferId norm_parts(std::string_view stem, plan::BufferId x, std::uint32_t parts,
                            std::uint32_t width);
  // The same with attn_sinks, a score for each head.
  plan::BufferId attention_with_sinks(const Qkv& qkv);
  // x w^T (+ bias where the file has one), scaled by residual_scale and added to `residual`.
  plan::BufferId project(std::string_view stem, plan::BufferId x, std::uint32_t rows,
                         std::uint32_t cols, plan::BufferId residual);
  // act(x ffn_gate^T) * (x ffn_up^T): (N, ffn)
  plan::BufferId glu(plan::BufferId x);
  // The same where ffn_up holds gate and up one after the other.
  plan::BufferId glu_fused(plan::BufferId x);
  std::uint32_t ffn_dim() const;       // of this layer
  std::uint32_t attended_dim() const;  // of what its attention gives
  // Whether this layer's feed-forward is a mixture of experts.
  bool has_experts() const;
  // The router's choice for every token and the feed-forward of the chosen experts, with the shared
  // expert if there is one: their weighted sum, scaled by residual_scale and added to `residual`.
  // The router may see something else than the experts do.
  plan::BufferId mixture(plan::BufferId x, plan::BufferId residual,
                         plan::BufferId seen_by_router = plan::kNone);
  // act(x ffn_up^T (+ bias where the file has one)): (N, ffn)
  plan::BufferId mlp(plan::BufferId x);
  void tap(std::string name, plan::BufferId x);
  // recorder_gemma.cpp: what Gemma 3n and 4 are written in.
  // Whether this layer has no keys and values of its own.
  bool shares_kv() const;
  // The layer's q alone, or q, k and v, each head of v normed without weights; v is k where the
  // file has no attn_v.
  Qkv qkv_unit_values(plan::BufferId x);
  plan::BufferId unit_norm(std::string name, plan::BufferId x, std::uint32_t parts);
  plan::BufferId router_norm(plan::BufferId x);  // with ffn_gate_inp.scale
  // The inputs of all layers beside the residual stream, (N, layers * per_layer_dim), and the
  // branch that this layer makes of its own: (N, hidden), not normed.
  plan::BufferId per_layer_inputs(plan::BufferId x);
  plan::BufferId per_layer_branch(plan::BufferId x, plan::BufferId inputs);
  // act(cut(x ffn_gate^T)) * (x ffn_up^T)
  plan::BufferId sparse_glu(plan::BufferId x);
  plan::BufferId add_scaled(std::string name, plan::BufferId a, plan::BufferId b, float scale);
  plan::BufferId laurel(plan::BufferId x);  // x + norm(x laurel_l^T laurel_r^T)
  // AltUp (plan.hpp): the streams of a token, and the steps around a layer.
  plan::BufferId altup_begin(plan::BufferId x);
  plan::Builder::Streams altup_predict(plan::BufferId streams);
  plan::Builder::Streams altup_correct(plan::BufferId predicted, plan::BufferId activated);
  plan::BufferId altup_add(plan::BufferId streams, plan::BufferId x);
  // One stream of them again, of the output rows.
  plan::BufferId altup_end(plan::BufferId streams);
  // Leaves the layers: the rows that the model's output is made of.
  plan::BufferId output_rows(plan::BufferId x);
  // The final norm and the vocabulary head over output rows; the tied embedding where the file
  // has no output.weight. In phase embed the normed rows are the result.
  void head_of_rows(plan::BufferId x, plan::NormKind kind, std::string_view norm_stem);
  // The same over the output rows of x.
  void head(plan::BufferId x, plan::NormKind kind = plan::NormKind::rms,
            std::string_view norm_stem = "output_norm");
  // The vector of the text: rows pooled, then the dense layers, if any. The end of phase embed.
  void pool(plan::BufferId x);

  Result<plan::Plan> finish();

 private:
  struct Place {  // of a layer in the caches
    std::int16_t group = 0, layer = 0;
    std::uint32_t window = 0;  // 0: all
  };
  plan::CacheGroup cache_group_of(std::uint32_t layer);
  plan::RecurrenceOptions recurrence();
  plan::BufferId embed_rows(plan::WeightId positions, plan::WeightId types = plan::kNone);
  plan::WeightId positions();
  std::string full_name(std::string_view stem, std::string_view ending) const;
  plan::WeightId add(const std::string& name, Result<Tensor> tensor, std::uint32_t begin,
                     std::uint32_t rows, std::uint32_t cols);
  // Queries and latents: attn_q and attn_kv_a_mqa, or with attn_q_a and attn_q_b.
  std::pair<plan::BufferId, plan::BufferId> latents(plan::BufferId x);
  void add_head_matrices(plan::LatentOptions& options);
  // Logits of the router or of a gate, (N, rows): rounded as in decode.
  plan::BufferId router(std::string_view stem, plan::BufferId x, std::uint32_t rows,
                        float scale = 1.0F);
  plan::BufferId routes(plan::BufferId x);
  plan::BufferId altup_router(plan::BufferId x);
  plan::WeightId stream_matrix(std::string_view stem, std::uint32_t i);
  plan::WeightId expert_bias(std::string_view stem, std::uint32_t rows);
  plan::BufferId shared_expert(plan::BufferId x, plan::BufferId residual);
  plan::AttentionOptions attention_options(plan::QkNorm norms);
  plan::NormOptions rms_options() const;
  void place_layers();
  DType cache_type(DType wanted);
  std::int16_t rope_table(bool window_layer, std::uint32_t rope_dim);
  std::uint32_t window_of(std::uint32_t layer) const;

  const Hparams& h_;
  RecordOptions options_;
  Tensors& tensors_;
  plan::Builder builder_;
  std::optional<Error> error_;
  plan::WeightId embedding_ = plan::kNone;
  std::vector<Place> places_;
  std::int32_t layer_ = -1;
};

}  // namespace orrery::model
