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

}  // namespace orrery::cli
