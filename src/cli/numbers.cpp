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
  constexpr std::string_view kUnits = "KMGT";
  constexpr double kMost = 1ULL << 53;  // whole numbers of a double end there
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::size_t unit = stop + 1 == end ? kUnits.find(*stop) : std::string_view::npos;
  if (unit != std::string_view::npos) value *= static_cast<double>(1ULL << (10 * (unit + 1)));
  const bool is_read = error == std::errc{} && (stop == end || unit != std::string_view::npos);
  if (is_read && value >= 1 && value <= kMost) return static_cast<std::uint64_t>(value);
  return fail(kUsageError, fmt::format("{} takes bytes, as 1500000, 512M or 3.5G, and not '{}'",
                                       option, printable(text)));
}

}  // namespace orrery::cli
