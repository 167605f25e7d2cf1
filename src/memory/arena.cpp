#include "memory/arena.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "memory/numa.hpp"

namespace orrery::memory {
namespace {

#ifdef MADV_GUARD_INSTALL
constexpr int kGuardInstall = MADV_GUARD_INSTALL;
#else
constexpr int kGuardInstall = 102;  // Linux 6.13
#endif
constexpr int kUsable = PROT_READ | PROT_WRITE;
constexpr const char* kHugeSetting = "/sys/kernel/mm/transparent_hugepage/enabled";

Error refusal(SystemCalls& calls, std::uint64_t bytes) {
  const std::uint64_t limit = calls.address_limit();
  return {"E_MEMORY",
          limit == UINT64_MAX
              ? fmt::format("the system refuses {} bytes of memory", bytes)
              : fmt::format("the system refuses {} bytes of memory; addresses are limited to {} "
                            "bytes (ulimit -v)",
                            bytes, limit)};
}

}  // namespace

Arena::Arena(SystemCalls& calls, std::uint64_t range) : calls_(calls), ranges_(calls, range) {}

Arena& Arena::process() {
  static Arena& arena = *new Arena;  // regions of other static objects outlive no destructor
  return arena;
}

Result<Region> Arena::place(std::uint64_t bytes) {
  const std::uint64_t page = bytes >= kHugePage ? kHugePage : kSmallPage;
  const CheckedU64 span = checked_add(checked_align_up(bytes, page), page);
  if (!span) return std::unexpected(refusal(calls_, bytes));
  std::byte* start = ranges_.take(*span, page);
  if (start == nullptr) return std::unexpected(refusal(calls_, bytes));
  spans_[start] = {.bytes = *span};
  return Region(*this, start, bytes);
}

Result<Region> Arena::reserve(std::uint64_t bytes) {
  if (bytes == 0) return Region();
  const std::scoped_lock lock(mutex_);
  return place(bytes);
}

Result<Region> Arena::take(std::uint64_t bytes, Spread spread) {
  ORRERY_TRY(Region region, reserve(bytes));
  if (bytes != 0) ORRERY_TRY_VOID(commit(region.data(), bytes, spread, true));
  return region;
}

Status Arena::commit(std::byte* start, std::uint64_t end, Spread spread, bool all) {
  const std::scoped_lock lock(mutex_);
  Span& span = spans_.at(start);
  const std::uint64_t begin = span.usable;
  end = align_up(end, kSmallPage);
  if (end <= begin) return {};
  if (!all) {
    ORRERY_TRY_VOID(commit_pages(start, span, begin, end, false));
  } else if (!commit_pool(start, span, end)) {
    ORRERY_TRY_VOID(commit_pages(start, span, begin, end, end >= kHugePage));
  }
  span.usable = end;
  if (all) install_guard(start, span);
  if (spread == Spread::interleaved) spread_locked(start + begin, end - begin);
  if (is_pinning_) span.pinned += pin_locked(start + begin, end - begin);
  tell(start, span, begin, end);
  return {};
}

// Huge pages that were set aside when the machine started: nobody can take them away.
bool Arena::commit_pool(std::byte* start, Span& span, std::uint64_t bytes) {
  if (bytes < kHugePage) return false;
  const std::uint64_t whole = align_up(bytes, kHugePage);
  const std::uint64_t free = calls_.free_huge_pool();
  if (free < whole) {
    note(fmt::format("the pool of huge pages (sysctl vm.nr_hugepages) has {} free, too few",
                     free / kHugePage));
    return false;
  }
  if (calls_.map(start, whole, kUsable, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1) ==
      MAP_FAILED) {
    note(fmt::format("the pool of huge pages is refused: {}", std::strerror(errno)));
    return false;
  }
  span.pool = whole;
  return true;
}

Status Arena::commit_pages(std::byte* start, Span& span, std::uint64_t begin, std::uint64_t end,
                           bool huge) {
  if (calls_.protect(start + begin, end - begin, kUsable) != 0) {
    return std::unexpected(refusal(calls_, end - begin));
  }
  if (huge) {
    const std::string setting = calls_.line_of(kHugeSetting);
    const bool never = setting.empty() || setting.find("[never]") != std::string::npos;
    huge = !never && calls_.advise(start + begin, end - begin, MADV_HUGEPAGE) == 0;
    if (!huge) note(fmt::format("no huge pages on demand: {} says \"{}\"", kHugeSetting, setting));
  } else {
    note("regions below 2 MiB and caches, which grow page by page, have small pages");
  }
  (huge ? span.huge : span.small) += end - begin;
  return {};
}

// What lies behind the usable bytes is inaccessible already. Where the page tables themselves can
// say so, neighbours need no mapping between them: the number of mappings of a process is limited.
void Arena::install_guard(std::byte* start, const Span& span) {
  const std::uint64_t end = std::max(span.usable, span.pool);
  if (span.pool == 0 && !is_pinning_ &&
      calls_.protect(start + end, span.bytes - end, kUsable) == 0) {
    if (calls_.advise(start + end, span.bytes - end, kGuardInstall) == 0) return;
    calls_.protect(start + end, span.bytes - end, PROT_NONE);
  }
  note(
      "guard pages are mappings of their own: there is no MADV_GUARD_INSTALL in this kernel, or "
      "not for pinned or pooled memory");
}

void Arena::spread_locked(std::byte* start, std::uint64_t bytes) {
  const std::uint64_t nodes = node_mask(calls_.line_of("/sys/devices/system/node/has_memory"));
  if (std::popcount(nodes) < 2) return note("one memory node: nothing to spread");
  if (calls_.interleave(start, bytes, nodes) != 0) {
    note(fmt::format("weights lie where they were touched first: mbind is refused ({})",
                     std::strerror(errno)));
  } else {
    note(fmt::format("weights are spread over {} memory nodes", std::popcount(nodes)));
  }
}

void Arena::set_pinning(bool on) {
  const std::scoped_lock lock(mutex_);
  is_pinning_ = on;
}

void Arena::pin(std::span<const std::byte> range) {
  const std::scoped_lock lock(mutex_);
  const bool is_region = std::ranges::any_of(spans_, [&](const auto& entry) {
    return range.data() >= entry.first && range.data() < entry.first + entry.second.bytes;
  });
  if (is_region) return;  // pinned when it was taken
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data()) / kSmallPage * kSmallPage;
  const auto end =
      align_up(reinterpret_cast<std::uintptr_t>(range.data()) + range.size(), kSmallPage);
  pinned_elsewhere_ += pin_locked(reinterpret_cast<const std::byte*>(begin), end - begin);
}

