// orrery inspect memory: how the pages of a model's files lie, what the kernel can do about it, and
// what memory an opened model takes.
#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "base/topology.hpp"
#include "cli/inspect.hpp"
#include "cli/model_arg.hpp"
#include "cli/open_model.hpp"
#include "cli/terminal.hpp"
#include "memory/arena.hpp"
#include "storage/direct_read.hpp"
#include "storage/ready_pages.hpp"

namespace orrery::cli {
namespace {

// "always [madvise] never", or that the kernel has none.
std::string huge_page_setting() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return std::getline(file, line) ? line : "none in this kernel";
}

Status inspect_memory(const std::string& model) {
  ORRERY_TRY(const std::string path, locate_model(model));
  ORRERY_TRY(const auto checkpoint, storage::Checkpoint::open(path, storage::system_io()));
  for (std::size_t i = 0; i < checkpoint->files().size(); ++i) {
    print(fmt::format("{}: {}\n", printable(checkpoint->files()[i]),
                      storage::to_text(checkpoint->mappings()[i]->page_use())));
  }
  print(fmt::format("huge pages of this kernel: {}\n", huge_page_setting()));
  print(fmt::format("memory: {} available\n", human_bytes(available_memory())));
  ORRERY_TRY(const auto direct,
             storage::system_io().open_direct(checkpoint->files().front(), storage::kDirectDepth));
  print(fmt::format("--load direct would read by {}\n", direct->way()));
  ORRERY_TRY(const auto opened, open_model(model, {}));
  ORRERY_TRY_VOID(opened->settle());
  print(fmt::format("opened: weights {}{}, scratch {}\n", opened->info().load,
                    packed_phrase(*opened), human_bytes(opened->info().scratch_bytes)));
  print(memory::to_text(memory::Arena::process().use()));
  return {};
}

}  // namespace

void add_inspect_memory(Command inspect) {
  Command command = inspect.command("memory", "how the pages of a model's files lie in memory");
  auto model = std::make_shared<std::string>();
  command.option("MODEL", *model, "model file, folder or short name");
  command.does([model] { return inspect_memory(*model); });
}

}  // namespace orrery::cli
