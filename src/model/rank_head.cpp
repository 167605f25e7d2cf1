#include "model/rank_head.hpp"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>

namespace orrery::model {
namespace {

struct Stems {
  std::string dense, output;
};

std::span<const Stems> stems_of(const Source& source) {
  static const Stems kGguf[] = {{"cls", "cls.output"}};
  static const Stems kSafetensors[] = {{"classifier.dense", "classifier.out_proj"},
                                       {"pooler.dense", "classifier"}};
  if (source.is_gguf()) return kGguf;
  return kSafetensors;
}

}  // namespace

Status read_rank_head(const Source& source, const Tensors& tensors, Hparams& h) {
  if (h.causal && !source.is_gguf()) return {};
  for (const Stems& stems : stems_of(source)) {
    const std::string name = stems.output + ".weight";
    const std::optional<Tensor> output = tensors.peek(name);
    if (!output) continue;
    // Qwen3-Reranker's rows are those of "yes" and "no" in its vocabulary head.
    const std::uint32_t most = h.causal ? 2 : 1;
    if (output->rows == 0 || output->rows > most) {
      return fail("E_HPARAM",
                  fmt::format("tensor {} tells {} classes apart; supported are heads that rank, "
                              "with {}",
                              tensors.file_name(name), output->rows, h.causal ? "1 or 2" : "1"));
    }
    h.ranks = true;
    h.pooling = h.causal ? plan::PoolKind::last : plan::PoolKind::first;
    h.dense.clear();
    if (!source.is_gguf() || tensors.has(stems.dense + ".weight")) {
      h.dense.push_back(
          {.stem = stems.dense, .rows = h.hidden_dim, .cols = h.hidden_dim, .tanh = true});
    } else if (!h.causal) {
      h.notes.emplace_back(
          "the file has no tensor cls.weight (llama.cpp's converter leaves out BERT's pooler): "
          "scores are not those of the original model");
    }
    h.dense.push_back({.stem = stems.output,
                       .rows = static_cast<std::uint32_t>(output->rows),
                       .cols = h.hidden_dim});
    return {};
  }
  return {};
}

}  // namespace orrery::model
