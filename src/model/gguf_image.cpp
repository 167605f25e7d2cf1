#include "model/gguf_image.hpp"

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

void ImageTensor::read_row(std::uint64_t row, float* out) const {
  const std::uint64_t n = as.dims[0], stride = row_bytes(as.type, n);
  const bool is_vector = as.n_dims == 1;
  const std::uint64_t from =
      head_dim == 0 || is_vector ? row : unpaired_row(row, head_dim, rope_dim);
  const std::byte* rows = experts.empty() ? data : experts[from / as.dims[1]];
  decode_row(as.type, rows + (experts.empty() ? from : from % as.dims[1]) * stride, out, n);
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
