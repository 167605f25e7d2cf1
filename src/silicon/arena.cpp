#include "silicon/arena.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "memory/arena.hpp"
#include "memory/tape.hpp"
#include "silicon/allocators.hpp"

namespace orrery::silicon {
namespace {

constexpr std::uint64_t kPieceBytes = 4096;
constexpr std::uint64_t kRoundBytes = kArenaPieces * kPieceBytes;
constexpr int kResets = 4096;

// Of all memory of a new region, by piece.
Result<Timing> touch_region(memory::Arena& arena) {
  std::vector<double> samples;
  for (int i = 0; i < 5; ++i) {
    ORRERY_TRY(const memory::Region region, arena.take(kRoundBytes));
    const double start = now_seconds();
    for (int k = 0; k < kArenaPieces; ++k) touch(region.data() + std::uint64_t(k) * kPieceBytes);
    samples.push_back((now_seconds() - start) / kArenaPieces);
  }
  return timing_of(std::move(samples));
}

Timing scaled(Timing timing, double by) {
  return {timing.best * by, timing.median * by};
}

Result<AllocatorTime> time_tape(memory::Arena& arena, double seconds) {
  AllocatorTime time{.name = "arena", .does = "moves a pointer of the thread's own"};
  ORRERY_TRY(const memory::Region region, arena.take(kRoundBytes));
  memory::Generation generation;
  memory::Tape tape({region.data(), region.size()}, &generation);
  const auto round = [&] {
    for (int i = 0; i < kArenaPieces; ++i) keep(tape.take(kPieceBytes));
    generation.end();
  };
  time.allocate = scaled(time_calls(seconds, round), 1.0 / kArenaPieces);
  time.free_all = scaled(time_calls(seconds,
                                    [&] {
                                      for (int i = 0; i < kResets; ++i) {
                                        generation.end();
                                        keep(&generation);
                                      }
                                    }),
                         1.0 / kResets);
  ORRERY_TRY(time.touch, touch_region(arena));
  return time;
}

// What threads would pay who move one pointer together, even when only one does.
Result<AllocatorTime> time_shared_pointer(memory::Arena& arena, double seconds) {
  AllocatorTime time{.name = "atomic add", .does = "moves one pointer of all threads"};
  ORRERY_TRY(const memory::Region region, arena.take(kRoundBytes));
  std::atomic<std::uint64_t> at{0};
  time.allocate = scaled(time_calls(seconds,
                                    [&] {
                                      for (int i = 0; i < kArenaPieces; ++i) {
                                        keep(region.data() + at.fetch_add(kPieceBytes));
                                      }
                                      at.store(0, std::memory_order_relaxed);
                                    }),
                         1.0 / kArenaPieces);
  time.free_all = scaled(time_calls(seconds,
                                    [&] {
                                      for (int i = 0; i < kResets; ++i) {
                                        at.store(0, std::memory_order_relaxed);
                                        keep(&at);
                                      }
                                    }),
                         1.0 / kResets);
  ORRERY_TRY(time.touch, touch_region(arena));
  return time;
}

ProtectionTime time_mprotect(const memory::Region& region, std::uint64_t bytes, const char* name,
                             double seconds) {
  for (std::uint64_t at = 0; at < bytes; at += kPieceBytes) touch(region.data() + at);
  return {name,
          time_calls(seconds,
                     [&] {
                       ::mprotect(region.data(), bytes, PROT_READ);
                       ::mprotect(region.data(), bytes, PROT_READ | PROT_WRITE);
                     }),
          ""};
}

ProtectionTime time_key(double seconds) {
  ProtectionTime time{.name = "protection key"};
  const int key = ::pkey_alloc(0, 0);
  if (key < 0) {
    time.missing = "this processor or kernel has no protection keys (pku)";
    return time;
  }
  time.pair = time_calls(seconds, [&] {
    ::pkey_set(key, PKEY_DISABLE_WRITE);
    ::pkey_set(key, 0);
  });
  ::pkey_free(key);
  return time;
}

std::string time_text(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.2f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  return fmt::format("{:.2f} ms", seconds * 1e3);
}

std::string both(const Timing& timing) {
  return fmt::format("{} ({})", time_text(timing.best), time_text(timing.median));
}

}  // namespace

Result<ArenaReport> run_arena(const ArenaOptions& options) {
  ArenaReport report;
  memory::Arena& arena = memory::Arena::process();
  ORRERY_TRY(AllocatorTime tape, time_tape(arena, options.seconds));
  ORRERY_TRY(AllocatorTime shared, time_shared_pointer(arena, options.seconds));
  report.allocators = {std::move(tape), std::move(shared), time_malloc(options.seconds),
                       time_mmap(options.seconds)};
  for (const char* library : {"libjemalloc.so.2", "libmimalloc.so.2"}) {
    auto time = time_other(options.program, library);
    if (time) {
      report.allocators.push_back(std::move(*time));
    } else {
      report.missing.push_back(time.error().message);
    }
  }
  ORRERY_TRY(const memory::Region region, arena.take(kRoundBytes));
  report.protections = {time_mprotect(region, kPieceBytes, "mprotect, 4 KiB", options.seconds),
                        time_mprotect(region, kRoundBytes, "mprotect, 16 MiB", options.seconds),
                        time_key(options.seconds)};
  report.arena = memory::to_text(arena.use());
  return report;
}

std::string to_text(const ArenaReport& report) {
  std::string text = "best (median) of a call\n";
  text +=
      fmt::format("{:12} {:>23} {:>23} {:>23}  {}\n", "", "allocate 4 KiB",
                  fmt::format("free all {}", kArenaPieces), "first touch of 4 KiB", "what it does");
  for (const AllocatorTime& time : report.allocators) {
    text += fmt::format("{:12} {:>23} {:>23} {:>23}  {}\n", time.name, both(time.allocate),
                        both(time.free_all), both(time.touch), time.does);
  }
  text += "\nread-only and writable again\n";
  for (const ProtectionTime& time : report.protections) {
    text +=
        fmt::format("{:20} {}\n", time.name, time.missing.empty() ? both(time.pair) : time.missing);
  }
  for (const std::string& line : report.missing) text += line + "\n";
  return text + "\n" + report.arena;
}

}  // namespace orrery::silicon
