// Lists of numbers on the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace orrery::cli {

// "16,32,64": each from `least` to `most`. Wrong usage names the option.
Result<std::vector<int>> read_numbers(std::string_view option, const std::string& text, int least,
                                      int most);

}  // namespace orrery::cli
