// Checks of the key/value part of a GGUF file.
#include <fmt/format.h>

#include <algorithm>

#include "base/checked.hpp"
#include "storage/gguf_metadata.hpp"
#include "storage/limits.hpp"

namespace orrery::storage {
namespace {

// Bytes of one value of a fixed size; 0 for strings and arrays.
std::uint64_t value_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      break;
  }
  return 0;
}

Result<GgufType> read_type(ByteReader& reader, std::string_view what) {
  const std::uint64_t start = reader.position();
  ORRERY_TRY(const std::uint32_t id, reader.read<std::uint32_t>(what));
  if (id > static_cast<std::uint32_t>(GgufType::f64)) {
    return reader.error("E_KVTYPE", start, fmt::format("{} {}, allowed are 0 to 12", what, id));
  }
  return static_cast<GgufType>(id);
}

Result<std::string_view> read_string(ByteReader& reader, std::uint64_t limit,
                                     std::string_view what) {
  const std::uint64_t start = reader.position();
  ORRERY_TRY(const std::uint64_t length, reader.read<std::uint64_t>("a string length"));
  if (length > limit) {
    return reader.error(
        "E_STRLEN", start,
        fmt::format("{} has a length of {} bytes, at most {} are allowed", what, length, limit));
  }
  return reader.take(length, what);
}

Result<std::string_view> read_key(ByteReader& reader) {
  ORRERY_TRY(const std::string_view key, read_string(reader, kMaxKeyBytes, "a key"));
  const auto printable = [](char c) { return c >= 0x20 && c < 0x7f; };
  if (key.empty() || !std::all_of(key.begin(), key.end(), printable)) {
    return reader.error("E_KEY", reader.position() - key.size(),
                        fmt::format("the key {}, allowed are one or more printable ASCII "
                                    "characters",
                                    in_quotes(key)));
  }
  return key;
}

Status check_bools(const ByteReader& reader, const GgufPair& pair) {
  for (std::uint64_t i = 0; i < pair.count; ++i) {
    const auto value = load_at<std::uint8_t>(reader.bytes(), pair.value + i);
    if (value > 1) {
      return reader.error(
          "E_BOOL", pair.value + i,
          fmt::format("key {} has a bool of {}, allowed are 0 and 1", in_quotes(pair.key), value));
    }
  }
  return {};
}

// Arrays of integers are decoded to i64.
Status check_u64s(const ByteReader& reader, const GgufPair& pair) {
  for (std::uint64_t i = 0; i < pair.count; ++i) {
    const auto value = load_at<std::uint64_t>(reader.bytes(), pair.value + 8 * i);
    if (value >> 63 != 0) {
      return reader.error("E_KVRANGE", pair.value + 8 * i,
                          fmt::format("key {} has an element {}, at most 2^63-1 is allowed",
                                      in_quotes(pair.key), value));
    }
  }
  return {};
}

Status skip_strings(ByteReader& reader, const GgufPair& pair) {
  if (pair.count > reader.remaining() / sizeof(std::uint64_t)) {
    return reader.truncated(fmt::format("key {} with {} strings", in_quotes(pair.key), pair.count),
                            pair.count * sizeof(std::uint64_t));
  }
  for (std::uint64_t i = 0; i < pair.count; ++i) {
    if (reader.skip_string(kMaxStringBytes)) continue;
    ORRERY_TRY([[maybe_unused]] const std::string_view broken,
               read_string(reader, kMaxStringBytes, "a string"));
  }
  return {};
}

// Checks `pair.count` values of `pair.type` from the current position on, and steps over them.
Status skip_values(ByteReader& reader, const GgufPair& pair) {
  if (pair.type == GgufType::string) return skip_strings(reader, pair);
  // No overflow: at most 2^26 elements of 8 bytes.
  const std::uint64_t bytes = pair.count * value_bytes(pair.type);
  if (bytes > reader.remaining()) {
    return reader.truncated(fmt::format("the value of key {}", in_quotes(pair.key)), bytes);
  }
  ORRERY_TRY([[maybe_unused]] const std::string_view skipped, reader.take(bytes, "a value"));
  if (pair.type == GgufType::boolean) return check_bools(reader, pair);
  if (pair.type == GgufType::u64 && pair.is_array) return check_u64s(reader, pair);
  return {};
}

