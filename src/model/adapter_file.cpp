#include "model/adapter_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "storage/config_json.hpp"
#include "storage/describe.hpp"
#include "storage/loaded_checkpoint.hpp"

namespace orrery::model {
namespace {

using nlohmann::json;
using storage::in_quotes;
using storage::TensorInfo;

constexpr std::string_view kConfigName = "adapter_config.json";
constexpr std::string_view kTensorsName = "adapter_model.safetensors";
constexpr std::uint64_t kMaxAdapterConfigBytes = 1U << 20;

using Pairs = std::map<std::string, AdapterTensors, std::less<>>;

std::unexpected<Error> refuse(std::string message) {
  return fail("E_ADAPTER", std::move(message));
}

struct Ending {
  std::string_view text;
  bool is_a;
};
constexpr Ending kGgufEndings[] = {{".lora_a", true}, {".lora_b", false}};
constexpr Ending kPeftEndings[] = {{".lora_A.weight", true},
                                   {".lora_B.weight", false},
                                   {".lora_A.default.weight", true},
                                   {".lora_B.default.weight", false}};
constexpr std::string_view kPeftBeginning = "base_model.model.";

// What a tensor that is no half of a pair says about its adapter.
Status refuse_tensor(std::string_view name) {
  if (name.find("lora_embedding_") != name.npos) {
    return refuse(
        fmt::format("tensor {} adapts an embedding, which is not supported; only "
                    "adapters of matrix products are",
                    in_quotes(name)));
  }
  if (name.find("lora_magnitude_vector") != name.npos) {
    return refuse(
        fmt::format("tensor {} belongs to DoRA, which is not supported; merge the "
                    "adapter into its model",
                    in_quotes(name)));
  }
  return refuse(
      fmt::format("tensor {} is no half of a LoRA pair (lora_A or lora_B); adapters that "
                  "change more than matrix products are not supported",
                  in_quotes(name)));
}

Result<Pairs> collect(const storage::Checkpoint& checkpoint, std::span<const Ending> endings,
                      std::string_view beginning) {
  Pairs pairs;
  for (const TensorInfo& info : checkpoint.tensors()) {
    std::string_view name = info.name;
    const auto ending = std::ranges::find_if(
        endings, [&](const Ending& known) { return name.ends_with(known.text); });
    if (ending == endings.end()) ORRERY_TRY_VOID(refuse_tensor(name));
    name.remove_suffix(ending->text.size());
    if (name.starts_with(beginning)) name.remove_prefix(beginning.size());
    AdapterTensors& pair = pairs[std::string(name)];
    pair.target = name;
    const TensorInfo*& half = ending->is_a ? pair.a : pair.b;
    if (half != nullptr) {
      return refuse(fmt::format("tensors {} and {} are the same half of a pair",
                                in_quotes(half->name), in_quotes(info.name)));
    }
    half = &info;
  }
  if (pairs.empty()) return refuse("the adapter has no tensors");
  return pairs;
}

Status check(const AdapterTensors& pair) {
  if (pair.a == nullptr || pair.b == nullptr) {
    return refuse(fmt::format("half of the pair for {} is missing: there is no lora_{}",
                              in_quotes(pair.target), pair.a == nullptr ? 'A' : 'B'));
  }
  for (const TensorInfo* half : {pair.a, pair.b}) {
    if (half->n_dims <= 2) continue;
    return refuse(
        fmt::format("tensor {} has {} dimensions; only adapters of matrices are "
                    "supported, of experts and convolutions they are not",
                    in_quotes(half->name), half->n_dims));
  }
  const std::uint64_t cols = pair.a->dims[0], rank = pair.rank(), rows = pair.b->dims[1];
  if (pair.b->dims[0] != rank) {
    return refuse(fmt::format("the pair for {} has rank {} in A and rank {} in B",
                              in_quotes(pair.target), rank, pair.b->dims[0]));
  }
  if (rank == 0 || rank > std::min(rows, cols)) {
    return refuse(
        fmt::format("the pair for {} has rank {}, expected 1 to {}, the smaller side of "
                    "its matrix",
                    in_quotes(pair.target), rank, std::min(rows, cols)));
  }
  if (!std::isfinite(pair.scale)) {
    return refuse(
        fmt::format("the scale of the pair for {} is not finite", in_quotes(pair.target)));
  }
  return {};
}

Status finish(Pairs pairs, AdapterFile& file) {
  for (auto& [name, pair] : pairs) {
    ORRERY_TRY_VOID(check(pair));
    file.tensors.push_back(std::move(pair));
  }
  return {};
}

// GGUF

Status read_gguf(AdapterFile& file) {
  const storage::Metadata& metadata = file.checkpoint->metadata();
  ORRERY_TRY(const auto type, metadata.string_or("general.type", "model"));
  if (type != "adapter") {
    return refuse(fmt::format("general.type is {}: the file is no adapter", in_quotes(type)));
  }
  ORRERY_TRY(const auto kind, metadata.string("adapter.type"));
  if (kind != "lora") {
    return refuse(fmt::format("adapter.type is {}, only \"lora\" is supported", in_quotes(kind)));
  }
  if (metadata.has("adapter.alora.invocation_tokens")) {
    return refuse("the adapter is an activated LoRA (aLoRA), which is not supported");
  }
  ORRERY_TRY(const auto architecture, metadata.string("general.architecture"));
  ORRERY_TRY(const auto base, metadata.string_or("general.base_model.0.name", ""));
  file.architecture = architecture;
  file.base = base;
  ORRERY_TRY(const float alpha, metadata.f32_or("adapter.lora.alpha", 0.0F));
  ORRERY_TRY(Pairs pairs, collect(*file.checkpoint, kGgufEndings, ""));
  for (auto& [name, pair] : pairs) {
    if (alpha != 0.0F && pair.b != nullptr)
      pair.scale = alpha / static_cast<float>(pair.b->dims[0]);
  }
  return finish(std::move(pairs), file);
}

// PEFT

struct PeftConfig {
  json tree;

