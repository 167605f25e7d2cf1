// What orrery inspect says of a LoRA adapter.
#include <fmt/format.h>

#include <algorithm>

#include "cli/inspect.hpp"
#include "cli/terminal.hpp"
#include "model/adapter_file.hpp"
#include "storage/io.hpp"

namespace orrery::cli {

Status inspect_adapter(const std::string& path) {
  ORRERY_TRY(const model::AdapterFile file, model::open_adapter_file(path, storage::system_io()));
  const bool is_gguf = file.checkpoint->format() == storage::Format::gguf;
  print(fmt::format("format: LoRA adapter, {}\n", is_gguf ? "GGUF" : "safetensors (PEFT)"));
  for (const std::string& name : file.checkpoint->files()) print(fmt::format("file: {}\n", name));
  if (!file.architecture.empty()) {
    print(fmt::format("architecture: {}\n", printable(file.architecture)));
  }
  if (!file.base.empty()) print(fmt::format("made for: {}\n", printable(file.base)));
  std::uint64_t bytes = 0;
  for (const storage::TensorInfo& tensor : file.checkpoint->tensors()) bytes += tensor.bytes;
  print(fmt::format("pairs: {}, {}\n", file.tensors.size(), human_bytes(bytes)));
  for (const model::AdapterTensors& pair : file.tensors) {
    print(fmt::format("  {:48} rank {:4}  scale {:<8g} {} x {}  {}\n", printable(pair.target),
                      pair.rank(), pair.scale, pair.b->dims[1], pair.a->dims[0],
                      dtype_info(pair.a->type).name));
  }
  return {};
}

}  // namespace orrery::cli
