// How much memory the system leaves to this process.
#pragma once

#include <string>

namespace orrery {

// Bytes that can still be taken: MemAvailable, or less where a memory cgroup of the process, or one
// above it, has less left of its limit (version 2: memory.max and memory.high; 1:
// memory.limit_in_bytes). Its page cache counts as left, as in MemAvailable. `root` stands before
// every path: "" for this machine.
// Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
unsigned long long memory_left(const std::string& root);

}  // namespace orrery
