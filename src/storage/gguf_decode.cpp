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
void decode_elements(Bytes bytes, const GgufPair& pair, std::vector<T>& out) {
  out.resize(pair.count);
  for (std::uint64_t i = 0; i < pair.count; ++i) {
    out[i] = static_cast<T>(load_at<Stored>(bytes, pair.value + i * sizeof(Stored)));
  }
}

void decode_strings(Bytes bytes, const GgufPair& pair, std::vector<std::string_view>& out) {
  out.resize(pair.count);
  std::uint64_t byte = pair.value;
  for (std::string_view& text : out) {
    text = string_at(bytes, byte);
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

MetaArray decode_array(Bytes bytes, const GgufPair& pair) {
  ORRERY_CHECK(pair.type != GgufType::array);  // refused by the scan
  MetaArray array;
  array.kind = array_kind(pair.type);
  switch (pair.type) {
    case GgufType::u8:
      decode_elements<std::uint8_t>(bytes, pair, array.integers);
      break;
    case GgufType::i8:
      decode_elements<std::int8_t>(bytes, pair, array.integers);
      break;
    case GgufType::u16:
      decode_elements<std::uint16_t>(bytes, pair, array.integers);
      break;
    case GgufType::i16:
      decode_elements<std::int16_t>(bytes, pair, array.integers);
      break;
    case GgufType::u32:
      decode_elements<std::uint32_t>(bytes, pair, array.integers);
      break;
    case GgufType::i32:
      decode_elements<std::int32_t>(bytes, pair, array.integers);
      break;
    case GgufType::u64:
    case GgufType::i64:
      decode_elements<std::int64_t>(bytes, pair, array.integers);
      break;
    case GgufType::f32:
      decode_elements<float>(bytes, pair, array.floats);
      break;
    case GgufType::f64:
      decode_elements<double>(bytes, pair, array.floats);
      break;
    case GgufType::boolean:
      decode_elements<std::uint8_t>(bytes, pair, array.bools);
      break;
    case GgufType::string:
      decode_strings(bytes, pair, array.strings);
      break;
    case GgufType::array:
      break;
  }
  return array;
}

}  // namespace

Metadata decode_gguf_pairs(Bytes bytes, std::span<const GgufPair> pairs) {
  Metadata metadata;
  for (const GgufPair& pair : pairs) {
    MetaValue value =
        pair.is_array ? MetaValue(decode_array(bytes, pair)) : decode_scalar(bytes, pair);
    ORRERY_CHECK(metadata.insert(pair.key, std::move(value)));
  }
  return metadata;
}

}  // namespace orrery::storage
