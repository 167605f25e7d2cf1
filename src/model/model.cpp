#include "model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"
#include "model/pooling.hpp"

namespace orrery::model {
namespace {

Result<const Family*> find_family(const Source& source) {
  for (const Family* family : families()) {
    const auto& names = source.is_gguf() ? family->gguf : family->config;
    if (std::ranges::find(names, source.architecture()) == names.end()) continue;
    if (source.is_gguf() || family->owns == nullptr || family->owns(source)) return family;
  }
  return fail("E_ARCH", fmt::format("architecture \"{}\" is not supported, these are: {}",
                                    source.architecture().substr(0, kMaxNameChars),
                                    supported_architectures()));
}

// The embedding decides the vocabulary; a GGUF file may have rows beyond its tokens, not fewer.
Status read_vocab(const storage::Checkpoint& checkpoint, const Source& source,
                  const Tensors& tensors, Hparams& h) {
  const std::string name = "token_embd.weight";
  const std::optional<Tensor> embedding = tensors.peek(name);
  if (!embedding) {
    return fail("E_TENSOR",
                fmt::format("tensor {} is missing or no matrix", tensors.file_name(name)));
  }
  if (embedding->rows == 0 || embedding->rows > kMaxVocab) {
    return fail("E_HPARAM", fmt::format("the token embeddings have {} rows, expected 1 to {}",
                                        embedding->rows, kMaxVocab));
  }
  h.vocab_size = static_cast<std::uint32_t>(embedding->rows);
  if (!source.is_gguf()) {
    ORRERY_TRY(h.vocab_size, source.integer_or({"", "vocab_size"}, 1, kMaxVocab, h.vocab_size));
  }
  const std::uint64_t tokens =
      list_size(checkpoint, "tokenizer.ggml.tokens").value_or(h.vocab_size);
  if (tokens > h.vocab_size) {
    return fail("E_HPARAM", fmt::format("the vocabulary has {} tokens, the embedding {} rows",
                                        tokens, h.vocab_size));
  }
  return {};
}

// GGUF keeps the divisors of the frequencies in tensors: rope_freqs (Llama 3), or one for short and
// one for long contexts (longrope).
Status read_rope_tensors(Tensors& tensors, Hparams& h) {
  const std::uint32_t pairs = std::max(h.rope_dim, h.full_heads.rope_dim) / 2;
  RopeScaling& s = h.rope_scaling;
  if (tensors.has("rope_freqs.weight")) {
    ORRERY_TRY(s.long_factors, tensors.floats("rope_freqs.weight", pairs));
    s.short_factors = s.long_factors;
    s.kind = RopeScaling::Kind::factors;
    s.attention_factor = 1.0F;
  } else if (tensors.has("rope_factors_long.weight")) {
    ORRERY_TRY(s.long_factors, tensors.floats("rope_factors_long.weight", pairs));
    ORRERY_TRY(s.short_factors, tensors.floats("rope_factors_short.weight", pairs));
    if (s.attention_factor == 0.0F) s.attention_factor = 1.0F;
    s.kind = RopeScaling::Kind::factors;
  } else if (s.kind == RopeScaling::Kind::factors && s.long_factors.empty()) {
    return fail("E_TENSOR", "longrope needs the tensor rope_factors_long.weight, which is missing");
  }
  return {};
}

}  // namespace

std::string supported_architectures() {
  std::vector<std::string_view> names;
  for (const Family* family : families()) {
    names.insert(names.end(), family->gguf.begin(), family->gguf.end());
    names.insert(names.end(), family->config.begin(), family->config.end());
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

Status read_parameters(const storage::Checkpoint& checkpoint, Source& source, const Family& family,
                       Tensors& tensors, Hparams& h) {
  h.family = family.name;
  ORRERY_TRY(h.n_layers, source.integer(family.keys.n_layers, 1, kMaxLayers));
  source.set_list_length(h.n_layers);
  ORRERY_TRY_VOID(read_common(source, family, h));
  ORRERY_TRY(h.causal, source.boolean_or({"attention.causal", ""}, true));
  ORRERY_TRY_VOID(family.read(source, h));
  ORRERY_TRY_VOID(read_vocab(checkpoint, source, tensors, h));
  ORRERY_TRY_VOID(read_rope_tensors(tensors, h));
  if (family.settle != nullptr) ORRERY_TRY_VOID(family.settle(source, tensors, h));
  ORRERY_TRY_VOID(read_pooling(checkpoint, source, tensors, h));
  ORRERY_TRY(const bool tied, source.boolean_or({"", "tie_word_embeddings"}, false));
  if (tied) tensors.hide("output.weight");
  return {};
}

Result<LoadedModel> load_model(std::shared_ptr<const storage::Checkpoint> checkpoint) {
  auto model = LoadedModel::load(checkpoint);
  if (!model) return fail_in(checkpoint->label(), model.error());
  return model;
}

Result<LoadedModel> LoadedModel::load(std::shared_ptr<const storage::Checkpoint> checkpoint) {
  ORRERY_TRY(const std::unique_ptr<Source> source, open_source(*checkpoint));
  LoadedModel model;
  model.checkpoint_ = checkpoint;
  ORRERY_TRY(model.family_, find_family(*source));
  const Family& family = *model.family_;
  Hparams& h = model.hparams_;
  model.tensors_ = std::make_shared<Tensors>(checkpoint, family.tensor_names, family.transposed);
  model.tensors_->set_expert_layout(family.expert_layout);
  Tensors& tensors = *model.tensors_;
  ORRERY_TRY_VOID(read_parameters(*checkpoint, *source, family, tensors, h));

  // Recording asks for every tensor: that is the check of names, types and shapes.
  RecordOptions options;
  options.capacity = {1, 1, 1};
  options.context_length = h.context_length;
  if (!h.causal || !h.dense.empty()) {
    options.phase = plan::Phase::embed;
    ORRERY_TRY([[maybe_unused]] const plan::Plan trial, model.record(options));
  }
  if (h.causal) {
    options.phase = plan::Phase::decode;
    ORRERY_TRY([[maybe_unused]] const plan::Plan trial, model.record(options));
  }
  ORRERY_TRY_VOID(tensors.check_all_used(h.family, family.ignored));
  return model;
}

Result<plan::Plan> LoadedModel::record(const RecordOptions& options) const {
  ORRERY_CHECK(options.context_length > 0);
  ORRERY_CHECK(hparams_.causal || options.phase == plan::Phase::embed);
  Recorder recorder(hparams_, options, *tensors_);
  family_->forward(recorder);
  return recorder.finish();
}

Result<std::vector<const std::byte*>> LoadedModel::bind(const plan::Plan& plan) const {
  std::vector<const std::byte*> pointers;
  for (const plan::Weight& weight : plan.weights) {
    const std::byte* data = tensors_->data(weight.tensor);
    if (data == nullptr) {
      return fail("E_NODATA", fmt::format("the data of tensor {} was not read", weight.tensor));
    }
    pointers.push_back(data + row_bytes(weight.dtype, weight.cols) * weight.row_begin);
  }
  return pointers;
}

std::vector<std::vector<const std::byte*>> LoadedModel::bind_experts(const plan::Plan& plan) const {
  std::vector<std::vector<const std::byte*>> pointers(plan.weights.size());
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    const plan::Weight& weight = plan.weights[i];
    if (weight.experts == 0) continue;
    for (const std::byte* data : tensors_->expert_data(weight.tensor)) {
      pointers[i].push_back(data + row_bytes(weight.dtype, weight.cols) * weight.row_begin);
    }
  }
  return pointers;
}

std::uint64_t LoadedModel::copied_bytes() const {
  return tensors_->copied_bytes();
}

}  // namespace orrery::model