// How much of it is pinned: all or nothing.
std::uint64_t Arena::pin_locked(const std::byte* start, std::uint64_t bytes) {
  if (calls_.lock(const_cast<std::byte*>(start), bytes) == 0) return bytes;
  const int code = errno;
  const std::uint64_t limit = calls_.lock_limit();
  note(limit == UINT64_MAX
           ? fmt::format("not all is pinned: {}", std::strerror(code))
           : fmt::format("not all is pinned: a user may pin {} bytes; raise it by ulimit -l, "
                         "LimitMEMLOCK= of a systemd unit, or CAP_IPC_LOCK",
                         limit));
  return 0;
}

void Arena::attach(RangeUser& user) {
  const std::scoped_lock lock(mutex_);
  users_.push_back(&user);
  for (auto& [start, span] : spans_) {
    for (const std::span<const std::byte> range : span.told) {
      if (const Status added = user.add(range); !added) note(added.error().message);
    }
  }
}

void Arena::detach(RangeUser& user) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [start, span] : spans_) {
    for (const std::span<const std::byte> range : span.told) user.remove(range);
  }
  std::erase(users_, &user);
}

void Arena::tell(std::byte* start, Span& span, std::uint64_t begin, std::uint64_t end) {
  const std::span<const std::byte> range(start + begin, end - begin);
  if (users_.empty()) {
    span.told.assign(1, {start, end});
    return;
  }
  span.told.push_back(range);
  for (RangeUser* user : users_) {
    if (const Status added = user->add(range); !added) note(added.error().message);
  }
}

void Arena::note_shared(std::byte* start, std::uint64_t bytes, Spread spread) {
  const std::scoped_lock lock(mutex_);
  Span& span = spans_.at(start);
  forget(span);
  span.shared = bytes;
  if (spread == Spread::interleaved) spread_locked(start, bytes);
  if (is_pinning_) span.pinned = pin_locked(start, bytes);
  tell(start, span, 0, bytes);
}

void Arena::forget_memory(std::byte* start) {
  const std::scoped_lock lock(mutex_);
  forget(spans_.at(start));
}

void Arena::forget(Span& span) {
  for (const std::span<const std::byte> range : span.told) {
    for (RangeUser* user : users_) user->remove(range);
  }
  span = {.bytes = span.bytes};
}

void Arena::give_back(std::byte* start) {
  const std::scoped_lock lock(mutex_);
  const auto span = spans_.find(start);
  forget(span->second);
  ranges_.give_back(start, span->second.bytes);
  spans_.erase(span);
}

// Nothing is allocated for what was noted before: a cache grows while it is decoded into.
void Arena::note(std::string_view text) {
  constexpr std::size_t kMostNotes = 64;
  if (notes_.size() < kMostNotes && !notes_.contains(text)) notes_.emplace(text);
}

ArenaUse Arena::use() const {
  const std::scoped_lock lock(mutex_);
  ArenaUse use{.reserved = ranges_.reserved(),
               .regions = spans_.size(),
               .pinned = pinned_elsewhere_,
               .notes = notes_};
  for (const auto& [start, span] : spans_) {
    use.pool += span.pool;
    use.huge += span.huge;
    use.small += span.small;
    use.shared += span.shared;
    use.pinned += span.pinned;
  }
  return use;
}

std::string to_text(const ArenaUse& use) {
  constexpr double kMib = 1 << 20;
  std::string text = fmt::format(
      "arena: {} regions in {:.0f} GiB of addresses: {:.1f} MiB from the pool of huge pages, "
      "{:.1f} "
      "in huge pages on demand, {:.1f} in small ones, {:.1f} in memory files; {:.1f} MiB pinned\n",
      use.regions, static_cast<double>(use.reserved) / kMib / 1024,
      static_cast<double>(use.pool) / kMib, static_cast<double>(use.huge) / kMib,
      static_cast<double>(use.small) / kMib, static_cast<double>(use.shared) / kMib,
      static_cast<double>(use.pinned) / kMib);
  for (const std::string& note : use.notes) text += fmt::format("arena: {}\n", note);
  return text;
}

}  // namespace orrery::memory
