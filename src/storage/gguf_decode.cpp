// Values of the key/value part of a GGUF file, once it is known to be sound.
#include <utility>

#include "base/check.hpp"
#include "storage/gguf_metadata.hpp"

namespace orrery::storage {
namespace {

using Bytes = std::span<const std::byte>;

std::string_view string_at(Bytes bytes, std::uint64_t byte) {
  const auto length = load_at<std::uint64_t>(bytes, byte);
  const Bytes text = bytes.subspan(byte + sizeof(length), length);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

MetaValue decode_scalar(Bytes bytes, const GgufPair& pair) {
  ORRERY_CHECK(pair.type != GgufType::array);
  const auto natural = [](auto value) { return MetaValue(static_cast<std::uint64_t>(value)); };
  const auto integer = [](auto value) { return MetaValue(static_cast<std::int64_t>(value)); };
  switch (pair.type) {
    case GgufType::u8:
      return natural(load_at<std::uint8_t>(bytes, pair.value));
    case GgufType::u16:
      return natural(load_at<std::uint16_t>(bytes, pair.value));
    case GgufType::u32:
      return natural(load_at<std::uint32_t>(bytes, pair.value));
    case GgufType::u64:
      return natural(load_at<std::uint64_t>(bytes, pair.value));
    case GgufType::i8:
      return integer(load_at<std::int8_t>(bytes, pair.value));
    case GgufType::i16:
      return integer(load_at<std::int16_t>(bytes, pair.value));
    case GgufType::i32:
      return integer(load_at<std::int32_t>(bytes, pair.value));
    case GgufType::i64:
      return integer(load_at<std::int64_t>(bytes, pair.value));
    case GgufType::f32:
      return MetaValue(static_cast<double>(load_at<float>(bytes, pair.value)));
    case GgufType::f64:
      return MetaValue(load_at<double>(bytes, pair.value));
    case GgufType::boolean:
      return MetaValue(load_at<std::uint8_t>(bytes, pair.value) != 0);
    case GgufType::string:
      return MetaValue(string_at(bytes, pair.value));
    case GgufType::array:
      break;
  }
  std::unreachable();
}

// Fills `out` with the elements, each read as a Stored.
template <class Stored, class T>
void unpack_elements(const PackedArray& packed, std::vector<T>& out) {
  out.resize(packed.count);
  for (std::uint64_t i = 0; i < packed.count; ++i) {
    out[i] = static_cast<T>(load_at<Stored>(packed.bytes, i * sizeof(Stored)));
  }
}

void unpack_strings(const PackedArray& packed, std::vector<std::string_view>& out) {
  out.resize(packed.count);
  std::uint64_t byte = 0;
  for (std::string_view& text : out) {
    text = string_at(packed.bytes, byte);
    byte += sizeof(std::uint64_t) + text.size();
  }
}

MetaArray::Kind array_kind(GgufType type) {
  switch (type) {
    case GgufType::string:
      return MetaArray::Kind::strings;
    case GgufType::f32:
    case GgufType::f64:
      return MetaArray::Kind::floats;
    case GgufType::boolean:
      return MetaArray::Kind::bools;
    default:
      return MetaArray::Kind::integers;
  }
}

PackedArray pack_array(Bytes bytes, const GgufPair& pair) {
  ORRERY_CHECK(pair.type != GgufType::array);  // refused by the scan
  return {array_kind(pair.type), static_cast<std::uint32_t>(pair.type), pair.count,
          bytes.subspan(pair.value)};
}

}  // namespace

MetaArray PackedArray::unpack() const {
  MetaArray array;
  array.kind = kind;
  switch (static_cast<GgufType>(type)) {
    case GgufType::u8:
      unpack_elements<std::uint8_t>(*this, array.integers);
      break;
    case GgufType::i8:
      unpack_elements<std::int8_t>(*this, array.integers);
      break;
    case GgufType::u16:
      unpack_elements<std::uint16_t>(*this, array.integers);
      break;
    case GgufType::i16:
      unpack_elements<std::int16_t>(*this, array.integers);
      break;
    case GgufType::u32:
      unpack_elements<std::uint32_t>(*this, array.integers);
      break;
    case GgufType::i32:
      unpack_elements<std::int32_t>(*this, array.integers);
      break;
    case GgufType::u64:
    case GgufType::i64:
      unpack_elements<std::int64_t>(*this, array.integers);
      break;
    case GgufType::f32:
      unpack_elements<float>(*this, array.floats);
      break;
    case GgufType::f64:
      unpack_elements<double>(*this, array.floats);
      break;
    case GgufType::boolean:
      unpack_elements<std::uint8_t>(*this, array.bools);
      break;
    case GgufType::string:
      unpack_strings(*this, array.strings);
      break;
    case GgufType::array:
      break;  // refused by the scan
  }
  return array;
}

Metadata decode_gguf_pairs(Bytes bytes, std::span<const GgufPair> pairs) {
  Metadata metadata;
  for (const GgufPair& pair : pairs) {
    MetaValue value =
        pair.is_array ? MetaValue(pack_array(bytes, pair)) : decode_scalar(bytes, pair);
    ORRERY_CHECK(metadata.insert(pair.key, std::move(value)));
  }
  return metadata;
}

}  // namespace orrery::storage
