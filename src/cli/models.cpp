// orrery models: what is on this machine. orrery pull: what is not yet.
#include <fmt/format.h>

#include <memory>

#include "cli/app.hpp"
#include "cli/pull.hpp"
#include "cli/terminal.hpp"
#include "storage/locate.hpp"
#include "storage/model_names.hpp"

namespace orrery::cli {
namespace {

Status list_models() {
  const auto environment = storage::Environment::of_process();
  const auto entries = storage::list_models(storage::system_io(), environment);
  print(fmt::format("{:36} {:>10}  {:13} {}\n", "NAME", "SIZE", "SOURCE", "PATH"));
  for (const storage::ModelEntry& entry : entries) {
    print(fmt::format("{:36} {:>10}  {:13} {}\n", printable(entry.name), human_bytes(entry.bytes),
                      storage::source_name(entry.source), printable(entry.path)));
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
  Command models = program.command("models", "list the models on this machine");
  models.does(list_models);

  Command pull = program.command("pull", "download a model into the cache");
  auto name = std::make_shared<std::string>();
  pull.option("NAME", *name,
              "short name, ORG/NAME[:QUANT], ORG/NAME/FILE.gguf, or an https:// address")
      .required();
  pull.does([name] { return pull_model(*name); });
}

}  // namespace orrery::cli
