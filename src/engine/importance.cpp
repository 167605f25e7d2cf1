#include "engine/importance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "storage/byte_reader.hpp"
#include "storage/describe.hpp"
#include "storage/gguf_writer.hpp"

namespace orrery::engine {
namespace {

using storage::MetaArray;
using storage::TensorInfo;

constexpr std::string_view kSquares = ".in_sum2", kCounts = ".counts";

// n floats at `data`, of the tensor `name`.
Result<std::vector<float>> read_sound(std::string_view name, const void* data, std::uint64_t n) {
  std::vector<float> values(n);
  std::memcpy(values.data(), data, n * sizeof(float));
  const bool sound =
      std::ranges::all_of(values, [](float x) { return std::isfinite(x) && x >= 0; });
  if (sound) return values;
  return fail("E_IMATRIX",
              fmt::format("tensor {} holds a number that is negative or not finite", name));
}

Result<std::vector<float>> read_floats(const TensorInfo& tensor) {
  if (tensor.type != DType::f32 || tensor.data == nullptr) {
    return fail("E_IMATRIX", fmt::format("tensor {} has type {}, F32 is expected", tensor.name,
                                         dtype_info(tensor.type).name));
  }
  return read_sound(tensor.name, tensor.data, tensor.n_elements());
}

Result<ColumnSums> read_sums(const storage::Checkpoint& file, const TensorInfo& squares,
                             const std::string& weight) {
  const TensorInfo* counts = file.find(weight + std::string(kCounts));
  if (counts == nullptr) {
    return fail("E_IMATRIX", fmt::format("tensor {}{} is missing", weight, kCounts));
  }
  ColumnSums sums;
  ORRERY_TRY(sums.squares, read_floats(squares));
  ORRERY_TRY(sums.counts, read_floats(*counts));
  if (sums.counts.size() * squares.dims[0] != sums.squares.size()) {
    return fail("E_IMATRIX", fmt::format("{} has {} counts for {} sums over {} columns", weight,
                                         sums.counts.size(), sums.squares.size(), squares.dims[0]));
  }
  return sums;
}

Result<Importance> read_file(const storage::Checkpoint& file) {
  const storage::Metadata& metadata = file.metadata();
  const auto type = metadata.string_or("general.type", "");
  if (!type || *type != "imatrix") {
    return fail("E_IMATRIX", "general.type is not \"imatrix\"; orrery imatrix makes such files");
  }
  Importance importance;
  ORRERY_TRY(importance.n_chunks, metadata.u32_or("imatrix.chunk_count", 0));
  ORRERY_TRY(importance.chunk_tokens, metadata.u32_or("imatrix.chunk_size", 0));
  if (metadata.has("imatrix.datasets")) {
    ORRERY_TRY(const MetaArray names, metadata.array("imatrix.datasets", MetaArray::Kind::strings));
    importance.datasets.assign(names.strings.begin(), names.strings.end());
  }
  for (const TensorInfo& tensor : file.tensors()) {
    if (!tensor.name.ends_with(kSquares)) continue;
    const std::string weight = tensor.name.substr(0, tensor.name.size() - kSquares.size());
    ORRERY_TRY(importance.sums[weight], read_sums(file, tensor, weight));
  }
  return importance;
}

// A count that the file says, from 0 on.
Result<std::uint32_t> read_count(storage::ByteReader& reader, std::string_view what) {
  const std::uint64_t at = reader.position();
  ORRERY_TRY(const std::int32_t n, reader.read<std::int32_t>(what));
  if (n >= 0) return static_cast<std::uint32_t>(n);
  return reader.error(
      "E_IMATRIX", at,
      fmt::format("{} is {}; this is no importance matrix, orrery imatrix makes such "
                  "files",
                  what, n));
}

Status read_old_entry(storage::ByteReader& reader, Importance& importance) {
  ORRERY_TRY(const std::uint32_t length, read_count(reader, "the length of a name"));
  ORRERY_TRY(const std::string_view name, reader.take(length, "the name of a weight"));
  ORRERY_TRY(const std::uint32_t calls, read_count(reader, "the number of calls"));
  ORRERY_TRY(const std::uint32_t n, read_count(reader, "the number of columns"));
  ORRERY_TRY(const std::string_view bytes,
             reader.take(std::uint64_t{n} * sizeof(float), "the sums of a weight"));
  ColumnSums& sums = importance.sums[std::string(name)];
  ORRERY_TRY(sums.squares, read_sound(storage::in_quotes(name), bytes.data(), n));
  sums.counts = {static_cast<float>(std::max(calls, 1U))};
  return {};
}

Result<Importance> read_old_file(std::span<const std::byte> bytes, const std::string& label) {
  storage::ByteReader reader(bytes, label);
  Importance importance;
  ORRERY_TRY(const std::uint32_t n, read_count(reader, "the number of weights"));
  for (std::uint32_t i = 0; i < n; ++i) ORRERY_TRY_VOID(read_old_entry(reader, importance));
  if (reader.remaining() == 0) return importance;
  ORRERY_TRY(importance.n_chunks, read_count(reader, "the number of chunks"));
  ORRERY_TRY(const std::uint32_t length, read_count(reader, "the length of a name"));
  ORRERY_TRY(const std::string_view text, reader.take(length, "the name of the text"));
  importance.datasets = {std::string(text)};
  return importance;
}

}  // namespace

std::vector<float> Importance::columns(std::string_view weight, std::uint64_t matrix,
                                       std::uint64_t n_columns) const {
  const auto found = sums.find(weight);
  if (found == sums.end()) return {};
  const ColumnSums& s = found->second;
  const std::uint64_t matrices = s.squares.size() / n_columns;
  if (matrices == 0 || s.squares.size() % n_columns != 0) return {};
  if (s.counts.size() != matrices && s.counts.size() != 1) return {};
  if (matrix >= matrices) matrix = 0;
  if (!(s.counts[std::min<std::uint64_t>(matrix, s.counts.size() - 1)] > 0.0F)) return {};
  const auto begin = s.squares.begin() + static_cast<std::ptrdiff_t>(matrix * n_columns);
  std::vector<float> means(begin, begin + static_cast<std::ptrdiff_t>(n_columns));
  const float most = *std::ranges::max_element(means);
  if (!(most > 0.0F)) return {};
  for (float& x : means) x /= most;  // only ratios count
  return means;
}

Result<Importance> read_importance(const std::string& path, storage::Io& io) {
  ORRERY_TRY(const auto mapping, io.map(path));
  const auto start = mapping->bytes().first(std::min<std::size_t>(mapping->bytes().size(), 4));
  if (std::memcmp(start.data(), "GGUF", start.size()) != 0) {
    return read_old_file(mapping->bytes(), storage::file_label(path));
  }
  ORRERY_TRY(const auto file, storage::Checkpoint::open(path, io));
  auto importance = read_file(*file);
  if (!importance) return fail_in(file->label(), importance.error());
  return importance;
}

Status write_importance(const Importance& importance, const std::string& path, storage::Io& io) {
  storage::Metadata metadata;
  metadata.insert("general.type", std::string_view("imatrix"));
  metadata.insert("imatrix.chunk_count", std::uint64_t{importance.n_chunks});
  metadata.insert("imatrix.chunk_size", std::uint64_t{importance.chunk_tokens});
  MetaArray names;
  names.strings.assign(importance.datasets.begin(), importance.datasets.end());
  metadata.insert("imatrix.datasets", names);
  std::vector<storage::GgufTensor> tensors;
  for (const auto& [weight, sums] : importance.sums) {
    const std::uint64_t matrices = sums.counts.size();
    tensors.push_back({weight + std::string(kSquares),
                       DType::f32,
                       2,
                       {sums.squares.size() / matrices, matrices, 1, 1}});
    tensors.push_back({weight + std::string(kCounts), DType::f32, 2, {1, matrices, 1, 1}});
  }
  ORRERY_TRY(auto writer, storage::GgufWriter::create(path, metadata, std::move(tensors), io));
  for (const auto& [weight, sums] : importance.sums) {
    ORRERY_TRY_VOID(writer.append(std::as_bytes(std::span(sums.squares))));
    ORRERY_TRY_VOID(writer.append(std::as_bytes(std::span(sums.counts))));
  }
  return writer.finish();
}

}  // namespace orrery::engine
