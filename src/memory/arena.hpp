// All large memory of the process: one reserved range of addresses, out of which regions come.
//
// A region is zeroed, page aligned (those of 2 MiB and more at a multiple of that) and has guard
// pages on both sides. Its memory is what the system has to give, in this order: the pool of huge
// pages (vm.nr_hugepages), huge pages on demand, small pages. What was got and why is in use().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "memory/address_ranges.hpp"
#include "memory/region.hpp"
#include "memory/system_calls.hpp"

namespace orrery::memory {

// A device that reads and writes the arena's memory itself and must know where it is: a GPU that
// registers it with its driver.
class RangeUser {
 public:
  virtual ~RangeUser() = default;
  // Usable memory from now on. An error leaves the range to be copied by way of others; it is kept
  // in ArenaUse::notes.
  virtual Status add(std::span<const std::byte> range) = 0;
  // Of any that add() was told of; before its memory goes.
  virtual void remove(std::span<const std::byte> range) = 0;
};

using Notes = std::set<std::string, std::less<>>;

// For people; bytes.
struct ArenaUse {
  std::uint64_t reserved = 0;                   // addresses
  std::uint64_t regions = 0;                    // how many
  std::uint64_t pool = 0, huge = 0, small = 0;  // usable, by the pages that were asked for
  std::uint64_t shared = 0;                     // maps of memory files (surface.hpp)
  std::uint64_t pinned = 0;
  Notes notes;  // one sentence each: why something is not as it might be
};
std::string to_text(const ArenaUse& use);

class Arena {
 public:
  static constexpr std::uint64_t kRange = 256ULL << 30;

  explicit Arena(SystemCalls& calls = system_calls(), std::uint64_t range = kRange);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  // That of the program. It is never destroyed.
  static Arena& process();

  // A region with memory. E_MEMORY when the system refuses; zero bytes give an empty one.
  Result<Region> take(std::uint64_t bytes, Spread spread = Spread::local);
  // Addresses alone, for Region::commit() or for files that are mapped there. E_MEMORY.
  Result<Region> reserve(std::uint64_t bytes);
  // Regions that are taken from now on stay in memory once they were touched.
  void set_pinning(bool on);
  // The same for any other memory, such as mapped files.
  void pin(std::span<const std::byte> range);
  // Tells of all memory, now and from now on, until detach().
  void attach(RangeUser& user);
  void detach(RangeUser& user);
  ArenaUse use() const;
  SystemCalls& calls() { return calls_; }

 private:
  friend class Region;
  friend class Surface;
  struct Span {
    std::uint64_t bytes = 0;   // with its guard
    std::uint64_t usable = 0;  // from the start
    std::uint64_t pool = 0, huge = 0, small = 0, shared = 0, pinned = 0;
    std::vector<std::span<const std::byte>> told{};  // what range users know
  };

  Result<Region> place(std::uint64_t bytes);
  // Of Region and Surface; they name a region by its first byte.
  Status commit(std::byte* start, std::uint64_t end, Spread spread, bool all);
  void give_back(std::byte* start);
  void note_shared(std::byte* start, std::uint64_t bytes, Spread spread);
  void forget_memory(std::byte* start);
  void forget(Span& span);
  void note(std::string_view text);

  bool commit_pool(std::byte* start, Span& span, std::uint64_t bytes);
  Status commit_pages(std::byte* start, Span& span, std::uint64_t begin, std::uint64_t end,
                      bool huge);
  void install_guard(std::byte* start, const Span& span);
  std::uint64_t pin_locked(const std::byte* start, std::uint64_t bytes);
  void spread_locked(std::byte* start, std::uint64_t bytes);
  void tell(std::byte* start, Span& span, std::uint64_t begin, std::uint64_t end);

  mutable std::mutex mutex_;
  SystemCalls& calls_;
  AddressRanges ranges_;
  std::map<std::byte*, Span> spans_;
  std::vector<RangeUser*> users_;
  Notes notes_;
  bool is_pinning_ = false;
  std::uint64_t pinned_elsewhere_ = 0;
};

}  // namespace orrery::memory
