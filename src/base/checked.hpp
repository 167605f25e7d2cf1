// Arithmetic on sizes that come from outside: every overflow is an empty optional, never a wrap.
#pragma once

#include <cstdint>
#include <optional>

namespace orrery {

using CheckedU64 = std::optional<std::uint64_t>;

[[nodiscard]] constexpr CheckedU64 checked_add(CheckedU64 a, CheckedU64 b) {
  std::uint64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

[[nodiscard]] constexpr CheckedU64 checked_mul(CheckedU64 a, CheckedU64 b) {
  std::uint64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

// Rounds up to a power of two.
[[nodiscard]] constexpr CheckedU64 checked_align_up(CheckedU64 value, std::uint64_t alignment) {
  const CheckedU64 padded = checked_add(value, alignment - 1);
  if (!padded) return std::nullopt;
  return *padded & ~(alignment - 1);
}

[[nodiscard]] constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

[[nodiscard]] constexpr std::uint64_t ceil_div(std::uint64_t value, std::uint64_t divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace orrery
