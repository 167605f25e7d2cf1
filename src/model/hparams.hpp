// The fixed numbers of a model, the same whichever file they came from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace orrery::model {

// How rotary frequencies are stretched beyond the context of the first training.
struct RopeScaling {
  // factors: every frequency has its own divisor (longrope, and the rope_freqs tensor of GGUF).
  enum class Kind { none, linear, llama3, yarn, factors } kind = Kind::none;
  float factor = 1.0F;
  std::uint32_t original_context = 0;          // tokens
  float attention_factor = 0.0F;               // of cos and sin; 0: by the rule of the kind
  float mscale = 0.0F, mscale_all_dim = 0.0F;  // yarn: of the rule; 0: not said
  float low_freq_factor = 1.0F, high_freq_factor = 4.0F;  // llama3
  float beta_fast = 32.0F, beta_slow = 1.0F;              // yarn
  bool truncate = true;                                   // yarn: whole bounds of the ramp
  std::vector<float> short_factors, long_factors;         // factors: (rope_dim / 2) each
  bool operator==(const RopeScaling&) const = default;
};

// Multi-head latent attention (plan/mla.hpp).
struct LatentAttention {
  std::uint32_t rank = 0;    // of the cached latents; 0: the usual attention
  std::uint32_t q_rank = 0;  // of the queries; 0: they come from one product
  std::uint32_t nope_dim = 0, rope_dim = 0, v_dim = 0;  // of a head: not rotated, rotated, value
  bool operator==(const LatentAttention&) const = default;
};

// A mixture of experts in the place of a layer's feed-forward.
struct Experts {
  std::uint32_t count = 0;           // 0: no layer has experts
  std::uint32_t used = 0;            // by a token
  std::uint32_t ffn_dim = 0;         // of one
  bool gated = true;                 // act(x gate^T) * (x up^T), else act(x up^T)
  std::uint32_t shared_ffn_dim = 0;  // of the expert that all tokens use; 0: none
  bool shared_gate = false;          // it is weighed by a sigmoid of its own
  plan::Gate gate = plan::Gate::softmax;
  bool renormalise = false;                   // weights of a token sum to 1
  float scale = 1.0F;                         // of the weights
  std::uint32_t groups = 0, groups_used = 0;  // 0: no groups
  plan::GroupScore group_score = plan::GroupScore::best;
  bool weigh_input = false;   // plan.hpp
  float router_scale = 1.0F;  // of the router's logits
  std::vector<bool> layers;   // per layer: has experts
  bool operator==(const Experts&) const = default;
};

// Of layers that keep a state instead of keys and values (plan.hpp, CacheGroup).
struct StateShape {
  std::uint32_t conv_taps = 0, conv_dim = 0;  // 0: no layer has a state
  // Of the recurrence behind the convolution; 0 heads: there is none.
  std::uint32_t heads = 0, key_heads = 0, k_dim = 0, v_dim = 0;
  std::uint32_t key_dim() const { return key_heads * k_dim; }
  std::uint32_t value_dim() const { return heads * v_dim; }
  bool operator==(const StateShape&) const = default;
};

// Attention heads; 0 kv_heads: not said.
struct HeadShape {
  std::uint32_t kv_heads = 0, dim = 0, rope_dim = 0;
  bool operator==(const HeadShape&) const = default;
};

// Several residual streams of which a layer computes one (Gemma 3n).
struct AltUp {
  std::uint32_t streams = 0, active = 0;
  std::uint32_t laurel_rank = 0;  // of the layer's linear branch beside attention
  bool operator==(const AltUp&) const = default;
};

// A matrix behind the pooling of an embedding model: y = act(x w^T + bias).
struct DenseLayer {
  std::string stem;  // of its tensors
  std::uint32_t rows = 0, cols = 0;
  bool tanh = false;
  bool operator==(const DenseLayer&) const = default;
};