Result<GgufPair> scan_pair(ByteReader& reader) {
  ORRERY_TRY(const std::string_view key, read_key(reader));
  ORRERY_TRY(const GgufType type, read_type(reader, "a value type"));
  GgufPair pair{key, type, type == GgufType::array, 1, 0};
  if (pair.is_array) {
    const std::uint64_t start = reader.position();
    ORRERY_TRY(pair.type, read_type(reader, "an element type"));
    if (pair.type == GgufType::array) {
      return reader.error("E_NESTED", start,
                          fmt::format("key {} is an array of arrays, allowed are arrays of "
                                      "numbers, bools or strings",
                                      in_quotes(key)));
    }
    ORRERY_TRY(pair.count, reader.read<std::uint64_t>("an array length"));
    if (pair.count > kMaxArrayElements) {
      return reader.error("E_ARRLEN", start + 4,
                          fmt::format("key {} has {} elements, at most {} are allowed",
                                      in_quotes(key), pair.count, kMaxArrayElements));
    }
  }
  pair.value = reader.position();
  ORRERY_TRY_VOID(skip_values(reader, pair));
  if (reader.position() > kMaxMetadataBytes) {
    return reader.error("E_METASIZE", pair.value,
                        fmt::format("the metadata passes byte {}, at most {} are allowed",
                                    reader.position(), kMaxMetadataBytes));
  }
  return pair;
}

Status check_unique(const ByteReader& reader, std::span<const GgufPair> pairs) {
  std::vector<std::string_view> keys;
  keys.reserve(pairs.size());
  for (const GgufPair& pair : pairs) keys.push_back(pair.key);
  // Equal keys stand in file order, so that the second one is named.
  std::sort(keys.begin(), keys.end(), [](std::string_view a, std::string_view b) {
    const auto order = a <=> b;
    return order == 0 ? a.data() < b.data() : order < 0;
  });
  const auto twin = std::adjacent_find(keys.begin(), keys.end());
  if (twin == keys.end()) return {};
  const auto* start = reinterpret_cast<const char*>(reader.bytes().data());
  return reader.error(
      "E_DUPKEY", static_cast<std::uint64_t>((twin + 1)->data() - start),
      fmt::format("the key {} stands here a second time, keys are unique", in_quotes(*twin)));
}

}  // namespace

Result<std::vector<GgufPair>> scan_gguf_pairs(ByteReader& reader, std::uint64_t n) {
  std::vector<GgufPair> pairs;
  for (std::uint64_t i = 0; i < n; ++i) {
    ORRERY_TRY(const GgufPair pair, scan_pair(reader));
    pairs.push_back(pair);
  }
  ORRERY_TRY_VOID(check_unique(reader, pairs));
  return pairs;
}

Result<std::uint64_t> gguf_alignment(const ByteReader& reader, std::span<const GgufPair> pairs) {
  const auto pair = std::find_if(pairs.begin(), pairs.end(), [](const GgufPair& candidate) {
    return candidate.key == "general.alignment";
  });
  if (pair == pairs.end()) return kDefaultAlignment;
  if (pair->type != GgufType::u32 || pair->is_array) {
    return reader.error("E_ALIGNTYPE", pair->value,
                        fmt::format("general.alignment has {} type {}, it must be a u32 (type 4)",
                                    pair->is_array ? "array elements of" : "the",
                                    static_cast<std::uint32_t>(pair->type)));
  }
  const auto alignment = load_at<std::uint32_t>(reader.bytes(), pair->value);
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    return reader.error("E_ALIGN", pair->value,
                        fmt::format("general.alignment is {}, allowed are powers of two up to {}",
                                    alignment, kMaxAlignment));
  }
  return alignment;
}

}  // namespace orrery::storage
