// A model file (or folder) as read: metadata and a table of tensors, mapped and used in place.
//
// Formats: GGUF v2 and v3 (single and split), safetensors (single and sharded, with config.json,
// tokenizer.json, tokenizer_config.json, generation_config.json, chat_template.jinja beside it, and
// the folders that modules.json of Sentence Transformers names).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/io.hpp"
#include "storage/metadata.hpp"
#include "tensor/dtype.hpp"
#include "tensor/packed.hpp"

namespace orrery::storage {

enum class Format { gguf, safetensors };

struct TensorInfo {
  std::string name;
  DType type;
  std::uint32_t n_dims;
  std::array<std::uint64_t, 4> dims;  // dims[0] is the contiguous one (GGUF order); unused are 1
  std::uint64_t bytes;
  std::uint64_t offset;   // of the first byte in its file
  std::uint32_t file;     // index into Checkpoint::files()
  const std::byte* data;  // in the mapping; null in a vocabulary-only or header-only checkpoint
  Layout layout = Layout::file;  // packed in images alone (engine/image.hpp)
  std::uint64_t n_elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

// A step behind the transformer of Sentence Transformers. A Dense one has tensors, in the table
// under the name of its folder: "2_Dense/linear.weight".
struct SentenceModule {
  std::string kind;    // "Pooling", "Dense", "Normalize"
  std::string folder;  // "1_Pooling"
  std::string config;  // text of its config.json, empty when absent
};

class Checkpoint {
 public:
  // `path` is a file, a folder, or the first part of a split GGUF. Every byte range is checked
  // against the file before it is used; errors name the file, the byte and what is allowed.
  static Result<std::shared_ptr<const Checkpoint>> open(const std::string& path, Io& io);
  virtual ~Checkpoint() = default;

  virtual Format format() const = 0;
  virtual const std::string& path() const = 0;             // as given
  std::string label() const;                               // what messages call it
  virtual std::span<const std::string> files() const = 0;  // weight files, in order
  virtual const Metadata& metadata() const = 0;            // GGUF keys; empty for safetensors
  virtual std::span<const TensorInfo> tensors() const = 0;
  virtual const TensorInfo* find(std::string_view tensor) const = 0;
  // Texts of the files beside safetensors; empty when absent. Views live as long as the checkpoint.
  virtual std::string_view config_json() const = 0;
  virtual std::string_view tokenizer_json() const = 0;
  virtual std::string_view tokenizer_config_json() const = 0;
  virtual std::string_view generation_config_json() const = 0;
  virtual std::string_view chat_template_jinja() const = 0;
  virtual std::string_view sentence_config_json() const { return {}; }  // sentence_bert_config.json
  virtual std::span<const SentenceModule> sentence_modules() const { return {}; }
  // Oddities that do not stop the loading, one sentence each (bytes after the last tensor, ...).
  virtual std::span<const std::string> warnings() const = 0;

  // Of the weight files, in their order: how their pages lie and are read.
  virtual std::span<const std::unique_ptr<MappedFile>> mappings() const { return {}; }
  // Lets go of the memory of a part of a tensor's bytes; they can be read again.
  virtual void release(std::span<const std::byte>) const {}

  // E_CHANGED when a weight file lost bytes while it was mapped: what was read since is not to be
  // trusted. `on_disk` also asks the system whether a file was written to; without it this is a
  // look at memory alone.
  virtual Status check_files(bool on_disk) const = 0;
};

}  // namespace orrery::storage
