// The benchmark of memory: what it costs to get 4 KiB, to free all, to touch memory for the first
// time and to protect it, beside the allocators that others use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "silicon/timing.hpp"

namespace orrery::silicon {

inline constexpr int kArenaPieces = 4096;  // of 4 KiB: one round

struct AllocatorTime {
  std::string name{};
  Timing allocate{};  // one piece
  Timing free_all{};  // all pieces of a round
  Timing touch{};     // the first write to a piece that was never used
  std::string does{};
};

// A way to make memory read-only and writable again; no time where the machine has it not.
struct ProtectionTime {
  std::string name;
  Timing pair{};  // both
  std::string missing{};
};

struct ArenaReport {
  std::vector<AllocatorTime> allocators;
  std::vector<ProtectionTime> protections;
  std::vector<std::string> missing;
  std::string arena;  // what the arena got, and why
};

struct ArenaOptions {
  double seconds = 0.2;  // of one figure
  // This program, which is started with other allocators in the place of malloc: `program silicon
  // arena --malloc`. Empty: they are left out.
  std::string program;
};

// E_MEMORY.
Result<ArenaReport> run_arena(const ArenaOptions& options);
std::string to_text(const ArenaReport& report);

// The allocator behind malloc in this process as one line, and the line read back. E_ALLOCATOR.
std::string malloc_line(double seconds);
Result<AllocatorTime> parse_malloc_line(std::string_view line);

}  // namespace orrery::silicon
