#include "storage/gguf_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "storage/describe.hpp"
#include "storage/gguf.hpp"
#include "storage/gguf_metadata.hpp"
#include "storage/limits.hpp"

namespace orrery::storage {
namespace {

// Appends what a GGUF header is made of to a byte string.
class HeadWriter {
 public:
  template <class T>
  void number(T value) {
    raw({reinterpret_cast<const char*>(&value), sizeof(T)});
  }
  void raw(std::string_view bytes) { bytes_.append(bytes); }
  void text(std::string_view value) {
    number(std::uint64_t{value.size()});
    raw(value);
  }
  void type(GgufType type) { number(static_cast<std::uint32_t>(type)); }
  template <class T>
  void scalar(GgufType id, T value) {
    type(id);
    number(value);
  }
  void array(GgufType id, std::uint64_t count) {
    type(GgufType::array);
    type(id);
    number(count);
  }
  std::string take() { return std::move(bytes_); }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

// Bytes of the elements of an array in its file.
std::span<const std::byte> element_bytes(const PackedArray& packed) {
  if (static_cast<GgufType>(packed.type) == GgufType::string) {
    std::uint64_t size = 0;
    for (std::uint64_t i = 0; i < packed.count; ++i) {
      size += sizeof(std::uint64_t) + load_at<std::uint64_t>(packed.bytes, size);
    }
    return packed.bytes.first(size);
  }
  constexpr std::uint64_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  ORRERY_CHECK(packed.type < std::size(kSizes));
  return packed.bytes.first(packed.count * kSizes[packed.type]);
}

struct WriteValue {
  HeadWriter& out;

