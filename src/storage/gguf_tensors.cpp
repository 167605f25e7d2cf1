#include "storage/gguf_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/checked.hpp"
#include "storage/gguf.hpp"
#include "storage/limits.hpp"

namespace orrery::storage {
namespace {

// Types that GGUF files name and this program does not read.
std::string_view foreign_type_name(std::uint32_t id) {
  switch (id) {
    case 4:
      return "Q4_2, removed from the format";
    case 5:
      return "Q4_3, removed from the format";
    case 9:
      return "Q8_1";
    case 15:
      return "Q8_K";
    case 16:
      return "IQ2_XXS";
    case 17:
      return "IQ2_XS";
    case 18:
      return "IQ3_XXS";
    case 19:
      return "IQ1_S";
    case 21:
      return "IQ3_S";
    case 22:
      return "IQ2_S";
    case 29:
      return "IQ1_M";
    case 34:
      return "TQ1_0";
    case 35:
      return "TQ2_0";
    default:
      return "unknown";
  }
}

std::string supported_types() {
  std::string list;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const std::optional<DType> type = dtype_from_id(id);
    if (!type) continue;
    if (!list.empty()) list += ", ";
    list += dtype_info(*type).name;
  }
  return list;
}

Result<std::string_view> read_name(ByteReader& reader) {
  const std::uint64_t start = reader.position();
  ORRERY_TRY(const std::uint64_t length, reader.read<std::uint64_t>("a tensor name length"));
  if (length > kMaxStringBytes) {
    return reader.error("E_STRLEN", start,
                        fmt::format("a tensor name has a length of {} bytes, at most {} are "
                                    "allowed",
                                    length, kMaxTensorNameBytes));
  }
  if (length == 0 || length > kMaxTensorNameBytes) {
    return reader.error("E_TNAME", start,
                        fmt::format("a tensor name has {} bytes, allowed are 1 to {}", length,
                                    kMaxTensorNameBytes));
  }
  ORRERY_TRY(const std::string_view name, reader.take(length, "a tensor name"));
  const auto is_control = [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_control)) {
    return reader.error("E_TNAME", start + sizeof(length),
                        fmt::format("the tensor name {} has control characters", in_quotes(name)));
  }
  return name;
}

Status read_dims(ByteReader& reader, TensorInfo& tensor) {
  const std::uint64_t start = reader.position();
  ORRERY_TRY(tensor.n_dims, reader.read<std::uint32_t>("a number of dimensions"));
  if (tensor.n_dims == 0 || tensor.n_dims > kMaxDims) {
    return reader.error("E_NDIMS", start,
                        fmt::format("tensor {} has {} dimensions, allowed are 1 to {}",
                                    in_quotes(tensor.name), tensor.n_dims, kMaxDims));
  }
  CheckedU64 elements = 1;
  for (std::uint32_t i = 0; i < tensor.n_dims; ++i) {
    const std::uint64_t field = reader.position();
    ORRERY_TRY(const std::uint64_t dim, reader.read<std::uint64_t>("a dimension"));
    if (dim == 0) {
      return reader.error("E_ZERODIM", field,
                          fmt::format("tensor {} has a dimension of 0, at least 1 is needed",
                                      in_quotes(tensor.name)));
    }
    if (dim > kMaxTensorBytes) {
      return reader.error("E_DIM", field,
                          fmt::format("tensor {} has a dimension of {}, at most 2^63-1 is allowed",
                                      in_quotes(tensor.name), dim));
    }
    tensor.dims[i] = dim;
    elements = checked_mul(elements, dim);
  }
  if (!elements || *elements > kMaxTensorBytes) {
    return reader.error(
        "E_DIMOVF", start + 4,
        fmt::format("tensor {} has more elements than 2^63-1", in_quotes(tensor.name)));
  }
  return {};
}

