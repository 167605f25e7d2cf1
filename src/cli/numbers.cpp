#include "cli/numbers.hpp"

#include <fmt/format.h>

#include <charconv>

#include "cli/terminal.hpp"

namespace orrery::cli {

Result<std::vector<int>> read_numbers(std::string_view option, const std::string& text, int least,
                                      int most) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    const bool separated = stop == end || *stop == ',';
    if (error != std::errc{} || !separated || number < least || number > most) {
      return fail(kUsageError, fmt::format("{} takes numbers from {} to {}, as {},{}, and not '{}'",
                                           option, least, most, least, most, printable(text)));
    }
    numbers.push_back(number);
    if (stop == end) return numbers;
    at = stop + 1;
  }
}

Result<std::uint64_t> read_bytes(std::string_view option, const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  double factor = 1;
  for (const char letter : {'K', 'M', 'G', 'T'}) {
    factor *= 1024;
    if (unit.empty() || (unit[0] & ~0x20) != letter) continue;
    unit.remove_prefix(1);
    if (unit == "iB" || unit == "B" || unit.empty()) {
      number *= factor;
      unit = {};
    }
    break;
  }
  constexpr double kMost = 1e18;
  if (error == std::errc{} && unit.empty() && number >= 1 && number <= kMost) {
    return static_cast<std::uint64_t>(number);
  }
  return fail(kUsageError, fmt::format("{} takes a number of bytes, as 1500000, 900M or 1.5G, and "
                                       "not '{}'",
                                       option, printable(text)));
}

}  // namespace orrery::cli
