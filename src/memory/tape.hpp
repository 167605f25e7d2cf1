// Hands out parts of a range by moving on in it. A part is not freed by itself: all of a generation
// are, by one store.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/checked.hpp"

namespace orrery::memory {

// What the tapes of several threads have given out until end().
class Generation {
 public:
  std::uint64_t now() const { return now_.load(std::memory_order_relaxed); }
  // Every tape begins anew at its next take(). One thread at a time, and not while others use what
  // they took: they learn of it by whatever tells them to go on.
  void end() { now_.store(now_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> now_{0};
};

// Of one thread: threads that share one would wait for each other's cache line at each take().
class alignas(64) Tape {
 public:
  static constexpr std::uint64_t kLine = 64;

  Tape() = default;
  explicit Tape(std::span<std::byte> range, const Generation* generation = nullptr)
      : begin_(range.data()), at_(begin_), end_(begin_ + range.size()), generation_(generation) {}

  // `bytes` at a multiple of kLine from the start; null when they are not there.
  std::byte* take(std::uint64_t bytes) {
    if (generation_ != nullptr && generation_->now() != seen_) [[unlikely]] {
      seen_ = generation_->now();
      at_ = begin_;
    }
    std::byte* const part = at_;
    if (bytes > static_cast<std::uint64_t>(end_ - part)) [[unlikely]]
      return nullptr;
    const std::uint64_t step = align_up(bytes, kLine);
    at_ = step < static_cast<std::uint64_t>(end_ - part) ? part + step : end_;
    return part;
  }

 private:
  std::byte* begin_ = nullptr;
  std::byte* at_ = nullptr;
  std::byte* end_ = nullptr;
  const Generation* generation_ = nullptr;
  std::uint64_t seen_ = 0;
};

// Equal parts of a range, of whole lines.
inline std::vector<Tape> split(std::span<std::byte> range, std::size_t parts,
                               const Generation& generation) {
  const std::size_t each = range.size() / parts / Tape::kLine * Tape::kLine;
  std::vector<Tape> tapes;
  for (std::size_t i = 0; i < parts; ++i) {
    tapes.emplace_back(range.subspan(i * each, each), &generation);
  }
  return tapes;
}

}  // namespace orrery::memory