  void operator()(bool value) const {
    out.scalar(GgufType::boolean, static_cast<std::uint8_t>(value));
  }
  void operator()(std::int64_t value) const {
    if (std::in_range<std::int32_t>(value)) {
      return out.scalar(GgufType::i32, static_cast<std::int32_t>(value));
    }
    out.scalar(GgufType::i64, value);
  }
  void operator()(std::uint64_t value) const {
    if (std::in_range<std::uint32_t>(value)) {
      return out.scalar(GgufType::u32, static_cast<std::uint32_t>(value));
    }
    out.scalar(GgufType::u64, value);
  }
  void operator()(double value) const {
    const bool fits = std::abs(value) <= std::numeric_limits<float>::max();
    const float narrow = fits ? static_cast<float>(value) : 0.0F;
    if (static_cast<double>(narrow) == value) return out.scalar(GgufType::f32, narrow);
    out.scalar(GgufType::f64, value);
  }
  void operator()(std::string_view value) const {
    out.type(GgufType::string);
    out.text(value);
  }
  void operator()(const MetaArray& array) const {
    switch (array.kind) {
      case MetaArray::Kind::strings:
        out.array(GgufType::string, array.strings.size());
        for (const std::string_view text : array.strings) out.text(text);
        return;
      case MetaArray::Kind::integers:
        return integers(array.integers);
      case MetaArray::Kind::floats:
        out.array(GgufType::f32, array.floats.size());
        for (const float x : array.floats) out.number(x);
        return;
      case MetaArray::Kind::bools:
        out.array(GgufType::boolean, array.bools.size());
        for (const std::uint8_t x : array.bools) out.number(x);
        return;
    }
  }
  void operator()(const PackedArray& packed) const {
    out.array(static_cast<GgufType>(packed.type), packed.count);
    const std::span<const std::byte> bytes = element_bytes(packed);
    out.raw({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

 private:
  void integers(const std::vector<std::int64_t>& values) const {
    const bool narrow =
        std::ranges::all_of(values, [](std::int64_t x) { return std::in_range<std::int32_t>(x); });
    out.array(narrow ? GgufType::i32 : GgufType::i64, values.size());
    for (const std::int64_t x : values) {
      if (narrow) {
        out.number(static_cast<std::int32_t>(x));
      } else {
        out.number(x);
      }
    }
  }
};

Status check_sizes(const Metadata& metadata, std::span<const GgufTensor> tensors) {
  for (const auto& [key, value] : metadata.all()) {
    const auto* text = std::get_if<std::string_view>(&value);
    if (key.size() > kMaxKeyBytes || (text != nullptr && text->size() > kMaxStringBytes)) {
      return fail("E_META", fmt::format("key {} is too long for a GGUF file", in_quotes(key)));
    }
  }
  for (const GgufTensor& tensor : tensors) {
    if (tensor.name.size() <= kMaxTensorNameBytes) continue;
    return fail("E_META",
                fmt::format("tensor {}: the name has {} bytes, GGUF allows {}",
                            in_quotes(tensor.name), tensor.name.size(), kMaxTensorNameBytes));
  }
  return {};
}

std::string head_of(const Metadata& metadata, std::span<const GgufTensor> tensors,
                    std::uint64_t alignment) {
  constexpr std::uint32_t kVersion = 3;
  HeadWriter out;
  out.raw("GGUF");
  out.number(kVersion);
  out.number(std::uint64_t{tensors.size()});
  out.number(std::uint64_t{metadata.all().size()});
  for (const auto& [key, value] : metadata.all()) {
    out.text(key);
    std::visit(WriteValue{out}, value);
  }
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    out.text(tensor.name);
    out.number(tensor.n_dims);
    for (std::uint32_t i = 0; i < tensor.n_dims; ++i) out.number(tensor.dims[i]);
    out.number(static_cast<std::uint32_t>(tensor.type) +
               (tensor.layout == Layout::packed ? kPackedTypes : 0));
    out.number(offset);
    offset = align_up(offset + tensor.bytes(), alignment);
  }
  return out.take();
}

}  // namespace

Result<GgufWriter> GgufWriter::create(const std::string& path, const Metadata& metadata,
                                      std::vector<GgufTensor> tensors, Io& io) {
  ORRERY_TRY_VOID(check_sizes(metadata, tensors));
  GgufWriter writer;
  ORRERY_TRY(writer.alignment_,
             metadata.u32_or("general.alignment", static_cast<std::uint32_t>(kDefaultAlignment)));
  ORRERY_CHECK(writer.alignment_ > 0 && writer.alignment_ <= kMaxAlignment);
  writer.tensors_ = std::move(tensors);
  ORRERY_TRY(writer.file_, io.create(path));
  writer.head_ = head_of(metadata, writer.tensors_, writer.alignment_);
  writer.head_.resize(align_up(writer.head_.size(), writer.alignment_));
  ORRERY_TRY_VOID(writer.write(writer.head()));
  writer.begin_tensor();
  return writer;
}

Status GgufWriter::write(std::span<const std::byte> bytes) {
  written_ += bytes.size();
  return file_->append(bytes);
}

Status GgufWriter::pad() {
  const std::vector<std::byte> zeros(align_up(written_, alignment_) - written_);
  return zeros.empty() ? Status{} : write(zeros);
}

Status GgufWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ORRERY_CHECK(tensor_ < tensors_.size());
    const std::uint64_t part = std::min<std::uint64_t>(left_, bytes.size());
    ORRERY_TRY_VOID(write(bytes.first(part)));
    bytes = bytes.subspan(part);
    left_ -= part;
    if (left_ > 0) continue;
    ORRERY_TRY_VOID(pad());
    ++tensor_;
    begin_tensor();
  }
  return {};
}

void GgufWriter::begin_tensor() {
  while (tensor_ < tensors_.size() && tensors_[tensor_].bytes() == 0) ++tensor_;
  left_ = tensor_ < tensors_.size() ? tensors_[tensor_].bytes() : 0;
}

Status GgufWriter::append_tail(std::span<const std::byte> bytes) {
  ORRERY_CHECK(tensor_ == tensors_.size());
  return write(bytes);
}

Status GgufWriter::finish() {
  ORRERY_CHECK(tensor_ == tensors_.size());
  return file_->finish();
}

}  // namespace orrery::storage