Status read_type_and_size(ByteReader& reader, TensorInfo& tensor) {
  const std::uint64_t start = reader.position();
  ORRERY_TRY(const std::uint32_t id, reader.read<std::uint32_t>("a tensor type"));
  const bool packed = (id & kPackedTypes) == kPackedTypes;
  const std::optional<DType> type = dtype_from_id(packed ? id - kPackedTypes : id);
  if (type && packed && !is_packable(*type, tensor.dims[1], tensor.dims[0])) {
    return reader.error("E_TTYPE", start,
                        fmt::format("tensor {} of type {} has no packed layout",
                                    in_quotes(tensor.name), dtype_info(*type).name));
  }
  tensor.layout = packed ? Layout::packed : Layout::file;
  if (!type) {
    return reader.error(
        "E_TTYPE", start,
        fmt::format("tensor {} has type {} ({}), supported are {}", in_quotes(tensor.name), id,
                    foreign_type_name(id), supported_types()));
  }
  tensor.type = *type;
  const DTypeInfo& info = dtype_info(*type);
  if (tensor.dims[0] % info.block_len != 0) {
    return reader.error(
        "E_BLOCK", start,
        fmt::format("tensor {} of type {} has rows of {} elements, they must be "
                    "a multiple of {}",
                    in_quotes(tensor.name), info.name, tensor.dims[0], info.block_len));
  }
  const CheckedU64 bytes = checked_mul(tensor.n_elements() / info.block_len, info.block_bytes);
  if (!bytes || *bytes > kMaxTensorBytes) {
    return reader.error(
        "E_SIZEOVF", start,
        fmt::format("tensor {} has more bytes than 2^63-1", in_quotes(tensor.name)));
  }
  tensor.bytes = *bytes;
  return {};
}

std::string range_text(const TensorInfo& tensor, std::uint64_t data_bytes) {
  return fmt::format(
      "tensor {} has {} bytes at data offset {}, the file holds {} bytes of data; "
      "it is damaged or cut short, fetch it again",
      in_quotes(tensor.name), tensor.bytes, tensor.offset, data_bytes);
}

}  // namespace

Result<GgufTable> read_gguf_table(ByteReader& reader, std::uint64_t n) {
  GgufTable table;
  for (std::uint64_t i = 0; i < n; ++i) {
    TensorInfo tensor{};
    tensor.dims.fill(1);
    ORRERY_TRY(tensor.name, read_name(reader));
    ORRERY_TRY_VOID(read_dims(reader, tensor));
    ORRERY_TRY_VOID(read_type_and_size(reader, tensor));
    table.offset_fields.push_back(reader.position());
    ORRERY_TRY(tensor.offset, reader.read<std::uint64_t>("a tensor offset"));
    table.tensors.push_back(std::move(tensor));
  }
  return table;
}

Result<std::uint64_t> place_gguf_tensors(const ByteReader& reader, std::uint64_t data_start,
                                         std::uint64_t alignment, GgufTable& table) {
  const std::uint64_t data_bytes = reader.bytes().size() - data_start;
  std::uint64_t expected = 0;  // data offset at which the next tensor must begin
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    TensorInfo& tensor = table.tensors[i];
    const std::uint64_t field = table.offset_fields[i];
    if (tensor.offset % alignment != 0) {
      return reader.error("E_OFFALIGN", field,
                          fmt::format("tensor {} has offset {}, it must be a multiple of {}",
                                      in_quotes(tensor.name), tensor.offset, alignment));
    }
    const CheckedU64 tensor_end = checked_add(tensor.offset, tensor.bytes);
    if (!tensor_end || *tensor_end > data_bytes) {
      return reader.error("E_OFFRANGE", field, range_text(tensor, data_bytes));
    }
    if (tensor.offset != expected) {
      return reader.error(tensor.offset < expected ? "E_OVERLAP" : "E_GAP", field,
                          fmt::format("tensor {} has offset {}, the tensors before it end at {}",
                                      in_quotes(tensor.name), tensor.offset, expected));
    }
    end = *tensor_end;
    expected = align_up(end, alignment);  // no wrap: end is within the file
    tensor.offset += data_start;
    tensor.data = reader.bytes().data() + tensor.offset;
  }
  return data_start + end;
}

}  // namespace orrery::storage
