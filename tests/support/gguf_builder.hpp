// Builds GGUF files in memory, sound ones and (through the raw_ functions) broken ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/checked.hpp"
#include "tensor/dtype.hpp"

namespace orrery::test {

// Appends little-endian numbers and GGUF strings to a byte string.
class ByteWriter {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  ByteWriter& number(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  ByteWriter& raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  // u64 length and the bytes.
  ByteWriter& text(std::string_view value) {
    number(static_cast<std::uint64_t>(value.size()));
    return raw(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class GgufBuilder {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // of the data; use set_alignment to also write the key

  // Scalars: the type of the value chooses the GGUF type.
  template <class T>
    requires std::is_arithmetic_v<T>
  GgufBuilder& add_kv(std::string_view key, T value) {
    ByteWriter writer;
    if constexpr (std::is_same_v<T, bool>) {
      writer.number(static_cast<std::uint8_t>(value));
    } else {
      writer.number(value);
    }
    return raw_kv(key, type_id<T>(), writer.bytes());
  }
  GgufBuilder& add_kv(std::string_view key, std::string_view value) {
    return raw_kv(key, kString, ByteWriter().text(value).bytes());
  }
  GgufBuilder& add_kv(std::string_view key, const char* value) {
    return add_kv(key, std::string_view(value));
  }
  // Arrays of numbers; bools as std::vector<bool>.
  template <class T>
  GgufBuilder& add_kv(std::string_view key, const std::vector<T>& values) {
    ByteWriter writer;
    begin_array(writer, type_id<T>(), values.size());
    for (const auto& value : values) {
      if constexpr (std::is_same_v<T, bool>) {
        writer.number(static_cast<std::uint8_t>(value));
      } else {
        writer.number(static_cast<T>(value));
      }
    }
    return raw_kv(key, kArray, writer.bytes());
  }
  GgufBuilder& add_kv(std::string_view key, const std::vector<std::string>& values) {
    ByteWriter writer;
    begin_array(writer, kString, values.size());
    for (const std::string& value : values) writer.text(value);
    return raw_kv(key, kArray, writer.bytes());
  }
  // A pair with any type id and value bytes.
  GgufBuilder& raw_kv(std::string_view key, std::uint32_t type, std::string_view value) {
    pairs_.text(key).number(type).raw(value);
    ++n_pairs_;
    return *this;
  }

  GgufBuilder& set_alignment(std::uint32_t value) {
    alignment = value;
    return add_kv("general.alignment", value);
  }

  // dims[0] is the contiguous dimension. `bytes` must have the size that type and dims need.
  GgufBuilder& add_tensor(std::string_view name, DType type, const std::vector<std::uint64_t>& dims,
                          std::string_view bytes) {
    raw_tensor(name, dims, static_cast<std::uint32_t>(type), data_.size());
    data_.append(bytes);
    data_.resize(align_up(data_.size(), alignment), '\0');
    return *this;
  }
  template <class T>
  GgufBuilder& add_tensor(std::string_view name, DType type, const std::vector<std::uint64_t>& dims,
                          const std::vector<T>& values) {
    return add_tensor(
        name, type, dims,
        std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }
  // Only the table's entry, with any content.
  GgufBuilder& raw_tensor(std::string_view name, const std::vector<std::uint64_t>& dims,
                          std::uint32_t type, std::uint64_t offset) {
    infos_.text(name).number(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) infos_.number(dim);
    infos_.number(type).number(offset);
    ++n_tensors_;
    return *this;
  }
  GgufBuilder& raw_data(std::string_view bytes) {
    data_.append(bytes);
    return *this;
  }

  // Header, pairs and table, without padding and data.
  std::string head() const {
    ByteWriter writer;
    writer.raw("GGUF").number(version).number(n_tensors_).number(n_pairs_);
    return writer.raw(pairs_.bytes()).raw(infos_.bytes()).bytes();
  }
  std::string build() const {
    std::string file = head();
    if (n_tensors_ != 0 || !data_.empty()) file.resize(align_up(file.size(), alignment), '\0');
    return file + data_;
  }

  static constexpr std::uint32_t kString = 8;
  static constexpr std::uint32_t kArray = 9;

  // The GGUF type id of a C++ type.
  template <class T>
  static constexpr std::uint32_t type_id() {
    if constexpr (std::is_same_v<T, bool>) return 7;
    if constexpr (std::is_same_v<T, float>) return 6;
    if constexpr (std::is_same_v<T, double>) return 12;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      constexpr std::uint32_t by_size[] = {0, 0, 2, 0, 4, 0, 0, 0, 10};
      return by_size[sizeof(T)] + (std::is_signed_v<T> ? 1 : 0);
    }
  }

 private:
  static void begin_array(ByteWriter& writer, std::uint32_t type, std::uint64_t count) {
    writer.number(type).number(count);
  }

  ByteWriter pairs_;
  ByteWriter infos_;
  std::string data_;
  std::uint64_t n_pairs_ = 0;
  std::uint64_t n_tensors_ = 0;
};

}  // namespace orrery::test
