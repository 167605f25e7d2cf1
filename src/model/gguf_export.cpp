#include "model/gguf_export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/family.hpp"
#include "model/gguf_export_keys.hpp"
#include "model/gguf_export_tensors.hpp"
#include "model/model.hpp"
#include "model/rope.hpp"
#include "model/source.hpp"
#include "storage/loaded_checkpoint.hpp"

namespace orrery::model {
namespace {

// "qwen2_moe" and "qwen2moe" are the same.
bool same_name(std::string_view a, std::string_view b) {
  const auto letters = [](std::string_view name) {
    std::string out;
    std::ranges::copy_if(name, std::back_inserter(out),
                         [](char c) { return c != '_' && c != '-'; });
    return out;
  };
  return letters(a) == letters(b);
}

// GGUF's name of the architecture: the same, or the family's first; the last where encoders have
// one of their own.
std::string_view architecture_of(const LoadedModel& source, std::string_view said) {
  const auto& names = source.family().gguf;
  for (const std::string_view name : names) {
    if (same_name(name, said) && source.hparams().causal) return name;
  }
  return source.hparams().causal ? names.front() : names.back();
}

// The parameters that a reader of the file would find.
Result<Hparams> read_back(const GgufImage& image) {
  storage::CheckpointParts parts;
  parts.format = storage::Format::gguf;
  parts.path = image.checkpoint->path();
  parts.files = {parts.path};
  parts.metadata = image.metadata;
  for (const ImageTensor& tensor : image.tensors) {
    parts.tensors.push_back({.name = tensor.as.name,
                             .type = tensor.as.type,
                             .n_dims = tensor.as.n_dims,
                             .dims = tensor.as.dims,
                             .bytes = tensor.as.bytes(),
                             .offset = 0,
                             .file = 0,
                             .data = tensor.runs.empty() ? tensor.data : tensor.runs[0].data});
  }
  ORRERY_TRY(const auto checkpoint, storage::make_checkpoint(std::move(parts)));
  const auto model = load_model(checkpoint);
  if (model) return model->hparams();
  return fail("E_EXPORT", fmt::format("the model cannot be written as GGUF: read from there, {}",
                                      model.error().message));
}

// The same angles, however they are said.
bool same_rope(const Hparams& a, const Hparams& b) {
  if (a.rope_dim != b.rope_dim || a.rope_theta_window != b.rope_theta_window) return false;
  if (a.full_heads.rope_dim != b.full_heads.rope_dim) return false;
  if (!is_near(rope_mscale(a.rope_scaling, a.context_length),
               rope_mscale(b.rope_scaling, b.context_length))) {
    return false;
  }
  const std::uint32_t dim = std::max(a.rope_dim, a.full_heads.rope_dim);
  const std::uint32_t original = std::min(a.rope_scaling.original_context, a.context_length);
  for (const std::uint32_t context : {original, a.context_length}) {
    const auto x = rope_frequencies(a.rope_scaling, a.rope_theta, dim, context);
    const auto y = rope_frequencies(b.rope_scaling, b.rope_theta, dim, context);
    if (!std::ranges::equal(x, y, is_near)) return false;
  }
  return true;
}

// Whether the order of rows answers for what differs: convert_rows() knows q and k.
bool same_pairs(const Hparams& a, const Hparams& b) {
  const bool converted = a.rope == plan::RopeStyle::halves && b.rope == plan::RopeStyle::adjacent;
  return a.rope == b.rope || (converted && a.latent.rank == 0);
}

// `back` with all that was compared, or that rows and tensors answer for, made equal.
Hparams with_the_rest_of(const Hparams& h, Hparams back) {
  back.rope_scaling = h.rope_scaling;
  back.rope = h.rope;
  back.notes = h.notes;
  back.norm_offset = h.norm_offset;
  back.first_position = h.first_position;
  back.per_layer_vocab = h.per_layer_vocab;
  for (std::size_t i = 0; i < std::min(back.dense.size(), h.dense.size()); ++i) {
    back.dense[i].stem = h.dense[i].stem;
  }
  for (float Hparams::* field : {&Hparams::logit_scale, &Hparams::attention_scale}) {
    if (is_near(back.*field, h.*field)) back.*field = h.*field;
  }
  return back;
}

Status compare(const Hparams& h, const Hparams& back, std::string_view architecture) {
  const auto refuse = [&](std::string_view what) {
    return fail("E_EXPORT", fmt::format("GGUF's {} cannot say this model's {}; only models whose "
                                        "parameters it can hold are converted",
                                        architecture, what));
  };
  const bool rotates = h.rope != plan::RopeStyle::none && h.rope_dim > 0;
  if (rotates && (!same_rope(h, back) || !same_pairs(h, back))) return refuse("rotary embedding");
  if (h.window != back.window || h.window_layers != back.window_layers) {
    return refuse("attention windows");
  }
  if (h.experts != back.experts) return refuse("experts");
  if (h.activation != back.activation) return refuse("activation function");
  return with_the_rest_of(h, back) == h ? Status{} : refuse("hyper-parameters");
}

Status fill(const LoadedModel& source, std::string_view architecture, GgufImage& image) {
  ParameterKeys keys(source, architecture, image);
  keys.add_known();
  ORRERY_TRY_VOID(add_gguf_tensors(source, image));
  ORRERY_TRY(Hparams back, read_back(image));
  for (int round = 0; round < 2 && keys.add_missing(back); ++round) {
    ORRERY_TRY(back, read_back(image));
  }
  ORRERY_TRY_VOID(compare(source.hparams(), back, architecture));
  convert_rows(source.hparams(), back, image);
  return {};
}

}  // namespace

Result<GgufImage> export_gguf(std::shared_ptr<const storage::Checkpoint> checkpoint) {
  ORRERY_TRY(const auto source, open_source(*checkpoint));
  ORRERY_TRY(LoadedModel loaded, load_model(checkpoint));
  const auto model = std::make_shared<const LoadedModel>(std::move(loaded));
  GgufImage image;
  image.checkpoint = checkpoint;
  image.owners.push_back(model);  // of norms and transposed matrices
  const auto status = fill(*model, architecture_of(*model, source->architecture()), image);
  if (!status) return fail_in(checkpoint->label(), status.error());
  return image;
}

}  // namespace orrery::model
