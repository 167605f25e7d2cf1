#include "model/adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "model/family.hpp"
#include "model/gguf_image.hpp"
#include "storage/describe.hpp"
#include "tensor/decode.hpp"

namespace orrery::model {
namespace {

using storage::in_quotes;

// Families of which converters to GGUF put the rotary pairs of q and k side by side.
constexpr std::string_view kPairedInGguf[] = {"llama", "granite"};

// Families whose files are known to say the same in both formats, but for the order of rotary
// pairs. Others may store transformed numbers or joint matrices under the same names.
constexpr std::string_view kSameInBothFormats[] = {"llama", "qwen2", "qwen3", "gemma2",  "gemma3",
                                                   "phi3",  "glm4",  "olmo2", "granite", "gpt2"};

bool same_in_both_formats(std::string_view family) {
  return std::ranges::find(kSameInBothFormats, family) != std::end(kSameInBothFormats);
}

std::unexpected<Error> refuse(std::string message) {
  return fail("E_ADAPTER", std::move(message));
}

class Fitter {
 public:
  Fitter(const AdapterFile& file, const LoadedModel& model, const plan::Plan& plan)
      : file_(file), model_(model), plan_(plan) {
    crosses_ = file.checkpoint->format() != model.checkpoint().format();
  }

  Result<Adapter> run() {
    ORRERY_TRY_VOID(check_formats());
    if (!is_gguf()) add_modules();
    Adapter adapter;
    for (const AdapterTensors& tensors : file_.tensors) {
      ORRERY_TRY(AdapterPair pair, fit(tensors));
      const auto same = [&](const AdapterPair& other) { return other.tensor == pair.tensor; };
      if (std::ranges::any_of(adapter.pairs, same)) {
        return refuse(fmt::format("two pairs change tensor {}", pair.tensor));
      }
      adapter.pairs.push_back(std::move(pair));
    }
    ORRERY_TRY_VOID(file_.checkpoint->check_files(true));
    return adapter;
  }

 private:
  bool is_gguf() const { return file_.checkpoint->format() == storage::Format::gguf; }
  Status check_formats() const;
  void add_modules();
  Result<std::string> find_tensor(const std::string& target) const;
  Status check_use(const std::string& name) const;
  Result<AdapterPair> fit(const AdapterTensors& tensors) const;
  Status decode(const AdapterTensors& tensors, AdapterPair& pair) const;
  bool reorders(const std::string& name) const;

