#include "model/gguf_export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/family.hpp"
#include "model/limits.hpp"
#include "model/model.hpp"
#include "model/rope.hpp"
#include "model/source.hpp"
#include "storage/loaded_checkpoint.hpp"

namespace orrery::model {
namespace {

using Kind = RopeScaling::Kind;

// Each has a test.
constexpr std::string_view kFamilies[] = {"llama", "qwen2", "qwen3", "gemma2",  "gemma3",
                                          "phi3",  "glm4",  "olmo2", "granite", "gpt2"};

Status check_family(std::string_view family) {
  if (same_in_both_formats(family)) return {};
  return fail("E_EXPORT", fmt::format("a {} model cannot be written as GGUF yet, only these: {}",
                                      family, fmt::join(kFamilies, ", ")));
}

class Exporter {
 public:
  Exporter(const LoadedModel& source, std::string_view architecture, GgufImage& image)
      : source_(source), h_(source.hparams()), image_(image) {
    const auto& names = source.family().gguf;
    const bool same = std::ranges::find(names, architecture) != names.end();
    architecture_ = same ? architecture : names.front();
  }

  Status run() {
    ORRERY_TRY_VOID(check_family(h_.family));
    add_common();
    add_rope();
    add_tensors();
    // Families know much by themselves: a key is added only where the parameter would not come
    // back without it.
    for (int round = 0; round < 2; ++round) {
      ORRERY_TRY(const Hparams back, read_back());
      if (!add_missing(back)) break;
    }
    ORRERY_TRY(const Hparams back, read_back());
    ORRERY_TRY_VOID(compare(back));
    reorder(back);
    return {};
  }

 private:
  void add(std::string_view key, storage::MetaValue value) {
    if (key.empty()) return;
    image_.metadata.insert(fmt::format("{}.{}", architecture_, key), std::move(value));
  }
  void add_number(std::string_view key, std::uint32_t value) { add(key, std::uint64_t{value}); }
  void add_float(std::string_view key, float value) { add(key, double{value}); }

  void add_common();
  void add_rope();
  void add_factors(std::string_view tensor, std::vector<float> factors);
  void add_tensors();
  Result<Hparams> read_back() const;
  bool add_missing(const Hparams& back);
  void add_missing_experts(const Experts& back);
  Status compare(const Hparams& back) const;
  void reorder(const Hparams& back);

