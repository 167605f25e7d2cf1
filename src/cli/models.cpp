// orrery models: what is on this machine. orrery pull: what is not yet.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "cli/app.hpp"
#include "cli/pull.hpp"
#include "cli/terminal.hpp"
#include "engine/image.hpp"
#include "storage/checkpoint.hpp"
#include "storage/locate.hpp"
#include "storage/model_names.hpp"
#include "storage/state_file.hpp"

namespace orrery::cli {
namespace {

// The type that most bytes of the weights have; "-" for a file that cannot be read.
std::string type_of(const std::string& path) {
  const auto file = storage::Checkpoint::open(path, storage::system_io());
  if (!file) return "-";
  std::map<DType, std::uint64_t> bytes;
  for (const storage::TensorInfo& tensor : (*file)->tensors()) bytes[tensor.type] += tensor.bytes;
  const auto most = std::ranges::max_element(bytes, {}, &decltype(bytes)::value_type::second);
  return most == bytes.end() ? "-" : std::string(dtype_info(most->first).name);
}

// An image's name, as the list has it, to its path.
Result<std::string> image_path(const std::string& name) {
  const auto entries =
      storage::list_models(storage::system_io(), storage::Environment::of_process());
  for (const storage::ModelEntry& entry : entries) {
    if (entry.source == storage::ModelSource::image && entry.name == name) return entry.path;
  }
  return fail("E_NOMODEL", fmt::format("\"{}\" is no image; `orrery models` lists them, as "
                                       "images/...",
                                       printable(name)));
}

Status remove_image(const std::string& name) {
  ORRERY_TRY(const std::string path, image_path(name));
  return storage::system_state_io().remove(path);
}

Status verify(const std::string& name) {
  ORRERY_TRY(const std::string path, image_path(name));
  ORRERY_TRY(const auto image, storage::Checkpoint::open(path, storage::system_io()));
  ORRERY_TRY_VOID(engine::verify_image(*image));
  print(fmt::format("{} tensors, every byte as it was written\n", image->tensors().size()));
  return {};
}

Status list_models() {
  const auto environment = storage::Environment::of_process();
  const auto entries = storage::list_models(storage::system_io(), environment);
  print(fmt::format("{:36} {:>10}  {:13} {:6} {}\n", "NAME", "SIZE", "SOURCE", "TYPE", "PATH"));
  for (const storage::ModelEntry& entry : entries) {
    print(fmt::format("{:36} {:>10}  {:13} {:6} {}\n", printable(entry.name),
                      human_bytes(entry.bytes), storage::source_name(entry.source),
                      type_of(entry.path), printable(entry.path)));
  }
  if (entries.empty()) {
    print_note("no models found; `orrery pull NAME` gets one, where NAME is a short name:");
    for (const storage::ModelName& name : storage::kModelNames) {
      if (!name.repository.empty()) print_note(fmt::format("  {}", name.name));
    }
  }
  return {};
}

}  // namespace

void add_models(Command program) {
  Command models = program.command("models", "list the models on this machine, remove images");
  models.accepts_one_command();
  models.does(list_models);
  auto image = std::make_shared<std::string>();
  Command remove = models.command("remove", "remove an image of a model");
  remove.option("NAME", *image, "the image, as the list has it").required();
  remove.does([image] { return remove_image(*image); });
  Command check = models.command("verify", "compare an image with its checksums");
  check.option("NAME", *image, "the image, as the list has it").required();
  check.does([image] { return verify(*image); });

  Command pull = program.command("pull", "download a model into the cache");
  auto name = std::make_shared<std::string>();
  pull.option("NAME", *name,
              "short name, ORG/NAME[:QUANT], ORG/NAME/FILE.gguf, or an https:// address")
      .required();
  pull.does([name] { return pull_model(*name); });
}

}  // namespace orrery::cli
