#include "storage/gguf.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "base/checked.hpp"
#include "storage/byte_reader.hpp"
#include "storage/gguf_metadata.hpp"
#include "storage/gguf_tensors.hpp"
#include "storage/limits.hpp"

namespace orrery::storage {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kMinVersion = 2;
constexpr std::uint32_t kMaxVersion = 3;

struct Header {
  std::uint32_t version = 0;
  std::uint64_t n_tensors = 0;
  std::uint64_t n_pairs = 0;
};

Result<std::uint32_t> read_version(ByteReader& reader) {
  ORRERY_TRY(const std::string_view magic, reader.take(kMagic.size(), "the magic"));
  if (magic != kMagic) {
    return reader.error(
        "E_MAGIC", 0,
        fmt::format("the file begins with {}, a GGUF file begins with \"GGUF\"", in_quotes(magic)));
  }
  ORRERY_TRY(const std::uint32_t version, reader.read<std::uint32_t>("the version"));
  if (version >= kMinVersion && version <= kMaxVersion) return version;
  if (const std::uint32_t swapped = __builtin_bswap32(version);
      swapped >= 1 && swapped <= kMaxVersion) {
    return reader.error("E_ENDIAN", 4,
                        fmt::format("big-endian version {}, only little-endian files are "
                                    "supported",
                                    swapped));
  }
  return reader.error(
      "E_VERSION", 4,
      fmt::format("version {}, supported are {} and {}", version, kMinVersion, kMaxVersion));
}

Result<Header> read_header(ByteReader& reader) {
  Header header;
  ORRERY_TRY(header.version, read_version(reader));
  ORRERY_TRY(header.n_tensors, reader.read<std::uint64_t>("the number of tensors"));
  ORRERY_TRY(header.n_pairs, reader.read<std::uint64_t>("the number of keys"));
  if (header.n_tensors > kMaxTensors) {
    return reader.error(
        "E_NTENSORS", 8,
        fmt::format("{} tensors, at most {} are allowed", header.n_tensors, kMaxTensors));
  }
  if (header.n_pairs > kMaxKeyValues) {
    return reader.error(
        "E_NKV", 16, fmt::format("{} keys, at most {} are allowed", header.n_pairs, kMaxKeyValues));
  }
  return header;
}

}  // namespace

bool has_gguf_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, std::string_view label) {
  ByteReader reader(bytes, std::string(label));
  ORRERY_TRY(const Header header, read_header(reader));
  ORRERY_TRY(const std::vector<GgufPair> pairs, scan_gguf_pairs(reader, header.n_pairs));
  GgufFile file;
  file.version = header.version;
  ORRERY_TRY(file.alignment, gguf_alignment(reader, pairs));
  ORRERY_TRY(GgufTable table, read_gguf_table(reader, header.n_tensors));
  file.data_start = align_up(reader.position(), file.alignment);
  if (!table.tensors.empty()) {
    if (file.data_start >= bytes.size()) {
      return reader.error("E_DATASTART", reader.position(),
                          fmt::format("the data should start at byte {}, the file has {} bytes; "
                                      "it is cut short, fetch it again",
                                      file.data_start, bytes.size()));
    }
    ORRERY_TRY(const std::uint64_t end,
               place_gguf_tensors(reader, file.data_start, file.alignment, table));
    const std::uint64_t padded = file.data_start + align_up(end - file.data_start, file.alignment);
    if (bytes.size() > padded) file.trailing_bytes = bytes.size() - padded;
  }
  file.tensors = std::move(table.tensors);
  file.metadata = decode_gguf_pairs(bytes, pairs);
  return file;
}

}  // namespace orrery::storage
