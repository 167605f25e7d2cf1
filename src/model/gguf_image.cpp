#include "model/gguf_image.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "model/gguf_export.hpp"
#include "tensor/decode.hpp"

namespace orrery::model {
namespace {

Result<GgufImage> image_of_gguf(std::shared_ptr<const storage::Checkpoint> checkpoint) {
  GgufImage image;
  for (const auto& [key, value] : checkpoint->metadata().all()) {
    if (!key.starts_with("split.")) image.metadata.insert(key, value);
  }
  for (const storage::TensorInfo& info : checkpoint->tensors()) {
    image.tensors.push_back(
        {.as = {info.name, info.type, info.n_dims, info.dims}, .data = info.data});
  }
  image.checkpoint = std::move(checkpoint);
  return image;
}

}  // namespace

std::uint64_t unpaired_row(std::uint64_t row, std::uint32_t head_dim, std::uint32_t rope_dim) {
  const std::uint64_t in_head = row % head_dim;
  if (in_head >= rope_dim) return row;
  return row - in_head + in_head / 2 + in_head % 2 * (rope_dim / 2);
}

std::vector<std::span<const std::byte>> ImageTensor::pieces() const {
  ORRERY_CHECK(turned_cols == 0);
  const std::uint64_t stride = row_bytes(as.type, as.dims[0]), n = as.n_rows();
  if (runs.empty()) return {{data, n * stride}};
  std::vector<std::span<const std::byte>> all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::uint64_t end = i + 1 < runs.size() ? runs[i + 1].begin : n;
    all.emplace_back(runs[i].data, (end - runs[i].begin) * stride);
  }
  return all;
}

void ImageTensor::read_row(std::uint64_t row, float* out) const {
  const std::uint64_t n = as.dims[0];
  const bool is_vector = as.n_dims == 1;
  std::uint64_t from = head_dim == 0 || is_vector ? row : unpaired_row(row, head_dim, rope_dim);
  const std::byte* rows = data;
  if (!runs.empty()) {
    const auto run = std::ranges::upper_bound(runs, from, {}, &RowRun::begin) - 1;
    rows = run->data;
    from -= run->begin;
  }
  if (turned_cols == 0) {
    decode_row(as.type, rows + from * row_bytes(as.type, n), out, n);
  } else {
    const std::uint64_t size = dtype_info(as.type).block_bytes;
    for (std::uint64_t i = 0; i < n; ++i) {
      decode_row(as.type, rows + (i * turned_cols + from) * size, out + i, 1);
    }
  }
  if (head_dim != 0 && is_vector) {  // a bias
    const std::vector<float> copy(out, out + n);
    for (std::uint64_t i = 0; i < n; ++i) out[i] = copy[unpaired_row(i, head_dim, rope_dim)];
  }
  if (add == 0.0F) return;
  for (std::uint64_t i = 0; i < n; ++i) out[i] += add;
}

Result<GgufImage> gguf_image(std::shared_ptr<const storage::Checkpoint> checkpoint) {
  if (checkpoint->format() == storage::Format::gguf) return image_of_gguf(std::move(checkpoint));
  return export_gguf(std::move(checkpoint));
}

}  // namespace orrery::model
