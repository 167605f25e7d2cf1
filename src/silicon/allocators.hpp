// The allocators beside which the arena is measured.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.hpp"
#include "silicon/arena.hpp"

namespace orrery::silicon {

// What the compiler must take for used.
inline void keep(const void* pointer) {
  asm volatile("" : : "r"(pointer) : "memory");
}
inline void touch(std::byte* at) {
  *static_cast<volatile std::byte*>(at) = std::byte{1};
}

AllocatorTime time_malloc(double seconds);
AllocatorTime time_mmap(double seconds);
// malloc() of a library that a new process of `program` is given. E_ALLOCATOR where it has none.
Result<AllocatorTime> time_other(const std::string& program, const std::string& library);

}  // namespace orrery::silicon
