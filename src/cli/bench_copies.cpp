// orrery bench copies: the bytes that the processor moved between the disk and the operands.
#include <fmt/format.h>

#include <memory>

#include "cli/bench_parts.hpp"
#include "cli/open_model.hpp"
#include "cli/terminal.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string model;
  OpenOptions open;
};

std::uint64_t file_bytes(const engine::Model& model) {
  std::uint64_t bytes = 0;
  for (const auto& file : model.checkpoint().mappings()) bytes += file->bytes().size();
  return bytes;
}

void print_row(const char* stage, std::uint64_t moved, const std::string& how) {
  print(fmt::format("{:34} {:>12}  {}\n", stage, moved, how));
}

Status bench_copies(const Options& options) {
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  const engine::ModelInfo& info = model->info();
  const std::uint64_t files = file_bytes(*model);
  const std::uint64_t in_place = info.weight_bytes - info.packed_bytes;
  // Only a read through the page cache is a copy: the rest is the disk's own doing.
  const bool copies_file = info.load.find("through the page cache") != std::string::npos;
  print(fmt::format("{:34} {:>12}\n", "stage", "bytes moved"));
  print_row("disk to memory", copies_file ? files : 0, fmt::format("of {}; {}", files, info.load));
  print_row("tables of names and tokens", files - info.weight_bytes,
            "at most: all of the files but the tensors");
  print_row("weights, used where they lie", 0, fmt::format("of {}", in_place));
  print_row("weights, packed for small models", info.packed_elsewhere ? 0 : info.packed_bytes,
            info.packed_bytes == 0  ? "none"
            : info.packed_elsewhere ? model->packed_in()
                                    : "--layout file leaves them where they lie");
  print_row("weights, converted", info.copied_bytes, "types and layouts that no kernel reads");
  print_row("memory to operand", 0, "unpacked in registers and L1 while it computes");
  return {};
}

}  // namespace

void add_bench_copies(Command bench) {
  Command command = bench.command("copies", "bytes that the processor moves before a product");
  auto options = std::make_shared<Options>();
  command.option("MODEL", options->model, "model file, folder or short name");
  add_open_options(command, options->open);
  add_load_option(command, options->open);
  add_image_options(command, options->open);
  command.does([options] { return bench_copies(*options); });
}

}  // namespace orrery::cli