  const LoadedModel& source_;
  const Hparams& h_;
  GgufImage& image_;
  std::string_view architecture_;
};

void Exporter::add_common() {
  const CommonKeys& keys = source_.family().keys;
  image_.metadata.insert("general.architecture", image_.keep(std::string(architecture_)));
  architecture_ = image_.texts.back();
  add_number(keys.n_layers.gguf, h_.n_layers);
  add_number(keys.hidden_dim.gguf, h_.hidden_dim);
  add_number(keys.n_heads.gguf, h_.n_heads);
  add_number(keys.n_kv_heads.gguf, h_.n_kv_heads);
  add_number(keys.head_dim.gguf, h_.head_dim);
  add_number(keys.v_head_dim.gguf, h_.head_dim);
  add_number(keys.ffn_dim.gguf, h_.ffn_dim);
  add_number(keys.context_length.gguf, h_.context_length);
  add_float(keys.norm_eps.gguf, h_.norm_eps);
  add_number("vocab_size", h_.vocab_size);
  const Experts& e = h_.experts;
  if (e.count == 0) return;
  add_number("expert_count", e.count);
  add_number("expert_used_count", e.used);
  add_number("expert_feed_forward_length", e.ffn_dim);
  if (e.shared_ffn_dim > 0) add_number("expert_shared_feed_forward_length", e.shared_ffn_dim);
}

// Divisors of the frequencies, as a tensor.
void Exporter::add_factors(std::string_view tensor, std::vector<float> factors) {
  const std::uint64_t n = factors.size();
  const auto& kept = image_.values.emplace_back(std::move(factors));
  image_.tensors.push_back({.as = {std::string(tensor), DType::f32, 1, {n, 1, 1, 1}},
                            .data = reinterpret_cast<const std::byte*>(kept.data())});
}

void Exporter::add_rope() {
  if (h_.rope == plan::RopeStyle::none) return;
  const RopeScaling& s = h_.rope_scaling;
  add_number("rope.dimension_count", h_.rope_dim);
  add_float("rope.freq_base", h_.rope_theta);
  if (s.kind == Kind::llama3) {  // the converters' way: the effect as a tensor
    const auto plain = rope_frequencies({}, h_.rope_theta, h_.rope_dim, h_.context_length);
    const auto scaled = rope_frequencies(s, h_.rope_theta, h_.rope_dim, h_.context_length);
    std::vector<float> factors(plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) factors[i] = plain[i] / scaled[i];
    return add_factors("rope_freqs.weight", std::move(factors));
  }
  if (s.kind == Kind::none) return;
  constexpr std::string_view kNames[] = {"none", "linear", "", "yarn", "longrope"};
  add("rope.scaling.type", kNames[static_cast<std::size_t>(s.kind)]);
  add_number("rope.scaling.original_context_length", s.original_context);
  if (s.kind == Kind::factors) {
    add_float("rope.scaling.attn_factor", rope_mscale(s, h_.context_length));
    add_factors("rope_factors_short.weight", s.short_factors);
    return add_factors("rope_factors_long.weight", s.long_factors);
  }
  add_float("rope.scaling.factor", s.factor);
  if (s.kind != Kind::yarn) return;
  if (s.attention_factor > 0.0F) add_float("rope.scaling.attn_factor", s.attention_factor);
  add_float("rope.scaling.yarn_beta_fast", s.beta_fast);
  add_float("rope.scaling.yarn_beta_slow", s.beta_slow);
}

void Exporter::add_tensors() {
  for (const auto& [name, tensor] : source_.tensors().resolved()) {
    ImageTensor out;
    const bool is_vector = tensor.rows == 1;
    out.as = {name, tensor.dtype, is_vector ? 1U : 2U, {tensor.cols, tensor.rows, 1, 1}};
    out.data = tensor.data;
    if (source_.tensors().is_experts(name)) {
      const auto experts = source_.tensors().expert_data(name);
      out.as.n_dims = 3;
      out.as.dims[2] = experts.size();
      out.experts.assign(experts.begin(), experts.end());
    }
    image_.tensors.push_back(std::move(out));
  }
}

// The parameters that a reader of the file would find.
Result<Hparams> Exporter::read_back() const {
  storage::CheckpointParts parts;
  parts.format = storage::Format::gguf;
  parts.path = image_.checkpoint->path();
  parts.files = {parts.path};
  parts.metadata = image_.metadata;
  for (const ImageTensor& tensor : image_.tensors) {
    parts.tensors.push_back({.name = tensor.as.name,
                             .type = tensor.as.type,
                             .n_dims = tensor.as.n_dims,
                             .dims = tensor.as.dims,
                             .bytes = tensor.as.bytes(),
                             .offset = 0,
                             .file = 0,
                             .data = tensor.experts.empty() ? tensor.data : tensor.experts[0]});
  }
  ORRERY_TRY(const auto checkpoint, storage::make_checkpoint(std::move(parts)));
  const auto model = load_model(checkpoint);
  if (model) return model->hparams();
  return fail("E_EXPORT", fmt::format("a {} model cannot be written as GGUF yet ({})", h_.family,
                                      model.error().message));
}

// True when a key was added.
bool Exporter::add_missing(const Hparams& back) {
  const std::size_t before = image_.metadata.all().size();
  const auto add_scalar = [&](std::string_view key, float Hparams::* field) {
    if (back.*field != h_.*field) add_float(key, h_.*field);
  };
  add_scalar("attn_logit_softcapping", &Hparams::attention_softcap);
  add_scalar("final_logit_softcapping", &Hparams::logit_softcap);
  add_scalar("embedding_scale", &Hparams::embedding_scale);
  add_scalar("residual_scale", &Hparams::residual_scale);
  add_scalar("attention.scale", &Hparams::attention_scale);
  if (back.logit_scale != h_.logit_scale) add_float("logit_scale", 1.0F / h_.logit_scale);
  add_missing_experts(back.experts);
  if (back.rope_theta_window != h_.rope_theta_window && h_.rope_theta_window) {
    add_float("rope.freq_base_swa", *h_.rope_theta_window);
  }
  if (back.window != h_.window) {
    add_number("attention.sliding_window", h_.window);
  } else if (back.window_layers != h_.window_layers) {
    storage::MetaArray layers{.kind = storage::MetaArray::Kind::bools};
    for (const bool is_window : h_.window_layers) layers.bools.push_back(is_window ? 1 : 0);
    add("attention.sliding_window_pattern", std::move(layers));
  }
  return image_.metadata.all().size() != before;
}

void Exporter::add_missing_experts(const Experts& back) {
  const Experts& e = h_.experts;
  if (e.gate != back.gate) {
    const std::uint32_t number = e.gate == plan::Gate::softmax   ? 1
                                 : e.gate == plan::Gate::sigmoid ? 2
                                                                 : 3;
    add_number("expert_gating_func", number);
  }
  if (e.renormalise != back.renormalise) add("expert_weights_norm", e.renormalise);
  if (e.scale != back.scale) add_float("expert_weights_scale", e.scale);
  if (e.groups != back.groups) add_number("expert_group_count", e.groups);
  if (e.groups_used != back.groups_used) add_number("expert_group_used_count", e.groups_used);
  const auto dense = std::ranges::find(e.layers, true) - e.layers.begin();
  if (e.layers != back.layers) {
    add_number("leading_dense_block_count", static_cast<std::uint32_t>(dense));
  }
}

bool is_near(float a, float b) {
  constexpr float kRounding = 1e-6F;
  return std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b));
}

