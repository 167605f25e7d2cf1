// Writes a GGUF file (version 3), tensor by tensor, through Io: the file takes its name only once
// it is whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "storage/io.hpp"
#include "storage/metadata.hpp"
#include "tensor/dtype.hpp"
#include "tensor/packed.hpp"

namespace orrery::storage {

// One tensor as the file will have it; dims[0] is the contiguous dimension, unused ones are 1.
struct GgufTensor {
  std::string name;
  DType type = DType::f32;
  std::uint32_t n_dims = 1;
  std::array<std::uint64_t, 4> dims = {1, 1, 1, 1};
  Layout layout = Layout::file;

  // Rows of dims[0] elements.
  std::uint64_t n_rows() const { return dims[1] * dims[2] * dims[3]; }
  std::uint64_t bytes() const { return row_bytes(type, dims[0]) * n_rows(); }
};

class GgufWriter {
 public:
  // Writes metadata and the table of tensors. Integers are stored with 32 bits where they fit, else
  // with 64, floats likewise; packed arrays as they were read. `general.alignment` is obeyed.
  // Errors: those of Io; E_META for a key or a tensor that no GGUF file can hold.
  static Result<GgufWriter> create(const std::string& path, const Metadata& metadata,
                                   std::vector<GgufTensor> tensors, Io& io);

  // The next bytes of the data of all tensors, in their order; padding is added by itself. More
  // than the tensors have is a bug.
  Status append(std::span<const std::byte> bytes);
  // Bytes behind the last tensor; all data is there (a CHECK).
  Status append_tail(std::span<const std::byte> bytes);
  // All data is there (a CHECK): the file takes its name.
  Status finish();
  std::uint64_t bytes() const { return written_; }
  // What stands in front of the first tensor, with its padding.
  std::span<const std::byte> head() const { return std::as_bytes(std::span(head_)); }

 private:
  GgufWriter() = default;
  Status write(std::span<const std::byte> bytes);
  Status pad();
  void begin_tensor();  // skips those without bytes

  std::unique_ptr<NewFile> file_;
  std::string head_;
  std::vector<GgufTensor> tensors_;
  std::uint64_t alignment_ = 0;
  std::uint64_t written_ = 0;  // bytes of the file
  std::size_t tensor_ = 0;     // that is being written
  std::uint64_t left_ = 0;     // bytes of it
};

}  // namespace orrery::storage
