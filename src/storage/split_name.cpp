#include "storage/split_name.hpp"

#include <fmt/format.h>

#include <charconv>

namespace orrery::storage {
namespace {

constexpr std::size_t kDigits = 5;

std::optional<std::uint32_t> parse_digits(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view path) {
  constexpr std::string_view kOf = "-of-";
  constexpr std::size_t kTail = 1 + kDigits + kOf.size() + kDigits;  // -00001-of-00003
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || dot <= kTail) return std::nullopt;
  const std::string_view tail = path.substr(dot - kTail, kTail);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const std::optional<std::uint32_t> number = parse_digits(tail.substr(1, kDigits));
  const std::optional<std::uint32_t> count = parse_digits(tail.substr(1 + kDigits + kOf.size()));
  if (!number || !count || *number == 0 || *number > *count) return std::nullopt;
  return SplitName{std::string(path.substr(0, dot - kTail)), *number, *count,
                   std::string(path.substr(dot))};
}

std::string split_part_path(const SplitName& name, std::uint32_t number) {
  return fmt::format("{}-{:05}-of-{:05}{}", name.prefix, number, name.count, name.extension);
}

}  // namespace orrery::storage