// The same angles, however they are said.
bool same_rope(const Hparams& a, const Hparams& b) {
  if (a.rope_dim != b.rope_dim || a.rope_theta_window != b.rope_theta_window) return false;
  if (!is_near(rope_mscale(a.rope_scaling, a.context_length),
               rope_mscale(b.rope_scaling, b.context_length))) {
    return false;
  }
  const std::uint32_t original = std::min(a.rope_scaling.original_context, a.context_length);
  for (const std::uint32_t context : {original, a.context_length}) {
    const auto x = rope_frequencies(a.rope_scaling, a.rope_theta, a.rope_dim, context);
    const auto y = rope_frequencies(b.rope_scaling, b.rope_theta, b.rope_dim, context);
    if (!std::ranges::equal(x, y, is_near)) return false;
  }
  return true;
}

Status Exporter::compare(const Hparams& back) const {
  const auto refuse = [&](std::string_view what) {
    return fail("E_EXPORT", fmt::format("GGUF's {} cannot say this model's {}; only models whose "
                                        "parameters it can hold are converted",
                                        architecture_, what));
  };
  const bool rotates = h_.rope != plan::RopeStyle::none;
  if (rotates && !same_rope(h_, back)) return refuse("rotary embedding");
  if (h_.window != back.window || h_.window_layers != back.window_layers) {
    return refuse("attention windows");
  }
  if (h_.activation != back.activation) return refuse("activation function");
  Hparams rest = back;  // with all that was compared, or that reorder() answers for, made equal
  rest.rope_scaling = h_.rope_scaling;
  rest.rope = h_.rope;
  rest.notes = h_.notes;
  rest.norm_offset = h_.norm_offset;
  if (is_near(rest.logit_scale, h_.logit_scale)) rest.logit_scale = h_.logit_scale;
  return rest == h_ ? Status{} : refuse("hyper-parameters");
}

// What GGUF stores in another way: q and k for adjacent pairs, norms whose 1 is added.
void Exporter::reorder(const Hparams& back) {
  const bool pairs = h_.rope == plan::RopeStyle::halves && back.rope == plan::RopeStyle::adjacent;
  for (ImageTensor& tensor : image_.tensors) {
    const std::string_view name = tensor.as.name;
    const bool rotates = name.find("attn_q.") != name.npos || name.find("attn_k.") != name.npos;
    if (pairs && rotates) {
      tensor.head_dim = h_.head_dim;
      tensor.rope_dim = h_.rope_dim;
    }
    if (name.ends_with("norm.weight")) tensor.add = h_.norm_offset - back.norm_offset;
  }
}

}  // namespace

bool same_in_both_formats(std::string_view family) {
  return std::ranges::find(kFamilies, family) != std::end(kFamilies);
}

Result<GgufImage> export_gguf(std::shared_ptr<const storage::Checkpoint> checkpoint) {
  ORRERY_TRY(const auto source, open_source(*checkpoint));
  ORRERY_TRY(LoadedModel loaded, load_model(checkpoint));
  const auto model = std::make_shared<const LoadedModel>(std::move(loaded));
  GgufImage image;
  image.checkpoint = checkpoint;
  image.owners.push_back(model);  // of norms and transposed matrices
  const auto status = Exporter(*model, source->architecture(), image).run();
  if (!status) return fail_in(checkpoint->label(), status.error());
  return image;
}

}  // namespace orrery::model