  const json* find(std::string_view key) const {
    const auto found = tree.find(key);
    return found == tree.end() || found->is_null() ? nullptr : &*found;
  }
  bool is_true(std::string_view key) const {
    const json* value = find(key);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  std::string text(std::string_view key) const {
    const json* value = find(key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }
  bool has_items(std::string_view key) const {
    const json* value = find(key);
    return value != nullptr && value->is_structured() && !value->empty();
  }
};

// Kinds of LoRA that would be computed wrongly.
Status check_kind(const PeftConfig& config) {
  const auto peft_type = config.text("peft_type");
  if (peft_type != "LORA") {
    return refuse(fmt::format("{}: peft_type is {}, only \"LORA\" is supported", kConfigName,
                              in_quotes(peft_type)));
  }
  for (const std::string_view key : {"use_dora", "lora_bias", "use_qalora"}) {
    if (!config.is_true(key)) continue;
    return refuse(
        fmt::format("{}: {} is true, which is not supported; merge the adapter into its "
                    "model",
                    kConfigName, key));
  }
  const auto bias = config.text("bias");
  if (!bias.empty() && bias != "none") {
    return refuse(fmt::format("{}: bias is {}; adapters that change biases are not supported",
                              kConfigName, in_quotes(bias)));
  }
  for (const std::string_view key : {"modules_to_save", "alora_invocation_tokens",
                                     "trainable_token_indices", "target_parameters"}) {
    if (!config.has_items(key)) continue;
    return refuse(
        fmt::format("{}: {} is set, which is not supported; only adapters of matrix "
                    "products are",
                    kConfigName, key));
  }
  return {};
}

Result<double> number(const PeftConfig& config, std::string_view key) {
  const json* value = config.find(key);
  if (value != nullptr && value->is_number()) return value->get<double>();
  return refuse(fmt::format("{}: {} is missing or no number", kConfigName, key));
}

// A pattern names modules by the end of their path; regular expressions are left to others.
Result<double> patterned(const PeftConfig& config, std::string_view key, std::string_view module,
                         double usual) {
  const json* patterns = config.find(key);
  if (patterns == nullptr) return usual;
  if (!patterns->is_object()) return refuse(fmt::format("{}: {} is no object", kConfigName, key));
  for (const auto& [name, value] : patterns->items()) {
    if (name.find_first_of("^$*+?()[]{}|\\") != name.npos || !value.is_number()) {
      return refuse(
          fmt::format("{}: {} has the entry {}; only names of modules with numbers are "
                      "supported",
                      kConfigName, key, in_quotes(name)));
    }
    const bool is_end = module == name || module.ends_with("." + name);
    if (is_end) return value.get<double>();
  }
  return usual;
}

Status read_peft(AdapterFile& file, const std::string& folder, storage::Io& io) {
  ORRERY_TRY(const std::string text,
             io.read_file(storage::join_path(folder, kConfigName), kMaxAdapterConfigBytes));
  auto tree = storage::parse_config_json(text);
  if (!tree) return refuse(fmt::format("{}: is no JSON object of a sensible size", kConfigName));
  const PeftConfig config{std::move(*tree)};
  ORRERY_TRY_VOID(check_kind(config));
  file.base = config.text("base_model_name_or_path");
  ORRERY_TRY(const double usual_rank, number(config, "r"));
  ORRERY_TRY(const double usual_alpha, number(config, "lora_alpha"));
  ORRERY_TRY(Pairs pairs, collect(*file.checkpoint, kPeftEndings, kPeftBeginning));
  for (auto& [module, pair] : pairs) {
    ORRERY_TRY(const double rank, patterned(config, "rank_pattern", module, usual_rank));
    ORRERY_TRY(const double alpha, patterned(config, "alpha_pattern", module, usual_alpha));
    if (pair.a != nullptr && static_cast<double>(pair.rank()) != rank) {
      return refuse(fmt::format("the pair for {} has rank {}, {} says {}", in_quotes(module),
                                pair.rank(), kConfigName, rank));
    }
    pair.scale =
        static_cast<float>(alpha / (config.is_true("use_rslora") ? std::sqrt(rank) : rank));
  }
  return finish(std::move(pairs), file);
}

// The folder of an adapter in PEFT's form; empty for a path that is none.
std::string peft_folder(const std::string& path, storage::Io& io) {
  std::string folder = path;
  if (!io.is_directory(path)) {
    if (!path.ends_with(".safetensors")) return "";
    folder = storage::folder_of(path);
  }
  return io.exists(storage::join_path(folder, kConfigName)) ? folder : "";
}

}  // namespace

bool is_adapter(const std::string& path, storage::Io& io) {
  const std::string folder = peft_folder(path, io);
  if (!folder.empty() && (folder == path || path.ends_with(kTensorsName))) {
    return io.exists(storage::join_path(folder, kTensorsName));
  }
  if (!path.ends_with(".gguf")) return false;
  const auto checkpoint = storage::Checkpoint::open(path, io);
  if (!checkpoint) return false;
  const auto type = (*checkpoint)->metadata().string_or("general.type", "model");
  return type && *type == "adapter";
}

Result<AdapterFile> open_adapter_file(const std::string& path, storage::Io& io) {
  AdapterFile file;
  const std::string folder = peft_folder(path, io);
  const bool is_folder = !folder.empty() && io.is_directory(path);
  ORRERY_TRY(file.checkpoint, storage::Checkpoint::open(
                                  is_folder ? storage::join_path(path, kTensorsName) : path, io));
  const bool is_gguf = file.checkpoint->format() == storage::Format::gguf;
  Status read;
  if (is_gguf) {
    read = read_gguf(file);
  } else if (folder.empty()) {
    read = refuse(fmt::format("{} is missing beside the tensors", kConfigName));
  } else {
    read = read_peft(file, folder, io);
  }
  if (!read) return fail_in(storage::file_label(path), read.error());
  return file;
}

}  // namespace orrery::model
