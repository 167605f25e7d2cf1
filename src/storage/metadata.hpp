// Typed key/value metadata of a model file. Strings are views into the mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace orrery::storage {

// An array value: exactly one of the vectors is filled, as `kind` says. u8..u64 and i8..i64 arrays
// arrive widened to i64 (a u64 above 2^63-1 in an array is refused at load), floats as f32.
struct MetaArray {
  enum class Kind { strings, integers, floats, bools } kind = Kind::strings;
  std::vector<std::string_view> strings = {};
  std::vector<std::int64_t> integers = {};
  std::vector<float> floats = {};
  std::vector<std::uint8_t> bools = {};
  bool operator==(const MetaArray&) const = default;
  std::size_t size() const {
    return strings.size() + integers.size() + floats.size() + bools.size();
  }
};

// An array where it lies in a mapped file, already checked. It is unpacked only by whoever wants
// it, so that a large array which nobody asks for costs nothing.
struct PackedArray {
  MetaArray::Kind kind = MetaArray::Kind::strings;
  std::uint32_t type = 0;  // of the elements, as the file numbers them
  std::uint64_t count = 0;
  std::span<const std::byte> bytes;  // from the first element on
  MetaArray unpack() const;
  bool operator==(const PackedArray& other) const { return unpack() == other.unpack(); }
};

using MetaValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string_view,
                               MetaArray, PackedArray>;

// What an array value is, in whichever form; nothing for other values.
struct ArrayShape {
  MetaArray::Kind kind;
  std::uint64_t size;
};
std::optional<ArrayShape> array_shape(const MetaValue& value);

class Metadata {
 public:
  // The value, or null when the key is absent.
  const MetaValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Required typed values: E_META with the key, what was found and what is expected.
  // Integers of any width convert when they fit; a float is never taken for an integer.
  Result<std::uint32_t> u32(std::string_view key) const;
  Result<std::int64_t> i64(std::string_view key) const;
  Result<float> f32(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  Result<std::string_view> string(std::string_view key) const;
  // A large array is as large again in memory: keep it no longer than needed.
  Result<MetaArray> array(std::string_view key, MetaArray::Kind kind) const;

  // Optional typed values: the fallback when absent, an error when present with a wrong type.
  Result<std::uint32_t> u32_or(std::string_view key, std::uint32_t fallback) const;
  Result<float> f32_or(std::string_view key, float fallback) const;
  Result<bool> boolean_or(std::string_view key, bool fallback) const;
  Result<std::string_view> string_or(std::string_view key, std::string_view fallback) const;

  // False when the key exists already.
  bool insert(std::string_view key, MetaValue value);
  const std::map<std::string, MetaValue, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, MetaValue, std::less<>> values_;
};

}  // namespace orrery::storage
