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
  float scale = 1.0F;
  Activation activation = Activation::none;
};

struct AttentionOptions {
  std::int16_t group = 0, group_layer = 0;
  std::uint16_t heads = 0, kv_heads = 0, k_dim = 0, v_dim = 0;
  float scale = 1.0F, softcap = 0.0F;
  std::uint32_t window = 0;
  RopeStyle rope = RopeStyle::none;
  std::uint16_t rope_dim = 0;
  std::int16_t rope_table = -1;
  float rope_mscale = 1.0F;
  QkNorm qk_norm = QkNorm::none;
  WeightId q_norm = kNone, k_norm = kNone;
  float eps = 0.0F, norm_offset = 0.0F;
};

struct NormOptions {
  NormKind kind = NormKind::rms;
  float eps = 1e-5F;
  float offset = 0.0F;
  WeightId bias = kNone;
  BufferId residual = kNone;
};

class Builder {
 public:
  Builder(std::string family, Phase phase, Capacity capacity, bool deterministic);

  WeightId weight(Weight weight);
  std::int16_t constant(std::vector<float> values);
  std::int16_t cache_group(CacheGroup group);
  void set_layer(std::int16_t layer) { layer_ = layer; }

  BufferId embed(WeightId table, WeightId positions, float scale);
  BufferId norm(std::string name, BufferId x, WeightId weight, const NormOptions& options);
  // One to three weights that share the input; results in order, one buffer each.
  std::vector<BufferId> matmul(std::span<const std::string> names, BufferId x,
                               std::span<const WeightId> weights, const MatmulOptions& options);
  BufferId matmul(std::string name, BufferId x, WeightId weight, const MatmulOptions& options);
  // activation(x gate^T) * (x up^T)
  BufferId glu(std::string name, BufferId x, WeightId gate, WeightId up, Activation activation);
  // rope_kv_write and attention; returns (N, heads * v_dim).
  BufferId attention(BufferId q, BufferId k, BufferId v, const AttentionOptions& options);
  // Latent attention (mla.hpp), absorbed or expanded as the phase wants; returns (N, heads *
  // v_head).
  BufferId latent_attention(BufferId q, BufferId latent, const LatentOptions& options);
  BufferId add(std::string name, BufferId a, BufferId b);
  void tap(std::string name, BufferId x);
  // Takes the output rows; the result has R rows.
  BufferId select_rows(BufferId x);
  void logits(BufferId x, WeightId head, float scale, float softcap);
  Plan finish();

 private:
  BufferId buffer(std::string name, Extent rows, std::uint32_t cols, Form form);
  BufferId operand(BufferId x, NumberClass number_class);
  Step& append(Op op, NumberClass number_class);
  NumberClass class_of(WeightId weight, Extent rows) const;
  Step& append_latent(Op op, NumberClass number_class, const LatentOptions& options);

  Plan plan_;
  bool deterministic_;
  std::int16_t layer_ = -1;
  std::map<std::pair<BufferId, Form>, BufferId> operands_;
};

}  // namespace orrery::plan
