#include "memory/bus_guard.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/checked.hpp"

namespace orrery::memory {
namespace {

// All that the handler touches: lock-free and made before main, as it may run at any moment.
struct Place {
  std::atomic<std::uintptr_t> begin{0};  // 0: free; 1: being filled in
  std::atomic<std::uintptr_t> end{0};
  std::atomic<std::uintptr_t> part{0};  // bytes; 0: all is one part, and only read
  std::atomic<bool> hit{false};
};
constexpr std::uintptr_t kFree = 0;
constexpr std::uintptr_t kTaken = 1;

constinit std::array<Place, BusGuard::kMost> places;
constinit std::atomic<std::size_t> used{0};  // places from here on were never taken
constinit std::atomic<std::uint32_t> n_hits{0};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

// Set before the handler is there, constant from then on.
struct sigaction previous{};
std::uintptr_t page_bytes = 0;

Place* find_place(std::uintptr_t address) {
  const std::size_t n = used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uintptr_t begin = places[i].begin.load(std::memory_order_acquire);
    if (begin > kTaken && address >= begin && address < places[i].end.load()) return &places[i];
  }
  return nullptr;
}

// Zeros from the lost page to the end of the range, or in the whole part: after a cut all of that
// is gone, and one mapping for it keeps the number of faults and of mappings small.
bool put_zeros(const Place& place, std::uintptr_t address) {
  const std::uintptr_t part = place.part.load(), start = place.begin.load();
  const std::uintptr_t first =
      part == 0 ? address / page_bytes * page_bytes : start + (address - start) / part * part;
  const std::uintptr_t bytes = part == 0 ? place.end.load() - first : part;
  // Not mmap(): TSan takes that for a write to all of it, beside other threads that read there.
  constexpr long kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  const long access = part == 0 ? PROT_READ : PROT_READ | PROT_WRITE;
  return ::syscall(SYS_mmap, first, bytes, access, kFlags, -1L, 0L) != -1;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  const bool was_sent = info->si_code <= 0;  // by kill(): returning would not raise it again
  if (previous.sa_handler == SIG_IGN && was_sent) return;
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    return previous.sa_handler(signal);
  }
  ::signal(signal, SIG_DFL);
  if (was_sent) ::raise(signal);
}

// Only calls that are safe in a handler: plain system calls and atomics.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  Place* place = info->si_code > 0 ? find_place(address) : nullptr;
  if (place != nullptr && put_zeros(*place, address)) {
    place->hit.store(true, std::memory_order_relaxed);
    n_hits.fetch_add(1, std::memory_order_release);
  } else {
    pass_on(signal, info, context);
  }
  errno = saved;
}

void install_handler() {
  [[maybe_unused]] static const bool once = [] {
    page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action{};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;  // the alternate stack where a thread has one
    sigemptyset(&action.sa_mask);
    // Asked first: the handler may run before the call that installs it returns.
    return ::sigaction(SIGBUS, nullptr, &previous) == 0 &&
           ::sigaction(SIGBUS, &action, nullptr) == 0;
  }();
}

}  // namespace

BusGuard::BusGuard(const std::byte* start, std::uint64_t bytes, std::uint64_t part) {
  install_handler();
  for (std::size_t i = 0; i < kMost; ++i) {
    std::uintptr_t free = kFree;
    if (!places[i].begin.compare_exchange_strong(free, kTaken)) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(start);
    places[i].hit.store(false);
    places[i].end.store(begin + align_up(bytes, page_bytes));
    places[i].part.store(part);
    places[i].begin.store(begin, std::memory_order_release);
    std::size_t seen = used.load();
    while (seen <= i && !used.compare_exchange_weak(seen, i + 1)) {
    }
    place_ = i;
    return;
  }
}

BusGuard::~BusGuard() {
  if (is_active()) places[place_].begin.store(kFree, std::memory_order_release);
}

bool BusGuard::was_hit() const {
  return is_active() && places[place_].hit.load(std::memory_order_relaxed);
}

void BusGuard::forget_hit() {
  if (is_active()) places[place_].hit.store(false, std::memory_order_relaxed);
}

std::uint32_t BusGuard::hits() {
  return n_hits.load(std::memory_order_relaxed);
}

}  // namespace orrery::memory
