// Lists of numbers on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace orrery::cli {

// "16,32,64": each from `least` to `most`. Wrong usage names the option.
Result<std::vector<int>> read_numbers(std::string_view option, const std::string& text, int least,
                                      int most);

// "1500000", "1.5M", "2GiB": bytes, K, M and G being powers of 1024. At least one.
Result<std::uint64_t> read_bytes(std::string_view option, const std::string& text);

}  // namespace orrery::cli
