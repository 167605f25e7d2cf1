// How much the columns of each weight matter: mean squares of the activations that they meet.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"
#include "storage/io.hpp"

namespace orrery::engine {

// Sums over the rows that one matrix of a weight was multiplied with; a weight of experts has
// several matrices, one after the other.
struct ColumnSums {
  std::vector<float> squares;  // (matrices, columns)
  std::vector<float> counts;   // (matrices), or one for all: rows summed
};

class Importance {
 public:
  std::map<std::string, ColumnSums, std::less<>> sums;  // by GGUF's name of the weight
  std::uint32_t n_chunks = 0, chunk_tokens = 0;
  std::vector<std::string> datasets;  // names of the texts

  // Mean squares of one matrix of a weight, (columns); empty when it is unknown or was never met.
  std::vector<float> columns(std::string_view weight, std::uint64_t matrix,
                             std::uint64_t n_columns) const;
};

// As llama.cpp's tools write them: GGUF with general.type "imatrix" and, for each weight, F32
// tensors NAME.in_sum2 (columns, matrices) and NAME.counts (1, matrices); or, only read, their
// older form without a magic number: i32 n, then n times { i32 length, name, i32 calls, i32 n, f32
// means times calls [n] }, then { i32 chunks, i32 length, name of the text }, which may be missing.
// E_IMATRIX for a file that is none.
Result<Importance> read_importance(const std::string& path, storage::Io& io);
Status write_importance(const Importance& importance, const std::string& path, storage::Io& io);

}  // namespace orrery::engine