struct Hparams {
  std::string family;  // "llama"
  std::uint32_t n_layers = 0;
  std::uint32_t hidden_dim = 0;
  std::uint32_t n_heads = 0, n_kv_heads = 0;
  std::uint32_t head_dim = 0;  // of q, k and v (latent attention: of q and k)
  std::uint32_t ffn_dim = 0;
  std::uint32_t sharing_ffn_dim = 0;  // of layers without keys of their own; 0: ffn_dim
  std::uint32_t vocab_size = 0;       // rows of the embedding
  std::uint32_t context_length = 0;   // tokens, as trained (or extended by the file's rope scaling)
  float norm_eps = 1e-6F;
  float norm_offset = 0.0F;  // 1 where the file stores w - 1
  bool norm_bias = true;     // of LayerNorm
  plan::Activation activation = plan::Activation::silu;

  float embedding_scale = 1.0F;
  float attention_scale = 0.0F;                          // of q k^T
  float residual_scale = 1.0F;                           // of what a block adds to the stream
  float logit_scale = 1.0F;                              // factor of the logits
  float attention_softcap = 0.0F, logit_softcap = 0.0F;  // 0: none

  LatentAttention latent;
  plan::RopeStyle rope = plan::RopeStyle::halves;
  std::uint32_t rope_dim = 0;  // leading dims of a head that rotate
  float rope_theta = 10000.0F;
  RopeScaling rope_scaling;
  std::optional<float> rope_theta_window;  // gemma3's window layers: their own base, unscaled
  std::vector<bool> rope_layers;           // per layer: rotates (false: NoPE)
  bool qk_norm = false;                    // of families where the file says it
  bool qk_norm_weights = true;             // of norms of q and k
  plan::QueryGrowth query_growth;          // in layers that do not rotate

  Experts experts;

  std::uint32_t window = 0;         // tokens a window layer sees, itself included; 0: no such layer
  std::vector<bool> window_layers;  // per layer
  bool chunked = false;             // they see the chunk of `window` tokens that they are in

  HeadShape full_heads;                // of layers that see all, where theirs differ (Gemma 4)
  std::uint32_t shared_kv_layers = 0;  // the last layers; each attends over the keys and values of
                                       // the last one of its kind before them
  // Gemma 3n and 4.
  std::uint32_t per_layer_dim = 0;    // of a layer's own input; 0: none
  std::uint32_t per_layer_vocab = 0;  // rows of its table
  std::vector<float> layer_scales;    // of a layer's result; empty: 1
  std::vector<float> sparsity;        // per layer: deviations above the mean that a gate must have;
                                      // -inf: gates are not cut; empty: none are
  AltUp altup;

  std::vector<std::string> notes;  // what was assumed that the file does not say, a sentence each
  StateShape state;
  std::vector<bool> state_layers;  // per layer

  // Models that read a whole text before they say anything about a token of it: they make vectors
  // and write no text.
  bool causal = true;
  std::uint32_t first_position = 0;  // row of the table of learned positions that is position 0

  // How a text becomes a vector.
  plan::PoolKind pooling = plan::PoolKind::last;
  std::vector<DenseLayer> dense;
  // The last dense layer gives no vector but what a document is worth as the answer to a query: one
  // row, or two, the logits of yes and of no.
  bool ranks = false;
  std::uint32_t text_tokens = 0;  // of a text, where the file says so; 0: the context

  std::uint32_t embedding_dim() const { return dense.empty() ? hidden_dim : dense.back().rows; }
  bool operator==(const Hparams&) const = default;
  std::uint32_t q_dim() const { return n_heads * head_dim; }
  std::uint32_t attended_dim() const { return latent.rank > 0 ? n_heads * latent.v_dim : q_dim(); }
  std::uint32_t kv_dim() const { return n_kv_heads * head_dim; }
  HeadShape heads_of(std::size_t layer) const {
    const bool full = full_heads.kv_heads > 0 && !window_layers[layer];
    return full ? full_heads : HeadShape{n_kv_heads, head_dim, rope_dim};
  }
  bool shares_kv(std::size_t layer) const { return layer + shared_kv_layers >= n_layers; }
};

}  // namespace orrery::model
