// What the kernel says about the pages behind a range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace orrery::memory {

// Bytes of the mappings that touch `range`, and of them alone, that are mapped by pages of 2 MiB;
// 0 where the system does not tell (it reads /proc/self/smaps).
std::uint64_t huge_mapped(std::span<const std::byte> range);

}  // namespace orrery::memory
