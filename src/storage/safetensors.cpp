#include "storage/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.hpp"
#include "storage/byte_reader.hpp"
#include "storage/json_sax.hpp"
#include "storage/limits.hpp"

namespace orrery::storage {
namespace {

struct NamedType {
  std::string_view name;
  DType type;
};

// Bytes without a sign hold packed weights: what they mean their reader knows, here they are I8.
constexpr NamedType kTypes[] = {
    {"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16},
    {"F64", DType::f64}, {"I8", DType::i8},   {"I16", DType::i16},
    {"I32", DType::i32}, {"I64", DType::i64}, {"U8", DType::i8},
};

std::optional<DType> type_named(std::string_view name) {
  for (const NamedType& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

// Collects the tensors of a header; sizes are checked as each tensor ends.
class HeaderEvents final : public JsonEvents {
 public:
  explicit HeaderEvents(std::uint64_t data_bytes) : data_bytes_(data_bytes) {}
  std::vector<TensorInfo> tensors;  // offsets relative to the data

  bool on_key(std::string_view key, std::uint32_t depth) override {
    if (depth == 1) return begin_entry(key);
    if (depth == 2 && !in_metadata_) return begin_field(key);
    return true;
  }

  bool on_open(bool is_object, std::uint32_t depth) override {
    if (depth == 0) {
      return is_object || refuse("E_HEADER", "the header is an array, it must be an object");
    }
    if (depth == 1) {
      return is_object || refuse("E_HEADER", subject() + " is an array, it must be an object");
    }
    if (depth == 2 && in_metadata_) {
      return refuse("E_HEADER", "__metadata__ holds a nested value, only strings are allowed");
    }
    if (field_ == Field::unknown) return true;
    const bool is_list = field_ == Field::shape || field_ == Field::offsets;
    return (is_list && depth == 2 && !is_object) || refuse_field();
  }

  bool on_scalar(const JsonScalar& value, std::uint32_t depth) override {
    if (depth < 2) return refuse("E_HEADER", subject() + " is no object");
    if (in_metadata_) {
      return value.kind == JsonScalar::Kind::string ||
             refuse("E_HEADER", "__metadata__ holds a value that is no string");
    }
    if (field_ == Field::unknown) return true;
    if (depth == 2) return field_ == Field::dtype ? set_dtype(value) : refuse_field();
    if (value.kind != JsonScalar::Kind::natural) return refuse_field();
    return field_ == Field::shape ? add_dim(value.natural) : add_offset(value.natural);
  }

  bool on_close(std::uint32_t depth) override {
    return depth != 1 || in_metadata_ || finish_tensor();
  }

 private:
  enum class Field { dtype, shape, offsets, unknown };

  std::string subject() const {
    return in_metadata_ ? std::string("__metadata__") : "tensor " + in_quotes(tensor_.name);
  }

  bool refuse_field() {
    return refuse("E_HEADER",
                  subject() +
                      " has a bad field: dtype is a string, shape is a list of integers "
                      "from 0 to 2^64-1, data_offsets is a list of two such integers");
  }

  bool begin_entry(std::string_view key) {
    in_metadata_ = key == "__metadata__";
    if (in_metadata_) {
      const bool first = !std::exchange(seen_metadata_, true);
      return first || refuse("E_DUPKEY", "__metadata__ stands here a second time");
    }
    if (key.empty() || key.size() > kMaxSafetensorsNameBytes) {
      return refuse("E_TNAME", fmt::format("a tensor name has {} bytes, allowed are 1 to {}",
                                           key.size(), kMaxSafetensorsNameBytes));
    }
    if (tensors.size() == kMaxTensors) {
      return refuse("E_NTENSORS", fmt::format("more than {} tensors", kMaxTensors));
    }
    tensor_ = TensorInfo{};
    tensor_.name = key;
    shape_.clear();
    offsets_.clear();
    seen_.fill(false);
    return true;
  }

  bool begin_field(std::string_view key) {
    field_ = Field::unknown;
    if (key == "dtype") field_ = Field::dtype;
    if (key == "shape") field_ = Field::shape;
    if (key == "data_offsets") field_ = Field::offsets;
    if (field_ == Field::unknown) return true;
    const bool first = !std::exchange(seen_[static_cast<std::size_t>(field_)], true);
    return first || refuse("E_DUPKEY", fmt::format("{} has the field {} twice", subject(), key));
  }

  bool set_dtype(const JsonScalar& value) {
    if (value.kind != JsonScalar::Kind::string) return refuse_field();
    const std::optional<DType> type = type_named(value.string);
    if (type) {
      tensor_.type = *type;
      return true;
    }
    std::string supported;
    for (const NamedType& entry : kTypes) {
      supported += fmt::format("{}{}", supported.empty() ? "" : ", ", entry.name);
    }
    return refuse(
        "E_DTYPE",
        fmt::format("{} has dtype {}, supported are {}; take the model's files in BF16 or "
                    "F16, or a GGUF file of it",
                    subject(), in_quotes(value.string), supported));
  }

  bool add_dim(std::uint64_t dim) {
    if (shape_.size() == kMaxDims) {
      return refuse("E_NDIMS", fmt::format("{} has more than {} dimensions", subject(), kMaxDims));
    }
    if (dim > kMaxTensorBytes) {
      return refuse("E_DIM", fmt::format("{} has a dimension of {}, at most 2^63-1 is allowed",
                                         subject(), dim));
    }
    shape_.push_back(dim);
    return true;
  }

  bool add_offset(std::uint64_t offset) {
    offsets_.push_back(offset);
    return offsets_.size() <= 2 || refuse_field();
  }

  bool finish_tensor() {
    const bool complete = std::all_of(seen_.begin(), seen_.end(), [](bool seen) { return seen; });
    if (!complete || offsets_.size() != 2) {
      return refuse("E_HEADER",
                    subject() + " is incomplete: dtype, shape and two data_offsets are needed");
    }
    CheckedU64 elements = 1;
    for (const std::uint64_t dim : shape_) elements = checked_mul(elements, dim);
    const CheckedU64 bytes = checked_mul(elements, dtype_info(tensor_.type).block_bytes);
    if (!bytes || *bytes > kMaxTensorBytes) {
      return refuse("E_DIMOVF", subject() + " has more bytes than 2^63-1");
    }
    const std::uint64_t begin = offsets_[0];
    const std::uint64_t end = offsets_[1];
    if (begin > end || end > data_bytes_) {
      return refuse("E_OFFRANGE",
                    fmt::format("{} has data_offsets [{}, {}], the file holds {} bytes of data; "
                                "it is damaged or cut short, fetch it again",
                                subject(), begin, end, data_bytes_));
    }
    if (end - begin != *bytes) {
      return refuse("E_SIZE", fmt::format("{} has {} bytes by its shape and {} by its data_offsets",
                                          subject(), *bytes, end - begin));
    }
    tensor_.bytes = *bytes;
    tensor_.offset = begin;
    tensor_.n_dims = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(shape_.size()));
    tensor_.dims.fill(1);
    std::copy(shape_.rbegin(), shape_.rend(), tensor_.dims.begin());
    tensors.push_back(std::move(tensor_));
    return true;
  }

  std::uint64_t data_bytes_;
  bool in_metadata_ = false;
  bool seen_metadata_ = false;
  Field field_ = Field::unknown;
  std::array<bool, 3> seen_{};  // by Field
  TensorInfo tensor_{};
  std::vector<std::uint64_t> shape_;
  std::vector<std::uint64_t> offsets_;
};

Result<std::string_view> read_header(ByteReader& reader) {
  ORRERY_TRY(const std::uint64_t length, reader.read<std::uint64_t>("the header length"));
  if (length > kMaxSafetensorsHeaderBytes) {
    return reader.error("E_HEADERLEN", 0,
                        fmt::format("the header has {} bytes, at most {} are allowed", length,
                                    kMaxSafetensorsHeaderBytes));
  }
  ORRERY_TRY(const std::string_view header, reader.take(length, "the header"));
  if (!header.starts_with('{')) {
    return reader.error("E_HEADER", 8,
                        fmt::format("the header begins with {}, a safetensors header begins "
                                    "with \"{{\"",
                                    in_quotes(header.substr(0, 4))));
  }
  return header;
}

Status check_unique(std::span<const TensorInfo> tensors, std::string_view label) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin == names.end()) return {};
  return fail_at("E_DUPTENSOR", label, 8,
                 fmt::format("the tensor {} is listed twice, names are unique", in_quotes(*twin)));
}

// Sorts the tensors by place and checks that they leave no byte out and use none twice.
Status tile(std::vector<TensorInfo>& tensors, std::span<const std::byte> data,
            std::uint64_t data_start, std::string_view label) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.offset == b.offset ? a.bytes < b.bytes : a.offset < b.offset;
  });
  std::uint64_t expected = 0;
  for (TensorInfo& tensor : tensors) {
    if (tensor.offset != expected) {
      return fail_at(tensor.offset < expected ? "E_OVERLAP" : "E_GAP", label, data_start + expected,
                     fmt::format("tensor {} begins at data offset {}, the tensors before it end "
                                 "at {}",
                                 in_quotes(tensor.name), tensor.offset, expected));
    }
    expected += tensor.bytes;  // no wrap: the end is within the file
    tensor.data = data.data() + tensor.offset;
    tensor.offset += data_start;
  }
  if (expected != data.size()) {
    return fail_at(
        "E_GAP", label, data_start + expected,
        fmt::format("{} bytes follow the last tensor, none are allowed", data.size() - expected));
  }
  return {};
}

}  // namespace

Result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> bytes,
                                                  std::string_view label) {
  ByteReader reader(bytes, std::string(label));
  ORRERY_TRY(const std::string_view header, read_header(reader));
  HeaderEvents events(reader.remaining());
  ORRERY_TRY_VOID(events.parse(header, label, sizeof(std::uint64_t)));
  ORRERY_TRY_VOID(check_unique(events.tensors, label));
  const std::uint64_t start = reader.position();
  ORRERY_TRY_VOID(tile(events.tensors, bytes.subspan(start), start, label));
  return std::move(events.tensors);
}

}  // namespace orrery::storage
