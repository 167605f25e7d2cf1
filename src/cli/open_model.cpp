#include "cli/open_model.hpp"

#include <fmt/format.h>

#include <string_view>

#include "cli/images.hpp"
#include "cli/model_arg.hpp"
#include "cli/numbers.hpp"
#include "cli/terminal.hpp"
#include "memory/arena.hpp"

namespace orrery::cli {
namespace {

Result<DType> kv_type(std::string_view name) {
  if (name == "f16") return DType::f16;
  if (name == "bf16") return DType::bf16;
  if (name == "f32") return DType::f32;
  if (name == "q8_0") return DType::q8_0;
  if (name == "q4_0") return DType::q4_0;
  return fail(kUsageError, fmt::format("\"{}\" is no type of a cache; there are f32, f16, bf16, "
                                       "q8_0 and q4_0",
                                       printable(name)));
}

}  // namespace

Result<KvTypes> parse_kv_types(const std::string& text) {
  const std::size_t comma = text.find(',');
  KvTypes types;
  ORRERY_TRY(types.k, kv_type(std::string_view(text).substr(0, comma)));
  types.v = types.k;
  if (comma != std::string::npos) {
    ORRERY_TRY(types.v, kv_type(std::string_view(text).substr(comma + 1)));
  }
  return types;
}

Result<engine::WeightLayout> parse_layout(const std::string& text) {
  if (text == "auto") return engine::WeightLayout::automatic;
  if (text == "file") return engine::WeightLayout::file;
  if (text == "packed") return engine::WeightLayout::packed;
  return fail(kUsageError,
              fmt::format("\"{}\" is no layout; there are auto, file and packed", printable(text)));
}

Result<storage::LoadMode> parse_load(const std::string& text) {
  if (text == "auto") return storage::LoadMode::automatic;
  if (text == "map") return storage::LoadMode::map;
  if (text == "direct") return storage::LoadMode::direct;
  return fail(kUsageError, fmt::format("\"{}\" is no way to load; there are auto, map and direct",
                                       printable(text)));
}

Result<engine::Overflow> parse_overflow(const std::string& text) {
  if (text == "error") return engine::Overflow::error;
  if (text == "shift") return engine::Overflow::shift;
  if (text == "roll") return engine::Overflow::roll;
  return fail(kUsageError, fmt::format("\"{}\" is none of error, shift and roll", printable(text)));
}

void add_open_options(Command command, OpenOptions& options) {
  command.option("-t,--threads", options.threads, "threads; 0 takes the physical cores")
      .range(0, 256);
  command.option("-c,--ctx", options.context, "context in tokens; 0 takes the model's own")
      .range(0, 1 << 24);
  command.option(
      "--kv-type",
      [&options](const std::string& text) -> Status {
        ORRERY_TRY(options.kv, parse_kv_types(text));
        return {};
      },
      "types of cached keys and values, K,V or one for both: f32, f16 (default), bf16, "
      "q8_0 or q4_0");
  command.option(
      "--layout",
      [&options](const std::string& text) -> Status {
        ORRERY_TRY(options.layout, parse_layout(text));
        return {};
      },
      "of weights in memory: file (where they are mapped), packed (laid out anew) or auto "
      "(default: packed if they fit into the last-level cache or 128 MiB)");
  command.flag("--deterministic", options.deterministic,
               "prefill with decode's number classes: slower, independent of chunking");
}

void add_load_option(Command command, OpenOptions& options) {
  command.option(
      "--load",
      [&options](const std::string& text) -> Status {
        ORRERY_TRY(options.load, parse_load(text));
        return {};
      },
      "how files come into memory: map (as they are), direct (read past the page cache) or auto "
      "(default: mapped, read ahead where they are cold, small pages mended)");
  command.flag("--seal", options.seal,
               "load directly into memory that nothing can write to any more, or fail");
  command.flag("--pin", options.pin,
               "keep weights, cache and scratch in memory, never swapped out");
  command.option(
      "--memory",
      [&options](const std::string& text) -> Status {
        ORRERY_TRY(options.memory, read_bytes("--memory", text));
        return {};
      },
      "most bytes of weights and cache together (512M, 4G); what does not fit is refused before it "
      "is read");
}

std::string packed_phrase(const engine::Model& model) {
  if (model.info().packed_bytes == 0) return model.info().image ? ", image" : "";
  const std::string place = model.packed_in();
  return place.empty() ? ", packed behind the first token" : ", packed in a " + place;
}

Result<engine::QuantizeMix> parse_mix(const std::string& text) {
  if (const auto mix = engine::find_mix(text)) return *mix;
  return fail(kUsageError, fmt::format("\"{}\" is no type that can be written; these are: {}",
                                       printable(text), engine::mix_names()));
}

void add_image_options(Command command, OpenOptions& options) {
  const Option quantize = command.option(
      "--quantize",
      [&options](const std::string& text) -> Status {
        ORRERY_TRY(const engine::QuantizeMix mix, parse_mix(text));
        options.quantize = mix.name;
        return {};
      },
      "use the model with these element types (Q8_0, Q4_K_M, ...), from an image that is kept");
  command
      .option(
          "--fit",
          [&options](const std::string& text) -> Status {
            ORRERY_TRY(options.fit, read_bytes("--fit", text));
            return {};
          },
          "the same with the least loss that fits weights, cache and scratch into so many bytes")
      .excludes(quantize);
}

Result<std::shared_ptr<const engine::Model>> open_file(const std::string& path,
                                                       const OpenOptions& options,
                                                       engine::Device device) {
  engine::ModelOptions model_options;
  model_options.device = device;
  model_options.threads = options.threads;
  model_options.isa = forced_isa();
  model_options.context = options.context;
  model_options.deterministic = options.deterministic;
  model_options.layout = options.layout;
  model_options.load = options.load;
  model_options.memory_bytes = options.memory;
  model_options.seal = options.seal;
  model_options.k_type = options.kv.k;
  model_options.v_type = options.kv.v;
  model_options.pooling = options.pooling;
  model_options.max_sequences = options.sequences;
  model_options.cache_budget_bytes = options.cache_bytes;
  if (options.seal && options.load == storage::LoadMode::map) {
    return fail(kUsageError, "--seal loads directly: it does not go with --load map");
  }
  memory::Arena& arena = memory::Arena::process();
  if (options.pin) arena.set_pinning(true);
  ORRERY_TRY(auto model, engine::Model::open(path, model_options, storage::system_io()));
  if (options.pin) {
    for (const auto& weights : model->weight_spans()) arena.pin(weights);
    std::string text = memory::to_text(arena.use());
    text.pop_back();
    print_note(text);
  }
  for (const std::string& warning : model->warnings()) print_note("warning: " + printable(warning));
  return model;
}

Result<std::shared_ptr<const engine::Model>> open_model(const std::string& name,
                                                        const OpenOptions& options,
                                                        engine::Device device) {
  ORRERY_TRY(const std::string path, locate_model(name));
  return device == engine::Device::cpu ? open_form(path, options)
                                       : open_file(path, options, device);
}

}  // namespace orrery::cli
