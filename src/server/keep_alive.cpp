#include "server/keep_alive.hpp"

#include <charconv>
#include <utility>

namespace orrery::server {
namespace {

constexpr double kMostSeconds = 10.0 * 365 * 24 * 3600;

std::unexpected<Error> wrong() {
  return fail("E_PARAM",
              "keep_alive must be a number of seconds or a duration such as \"5m\" of at most ten "
              "years; negative is for ever");
}

// Takes a unit from the front: its seconds, 0 for none.
double take_unit(std::string_view& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  for (const auto& [name, seconds] : kUnits) {
    if (!text.starts_with(name)) continue;
    text.remove_prefix(name.size());
    return seconds;
  }
  return 0;
}

}  // namespace

Result<Keep> keep_alive_of(double seconds) {
  if (seconds < 0) return kForever;
  if (!(seconds <= kMostSeconds)) return wrong();
  return Keep(static_cast<Keep::rep>(seconds * 1000));
}

Result<Keep> parse_keep_alive(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const bool single = text.find_first_not_of("0123456789.") == std::string_view::npos;
  double seconds = 0;
  do {
    double number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc{} || number < 0) return wrong();
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const double unit = single ? 1 : take_unit(text);
    if (unit == 0 || !(number * unit <= kMostSeconds)) return wrong();
    seconds += number * unit;
  } while (!text.empty() && !single);
  if (!text.empty()) return wrong();
  return negative && seconds > 0 ? Result<Keep>(kForever) : keep_alive_of(seconds);
}

}  // namespace orrery::server
