// Checksums of model files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "storage/io.hpp"

namespace orrery::storage {

// Lower-case hex.
std::string sha256(std::span<const std::byte> bytes);
Result<std::string> sha256_file(const std::string& path, Io& io);

// E_CHECKSUM unless the file has this SHA-256 (lower-case hex). A stamp beside the file
// (PATH.verified: size, time of change, checksum) spares the reading as long as both stay the same.
Status verify_file(const std::string& path, std::string_view expected, Io& io);

}  // namespace orrery::storage
