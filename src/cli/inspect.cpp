// orrery inspect: what a file holds, what the machine offers, what will run.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/topology.hpp"
#include "cli/app.hpp"
#include "cli/inspect.hpp"
#include "cli/model_arg.hpp"
#include "cli/terminal.hpp"
#include "kernels/dispatch.hpp"
#include "model/adapter_file.hpp"
#include "model/model.hpp"
#include "model/nearest.hpp"
#include "plan/cost.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::cli {
namespace {

std::string array_text(const storage::MetaValue& value) {
  static constexpr const char* kKinds[] = {"strings", "integers", "floats", "bools"};
  const auto shape = storage::array_shape(value);
  return fmt::format("[{} {}]", shape->size, kKinds[static_cast<std::size_t>(shape->kind)]);
}

std::string value_text(const storage::MetaValue& value) {
  struct Printer {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(std::uint64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return fmt::format("{:g}", v); }
    std::string operator()(std::string_view v) const {
      constexpr std::size_t kShown = 72;
      const std::string text = printable(v.substr(0, kShown));
      return v.size() > kShown ? fmt::format("{}... ({} bytes)", text, v.size()) : text;
    }
    std::string operator()(const storage::MetaArray& v) const { return array_text(v); }
    std::string operator()(const storage::PackedArray& v) const { return array_text(v); }
  };
  return std::visit(Printer{}, value);
}

std::string dims_text(const storage::TensorInfo& tensor) {
  std::string text;
  for (std::uint32_t d = 0; d < tensor.n_dims; ++d) {
    text += (d == 0 ? "" : " x ") + std::to_string(tensor.dims[d]);
  }
  return text;
}

void print_types(const storage::Checkpoint& checkpoint) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> types;  // name -> count, bytes
  std::uint64_t total = 0;
  std::uint64_t parameters = 0;
  for (const storage::TensorInfo& tensor : checkpoint.tensors()) {
    auto& [count, bytes] = types[std::string(dtype_info(tensor.type).name)];
    ++count;
    bytes += tensor.bytes;
    total += tensor.bytes;
    parameters += tensor.n_elements();
  }
  print(fmt::format("memory: {} of weights, {} parameters\n", human_bytes(total), parameters));
  for (const auto& [name, entry] : types) {
    print(fmt::format("  {:8} {:5} tensors  {}\n", name, entry.first, human_bytes(entry.second)));
  }
}

// What a token reads of a model with experts.
void print_experts(const model::LoadedModel& model) {
  const model::Experts& experts = model.hparams().experts;
  if (experts.count == 0) return;
  model::RecordOptions options;
  options.capacity = {1, 1, 1};
  options.context_length = model.hparams().context_length;
  const auto plan = model.record(options);
  if (!plan) return;
  print(fmt::format("experts: {} in {} of {} layers, {} used by a token{}: {:.0f} parameters, {}\n",
                    experts.count, std::ranges::count(experts.layers, true),
                    model.hparams().n_layers, experts.used,
                    experts.shared_ffn_dim > 0 ? " beside a shared one" : "",
                    plan::parameters_read(*plan),
                    human_bytes(static_cast<std::uint64_t>(plan::weights_read(*plan, {})))));
}

// Whether the model runs, and if not, why.
void print_support(const std::shared_ptr<const storage::Checkpoint>& checkpoint) {
  const auto loaded = model::load_model(checkpoint);
  if (loaded) {
    const model::Hparams& h = loaded->hparams();
    // GGUF has one architecture for both.
    const bool mixtral = h.family == "llama" && h.experts.count > 0;
    print(fmt::format("family: {}\n", mixtral ? "mixtral" : h.family));
    if (h.ranks) print("head: scores a document for a query (/v1/rerank)\n");
    print_experts(*loaded);
    return;
  }
  std::string reason = loaded.error().message;
  if (loaded.error().kind == "E_ARCH") {
    if (const auto nearest = model::nearest_family(checkpoint)) reason = to_sentence(*nearest);
  }
  print(fmt::format("family: none: {}\n", printable(reason)));
}

Status inspect_file(const std::string& model) {
  ORRERY_TRY(const std::string path, locate_model(model));
  if (model::is_adapter(path, storage::system_io())) return inspect_adapter(path);
  ORRERY_TRY(const auto checkpoint, storage::Checkpoint::open(path, storage::system_io()));
  for (const std::string& warning : checkpoint->warnings()) print_note("warning: " + warning);
  print(fmt::format("format: {}\n",
                    checkpoint->format() == storage::Format::gguf ? "GGUF" : "safetensors"));
  for (const std::string& file : checkpoint->files()) print(fmt::format("file: {}\n", file));
  print(fmt::format("metadata: {} keys\n", checkpoint->metadata().all().size()));
  for (const auto& [key, value] : checkpoint->metadata().all()) {
    print(fmt::format("  {} = {}\n", printable(key), value_text(value)));
  }
  print(fmt::format("tensors: {}\n", checkpoint->tensors().size()));
  for (const storage::TensorInfo& tensor : checkpoint->tensors()) {
    print(fmt::format("  {:40} {:8} {:>20}  {} bytes at {}\n", printable(tensor.name),
                      dtype_info(tensor.type).name, dims_text(tensor), tensor.bytes,
                      tensor.offset));
  }
  print_types(*checkpoint);
  print_support(checkpoint);
  return {};
}

Status inspect_device() {
  print(fmt::format("cpu: {}\n", cpu_model()));
  print(fmt::format("cores: {} physical, {} usable processors\n", physical_cores(),
                    available_cpus().size()));
  print(fmt::format("features: {}\n", kernels::cpu_features()));
  std::string names;
  for (const kernels::KernelSet& set : kernels::available_kernels()) {
    names += (names.empty() ? "" : " ") + set.name;
  }
  const std::string rule = kernels::ranking_rule();
  print(fmt::format("kernels: {}{}\n", names, rule.empty() ? "" : " (" + rule + ")"));
  ORRERY_TRY(const kernels::KernelSet chosen, kernels::choose_kernels(forced_isa()));
  print(fmt::format("chosen: {} (rows: {}, blocks: {})\n", chosen.name, chosen.rows->isa,
                    chosen.blocks->isa));
  print(fmt::format("memory: {} available\n", human_bytes(available_memory())));
  return {};
}

}  // namespace

void add_inspect(Command program) {
  Command inspect = program.command("inspect", "show what a model file holds or what will run");
  inspect.accepts_one_command();
  auto model = std::make_shared<std::string>();
  inspect.option("MODEL", *model, "model file, folder or short name");
  inspect.does([model] { return inspect_file(*model); });
  Command device = inspect.command("device", "the processor and the kernels for it");
  device.does(inspect_device);
  add_inspect_memory(inspect);
  add_inspect_plan(inspect);
  add_inspect_tokens(inspect);
  add_inspect_template(inspect);
}

}  // namespace orrery::cli
