#include "model/pooling.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "model/limits.hpp"
#include "model/rank_head.hpp"
#include "storage/config_json.hpp"

namespace orrery::model {
namespace {

using nlohmann::json;
using plan::PoolKind;

// GGUF's numbers.
constexpr std::uint32_t kMean = 1, kCls = 2, kLast = 3, kRank = 4;

std::unexpected<Error> unsupported(std::string_view where, std::string_view what) {
  return fail("E_HPARAM", fmt::format("{}: pooling by {} is not supported, these are: mean, cls "
                                      "and last token",
                                      where, what.substr(0, kMaxNameChars)));
}

// The longest text, where the context is longer.
void set_text_tokens(std::uint64_t tokens, Hparams& h) {
  if (tokens > 0 && tokens < h.context_length) h.text_tokens = static_cast<std::uint32_t>(tokens);
}

Status read_gguf_pooling(const storage::Checkpoint& checkpoint, const Source& source,
                         const Tensors& tensors, Hparams& h) {
  const Key key{"pooling_type", ""};
  ORRERY_TRY(const std::uint32_t kind, source.integer_or(key, 0, kRank, 0));
  if (kind == kMean) h.pooling = PoolKind::mean;
  if (kind == kCls) h.pooling = PoolKind::first;
  if (kind == kLast) h.pooling = PoolKind::last;
  // A causal model without the head is still one that writes text.
  if (kind == kRank && !h.causal && !tensors.has("cls.output.weight")) {
    return fail("E_TENSOR", source.name(key) +
                                " says rank, but tensor cls.output.weight, which "
                                "would, is missing");
  }
  ORRERY_TRY(const std::uint32_t tokens, checkpoint.metadata().u32_or(kTextTokensKey, 0));
  set_text_tokens(tokens, h);
  return {};
}

bool is_on(const json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_boolean() && found->get<bool>();
}

// The one mode that is on.
Status read_modes(const json& config, const std::string& where, Hparams& h) {
  static constexpr std::pair<const char*, PoolKind> kModes[] = {
      {"pooling_mode_mean_tokens", PoolKind::mean},
      {"pooling_mode_cls_token", PoolKind::first},
      {"pooling_mode_lasttoken", PoolKind::last},
  };
  std::optional<PoolKind> chosen;
  for (const auto& [key, kind] : kModes) {
    if (!is_on(config, key)) continue;
    if (chosen) return unsupported(where, "several modes at once");
    chosen = kind;
  }
  for (const char* key : {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                          "pooling_mode_weightedmean_tokens"}) {
    if (is_on(config, key)) return unsupported(where, key);
  }
  if (chosen) h.pooling = *chosen;
  return {};
}

Result<json> config_of(const storage::SentenceModule& module) {
  auto config = storage::parse_config_json(module.config);
  if (config) return std::move(*config);
  return fail("E_HPARAM",
              fmt::format("{}/config.json is missing or no JSON object", module.folder));
}

Status read_dense(const storage::SentenceModule& module, const Tensors& tensors, Hparams& h) {
  ORRERY_TRY(const json config, config_of(module));
  DenseLayer dense;
  dense.stem = module.folder + "/linear";
  const auto activation = config.find("activation_function");
  const std::string name = activation != config.end() && activation->is_string()
                               ? activation->get<std::string>()
                               : std::string("torch.nn.modules.activation.Tanh");
  dense.tanh = name.ends_with(".Tanh");
  if (!dense.tanh && !name.ends_with(".Identity")) {
    return fail("E_HPARAM", fmt::format("{}/config.json: activation_function is \"{}\", supported "
                                        "are Identity and Tanh",
                                        module.folder, name.substr(0, kMaxNameChars)));
  }
  const std::string weight = dense.stem + ".weight";
  const std::optional<Tensor> tensor = tensors.peek(weight);
  if (!tensor || tensor->rows == 0 || tensor->rows > kMaxHiddenDim) {
    return fail("E_TENSOR", fmt::format("tensor {} is missing or no matrix of up to {} rows",
                                        weight, kMaxHiddenDim));
  }
  dense.rows = static_cast<std::uint32_t>(tensor->rows);
  dense.cols = h.embedding_dim();
  h.dense.push_back(std::move(dense));
  return {};
}

Status read_modules(const storage::Checkpoint& checkpoint, const Tensors& tensors, Hparams& h) {
  for (const storage::SentenceModule& module : checkpoint.sentence_modules()) {
    if (module.kind == "Pooling") {
      ORRERY_TRY(const json config, config_of(module));
      ORRERY_TRY_VOID(read_modes(config, module.folder + "/config.json", h));
    } else if (module.kind == "Dense") {
      ORRERY_TRY_VOID(read_dense(module, tensors, h));
    } else if (module.kind != "Normalize") {
      return fail("E_HPARAM", fmt::format("modules.json: a step of type {} is not supported, these "
                                          "are: Pooling, Dense and Normalize",
                                          module.kind.substr(0, kMaxNameChars)));
    }
  }
  if (checkpoint.sentence_config_json().empty()) return {};
  const auto config = storage::parse_config_json(checkpoint.sentence_config_json());
  if (!config) return fail("E_HPARAM", "sentence_bert_config.json is no JSON object");
  const auto longest = config->find("max_seq_length");
  if (longest == config->end() || !longest->is_number_unsigned()) return {};
  set_text_tokens(longest->get<std::uint64_t>(), h);
  return {};
}

// Tensors dense_2 and dense_3 of GGUF.
Status read_gguf_dense(const Tensors& tensors, Hparams& h) {
  for (const char* stem : {"dense_2", "dense_3"}) {
    const std::optional<Tensor> tensor = tensors.peek(std::string(stem) + ".weight");
    if (!tensor) continue;
    if (tensor->rows == 0 || tensor->rows > kMaxHiddenDim) {
      return fail("E_HPARAM", fmt::format("tensor {}.weight has {} rows, expected 1 to {}", stem,
                                          tensor->rows, kMaxHiddenDim));
    }
    h.dense.push_back({.stem = stem,
                       .rows = static_cast<std::uint32_t>(tensor->rows),
                       .cols = h.embedding_dim()});
  }
  return {};
}

}  // namespace

std::uint32_t gguf_pooling(const Hparams& h) {
  if (h.ranks) return kRank;
  if (h.pooling == PoolKind::mean) return kMean;
  return h.pooling == PoolKind::first ? kCls : kLast;
}

Status read_pooling(const storage::Checkpoint& checkpoint, const Source& source,
                    const Tensors& tensors, Hparams& h) {
  h.pooling = h.causal ? PoolKind::last : PoolKind::mean;
  if (source.is_gguf()) {
    ORRERY_TRY_VOID(read_gguf_pooling(checkpoint, source, tensors, h));
    ORRERY_TRY_VOID(read_gguf_dense(tensors, h));
  } else {
    ORRERY_TRY_VOID(read_modules(checkpoint, tensors, h));
  }
  return read_rank_head(source, tensors, h);
}

}  // namespace orrery::model
