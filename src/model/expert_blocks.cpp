// Experts in MXFP4 as gpt-oss's safetensors have them: NAME_blocks (n, rows, cols / 32, 16) and
// NAME_scales (n, rows, cols / 32), bytes both. A byte holds two neighbours, the first below;
// GGUF's blocks have the exponent in front and elements i and i + 16 in a byte. (transformers,
// integrations/mxfp4.py; the rows of gate and up stand by turns.)
#include <fmt/format.h>

#include <array>

#include "model/tensors.hpp"

namespace orrery::model {

using storage::TensorInfo;

namespace {

constexpr std::uint64_t kBlock = 32, kPacked = kBlock / 2;

void repack(const std::byte* from, std::byte exponent, std::byte* to) {
  constexpr std::byte kLow{15};
  *to++ = exponent;
  for (std::uint64_t i = 0; i < kPacked / 2; ++i) {
    const std::byte first = from[i], second = from[i + kPacked / 2];
    *to++ = (first & kLow) | second << 4;
    *to++ = first >> 4 | (second & ~kLow);
  }
}

}  // namespace

bool Tensors::has_blocks(const std::string& name) const {
  return expert_layout_ == ExpertLayout::alternate &&
         checkpoint_->find(file_name(name) + "_blocks") != nullptr;
}

Result<const TensorInfo*> Tensors::bytes(const std::string& file_name,
                                         const std::array<std::uint64_t, 4>& dims) {
  const TensorInfo* info = checkpoint_->find(file_name);
  if (info == nullptr) return fail("E_TENSOR", fmt::format("tensor {} is missing", file_name));
  used_.insert(info->name);
  if (info->type != DType::i8) {
    return fail("E_TENSOR", fmt::format("tensor {} has type {}, MXFP4 is expected in U8", file_name,
                                        dtype_info(info->type).name));
  }
  if (info->dims != dims) {
    const std::string first = dims[3] == 1 ? "" : fmt::format("{}, ", dims[3]);
    return fail("E_SHAPE",
                fmt::format("tensor {} has shape {}, the parameters ask for ({}{}, {}, {})",
                            file_name, shape_text(*info), first, dims[2], dims[1], dims[0]));
  }
  return info;
}

Result<Tensor> Tensors::experts_of_blocks(const std::string& name, std::uint64_t n,
                                          std::uint64_t rows, std::uint64_t cols) {
  if (cols % kBlock != 0) {
    return fail("E_SHAPE", fmt::format("tensor {}_blocks has rows of {}, no multiple of {}",
                                       file_name(name), cols, kBlock));
  }
  const std::uint64_t per_row = cols / kBlock;
  ORRERY_TRY(const TensorInfo* blocks,
             bytes(file_name(name) + "_blocks", {kPacked, per_row, rows, n}));
  ORRERY_TRY(const TensorInfo* scales, bytes(file_name(name) + "_scales", {per_row, rows, n, 1}));
  Tensor tensor{DType::mxfp4, rows, cols, nullptr};
  const std::uint64_t matrix_bytes = row_bytes(DType::mxfp4, cols) * rows;
  std::vector<const std::byte*> data(n, nullptr);
  if (blocks->data != nullptr && scales->data != nullptr) {
    std::byte* to = own(matrix_bytes * n);
    tensor.data = to;
    for (std::uint64_t e = 0; e < n; ++e) {
      data[e] = to;
      for (std::uint64_t r = 0; r < rows; ++r) {
        std::uint64_t at = (e * rows + row_in_file(name, r, rows)) * per_row;
        for (std::uint64_t b = 0; b < per_row; ++b, ++at, to += 1 + kPacked) {
          repack(blocks->data + at * kPacked, scales->data[at], to);
        }
      }
      const std::uint64_t expert_bytes = rows * per_row * kPacked;
      checkpoint_->release({blocks->data + e * expert_bytes, expert_bytes});
    }
  }
  experts_.emplace(name, std::move(data));
  return resolved_.emplace(name, tensor).first->second;
}

}  // namespace orrery::model
