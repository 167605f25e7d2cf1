// A checkpoint as the GGUF file that says the same: metadata, and tensors under GGUF's names whose
// rows can be read as f32. What writes GGUF files starts here, whatever format the model has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"
#include "storage/gguf_writer.hpp"
#include "storage/metadata.hpp"

namespace orrery::model {

class LoadedModel;

// Rows that lie together, up to the next run's first.
struct RowRun {
  std::uint64_t begin = 0;          // the first row
  const std::byte* data = nullptr;  // its bytes
};

struct ImageTensor {
  storage::GgufTensor as;           // name, shape, and the type of the source
  const std::byte* data = nullptr;  // rows one after the other, of type as.type
  std::vector<RowRun> runs = {};  // instead, in order, where the rows lie apart (those of experts)
  // Rows are columns of the source, each run a matrix (as.dims[0], turned_cols) there; 0: rows are
  // rows.
  std::uint64_t turned_cols = 0;
  // Rows of q and k in Hugging Face's order, whose rotary pairs are half a head apart; GGUF's llama
  // has them side by side. Elements of a head, of which the first rope_dim rotate; 0: as they are.
  std::uint32_t head_dim = 0, rope_dim = 0;
  float add = 0.0F;  // to every element: a norm that is stored as w - 1

  // True where bytes can be copied: pieces() has them.
  bool is_plain() const { return head_dim == 0 && add == 0.0F && turned_cols == 0; }
  bool has_data() const { return (runs.empty() ? data : runs[0].data) != nullptr; }
  // The bytes in their order; not of a tensor whose rows are columns (a CHECK).
  std::vector<std::span<const std::byte>> pieces() const;
  // Row `row` of as.dims[0] elements; the type is decodable (a CHECK).
  void read_row(std::uint64_t row, float* out) const;
};

struct GgufImage {
  std::shared_ptr<const storage::Checkpoint> checkpoint;
  storage::Metadata metadata;  // of the model and its tokenizer
  std::vector<ImageTensor> tensors;

  // What metadata and tensors point into.
  std::deque<std::string> texts;
  std::deque<std::vector<float>> values;
  std::vector<std::shared_ptr<const void>> owners;

  std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }
};

// The row of Hugging Face's order that is row `row` of GGUF's: pairs (2i, 2i + 1) come from
// (i, i + rope_dim / 2), head by head.
std::uint64_t unpaired_row(std::uint64_t row, std::uint32_t head_dim, std::uint32_t rope_dim);

// GGUF as it is, without the keys of a split. safetensors by the model's family: E_EXPORT when
// GGUF has no words for a parameter, and the errors of load_model. The tokenizer's keys are left to
// the caller there.
Result<GgufImage> gguf_image(std::shared_ptr<const storage::Checkpoint> checkpoint);

}  // namespace orrery::model