  const AdapterFile& file_;
  const LoadedModel& model_;
  const plan::Plan& plan_;
  bool crosses_ = false;                                   // from one format to the other
  std::map<std::string, std::string, std::less<>> names_;  // of modules -> GGUF's
};

Status Fitter::check_formats() const {
  const auto& known = model_.family().gguf;
  std::string own;  // what the model's file says
  if (model_.checkpoint().format() == storage::Format::gguf) {
    ORRERY_TRY(own, model_.checkpoint().metadata().string("general.architecture"));
  }
  const bool same = own.empty() ? std::ranges::find(known, file_.architecture) != known.end()
                                : own == file_.architecture;
  if (is_gguf() && !same) {
    return refuse(fmt::format("the adapter is for the architecture {}, the model is {}",
                              in_quotes(file_.architecture),
                              own.empty() ? model_.hparams().family : own));
  }
  if (!crosses_ || same_in_both_formats(model_.hparams().family)) return {};
  return refuse(
      fmt::format("adapters of one format for {} models of the other are not supported; "
                  "convert the adapter to {}",
                  model_.hparams().family, is_gguf() ? "safetensors" : "GGUF"));
}

// What PEFT calls the modules of the model's matrices, without the beginning that models differ in.
void Fitter::add_modules() {
  constexpr std::string_view kEnding = ".weight";
  const Tensors spelling(file_.checkpoint, model_.family().tensor_names, false);
  for (const auto& [name, tensor] : model_.tensors().resolved()) {
    std::string module = spelling.file_name(name);
    if (!module.ends_with(kEnding)) continue;
    module.resize(module.size() - kEnding.size());
    const std::string_view first = Tensors::prefixes()[0];
    names_[module.starts_with(first) ? module.substr(first.size()) : module] = name;
  }
}

Result<std::string> Fitter::find_tensor(const std::string& target) const {
  if (is_gguf()) {
    if (model_.tensors().resolved().contains(target)) return target;
  } else {
    for (const std::string_view prefix : Tensors::prefixes()) {
      if (!target.starts_with(prefix)) continue;
      const auto found = names_.find(std::string_view(target).substr(prefix.size()));
      if (found != names_.end()) return found->second;
    }
    if (target.find(".experts.") != target.npos) {
      return refuse(fmt::format("the adapter changes {}, and adapters of experts are not supported",
                                in_quotes(target)));
    }
  }
  return refuse(fmt::format("the adapter changes {}, which this {} model does not have",
                            in_quotes(target), model_.hparams().family));
}

// Only plain products take adapters: a tensor has no other use in the forward pass.
Status Fitter::check_use(const std::string& name) const {
  const auto is_it = [&](plan::WeightId id) {
    return id != plan::kNone && plan_.weights[static_cast<std::size_t>(id)].tensor == name;
  };
  bool is_product = false;
  for (const plan::Step& step : plan_.steps) {
    if (std::ranges::none_of(step.w, is_it)) continue;
    if (step.op == plan::Op::matmul || step.op == plan::Op::logits) {
      is_product = true;
      continue;
    }
    return refuse(
        fmt::format("the adapter changes {}, which is used by {}; adapters of embeddings, "
                    "norms, experts and latent attention are not supported",
                    name, plan::op_name(step.op)));
  }
  if (is_product) return {};
  return refuse(fmt::format("the adapter changes {}, which is no matrix of a product", name));
}

Result<AdapterPair> Fitter::fit(const AdapterTensors& tensors) const {
  AdapterPair pair;
  ORRERY_TRY(pair.tensor, find_tensor(tensors.target));
  ORRERY_TRY_VOID(check_use(pair.tensor));
  const Tensor& matrix = model_.tensors().resolved().find(pair.tensor)->second;
  const std::uint64_t rows = tensors.b->dims[1], cols = tensors.a->dims[0];
  if (rows != matrix.rows || cols != matrix.cols) {
    return refuse(
        fmt::format("the pair for {} makes a change of shape ({}, {}), the model's {} has "
                    "({}, {}): the adapter is for another model",
                    in_quotes(tensors.target), rows, cols, pair.tensor, matrix.rows, matrix.cols));
  }
  pair.rank = static_cast<std::uint32_t>(tensors.rank());
  pair.rows = static_cast<std::uint32_t>(rows);
  pair.cols = static_cast<std::uint32_t>(cols);
  ORRERY_TRY_VOID(decode(tensors, pair));
  return pair;
}

// Whether the rows of a matrix are in another order than those of the file's B.
bool Fitter::reorders(const std::string& name) const {
  const bool rotates = name.find("attn_q.") != name.npos || name.find("attn_k.") != name.npos;
  return crosses_ && rotates &&
         std::ranges::find(kPairedInGguf, model_.hparams().family) != std::end(kPairedInGguf);
}

Status Fitter::decode(const AdapterTensors& tensors, AdapterPair& pair) const {
  for (const storage::TensorInfo* half : {tensors.a, tensors.b}) {
    if (half->data == nullptr || !is_decodable(half->type) || half->layout != Layout::file) {
      return refuse(fmt::format("tensor {} has type {}, which adapters cannot have",
                                in_quotes(half->name), dtype_info(half->type).name));
    }
  }
  pair.a.resize(std::size_t{pair.rank} * pair.cols);
  pair.b.resize(std::size_t{pair.rank} * pair.rows);
  decode_row(tensors.a->type, tensors.a->data, pair.a.data(), pair.a.size());
  std::vector<float> rows(pair.b.size());  // (rows, rank)
  decode_row(tensors.b->type, tensors.b->data, rows.data(), rows.size());
  const Hparams& h = model_.hparams();
  const bool reordered = reorders(pair.tensor);
  for (std::uint64_t r = 0; r < pair.rows; ++r) {  // in GGUF's order
    const std::uint64_t other = reordered ? unpaired_row(r, h.head_dim, h.rope_dim) : r;
    const std::uint64_t from = is_gguf() ? r : other, to = is_gguf() ? other : r;
    for (std::uint64_t j = 0; j < pair.rank; ++j) {
      pair.b[j * pair.rows + to] = tensors.scale * rows[from * pair.rank + j];
    }
  }
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (std::ranges::all_of(pair.a, is_finite) && std::ranges::all_of(pair.b, is_finite)) return {};
  return refuse(
      fmt::format("the pair for {} has a number that is not finite", in_quotes(tensors.target)));
}

}  // namespace

std::uint64_t Adapter::bytes() const {
  std::uint64_t floats = 0;
  for (const AdapterPair& pair : pairs) floats += pair.a.size() + pair.b.size();
  return floats * sizeof(float);
}

Result<Adapter> fit_adapter(const AdapterFile& file, const LoadedModel& model,
                            const plan::Plan& plan) {
  auto adapter = Fitter(file, model, plan).run();
  if (!adapter) return fail_in(file.checkpoint->label(), adapter.error());
  return adapter;
}

}  // namespace orrery::model
