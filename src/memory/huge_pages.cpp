#include "memory/huge_pages.hpp"

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace orrery::memory {
namespace {

// "7f00-7f10 r--s ...": the addresses that a line of smaps begins with; false for other lines.
bool read_addresses(std::string_view line, std::uintptr_t& begin, std::uintptr_t& end) {
  const char* last = line.data() + line.size();
  const auto first = std::from_chars(line.data(), last, begin, 16);
  if (first.ec != std::errc() || first.ptr == last || *first.ptr != '-') return false;
  return std::from_chars(first.ptr + 1, last, end, 16).ec == std::errc();
}

// "FilePmdMapped:   94208 kB" in bytes; 0 for other lines.
std::uint64_t read_huge(std::string_view line) {
  for (const std::string_view key : {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"}) {
    if (!line.starts_with(key)) continue;
    const std::size_t digits = line.find_first_not_of(' ', key.size());
    std::uint64_t kib = 0;
    if (digits != std::string_view::npos) {
      std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    }
    return kib * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t huge_mapped(std::span<const std::byte> range) {
  const auto first = reinterpret_cast<std::uintptr_t>(range.data());
  std::ifstream smaps("/proc/self/smaps");
  std::uint64_t bytes = 0;
  bool is_inside = false;
  std::uintptr_t begin = 0, end = 0;
  for (std::string line; std::getline(smaps, line);) {
    if (read_addresses(line, begin, end)) is_inside = begin < first + range.size() && first < end;
    if (is_inside) bytes += read_huge(line);
  }
  return bytes;
}

}  // namespace orrery::memory
