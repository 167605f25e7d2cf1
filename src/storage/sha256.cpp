#include "storage/sha256.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/check.hpp"
#include "storage/describe.hpp"

namespace orrery::storage {
namespace {

constexpr std::uint64_t kMaxStampBytes = 256;

std::string stamp_of(const FileInfo& info, std::string_view checksum) {
  return fmt::format("{} {} {}\n", info.size, info.modified_ns, checksum);
}

}  // namespace

std::string sha256(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  ORRERY_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) == 1);
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

Result<std::string> sha256_file(const std::string& path, Io& io) {
  ORRERY_TRY(const std::unique_ptr<MappedFile> mapping, io.map(path));
  return sha256(mapping->bytes());
}

Status verify_file(const std::string& path, std::string_view expected, Io& io) {
  ORRERY_TRY(const FileInfo info, io.info(path));
  const std::string stamp = stamp_of(info, expected);
  const std::string stamp_path = path + ".verified";
  if (const auto found = io.read_file(stamp_path, kMaxStampBytes); found && *found == stamp) {
    return {};
  }
  ORRERY_TRY(const std::string actual, sha256_file(path, io));
  if (actual != expected) {
    return fail("E_CHECKSUM",
                fmt::format("{}: has SHA-256 {}, {} is expected; the file is damaged, "
                            "delete it and fetch it again",
                            in_quotes(path, 200), actual, expected));
  }
  // A folder that cannot be written only means that the next start reads the file again.
  static_cast<void>(io.replace_file(stamp_path, stamp));
  return {};
}

}  // namespace orrery::storage
