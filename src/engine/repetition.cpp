#include "engine/repetition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"

namespace orrery::engine {
namespace {

constexpr std::size_t kRepeatWindow = 256;
constexpr std::size_t kRepeatLength = 3;
constexpr float kRepeatDecay = 0.9F;
constexpr float kRepeatFloor = 0.3F;

std::size_t window(std::int32_t asked, std::uint32_t context) {
  return asked < 0 ? context : std::min<std::size_t>(static_cast<std::size_t>(asked), context);
}

}  // namespace

Repetition::Repetition(const SamplerParams& params, std::int32_t vocab, std::uint32_t context)
    : repeat_penalty_(params.repeat_penalty),
      frequency_penalty_(params.frequency_penalty),
      presence_penalty_(params.presence_penalty),
      dry_multiplier_(params.dry_multiplier),
      dry_base_(params.dry_base),
      dry_allowed_(static_cast<std::size_t>(params.dry_allowed_length)),
      rise_(params.repetition_temperature) {
  if (repeat_penalty_ != 1 || frequency_penalty_ != 0 || presence_penalty_ != 0) {
    penalty_window_ = window(params.penalty_last_n, context);
  }
  if (penalty_window_ > 0) counts_.resize(static_cast<std::size_t>(vocab));
  if (dry_multiplier_ != 0) dry_window_ = window(params.dry_last_n, context);
  if (dry_window_ > 0) {
    is_breaker_.resize(static_cast<std::size_t>(vocab));
    for (const text::TokenId id : params.dry_breakers) {
      if (id >= 0 && id < vocab) is_breaker_[static_cast<std::size_t>(id)] = 1;
    }
    runs_.resize(dry_window_);
    longest_.resize(static_cast<std::size_t>(vocab));
  }
  const std::size_t repeat_window = rise_ > 0 ? kRepeatWindow : 0;
  history_.resize(std::max({penalty_window_, dry_window_, repeat_window}));
}

void Repetition::reset() {
  next_ = length_ = 0;
  repeating_ = 0;
  exempt_ = false;
  std::fill(counts_.begin(), counts_.end(), 0);
}

text::TokenId Repetition::back(std::size_t i) const {
  return history_[(next_ + history_.size() - 1 - i) % history_.size()];
}

void Repetition::accept(text::TokenId token) {
  if (history_.empty()) return;
  if (penalty_window_ > 0) {
    ++counts_[static_cast<std::size_t>(token)];
    if (length_ >= penalty_window_) --counts_[static_cast<std::size_t>(back(penalty_window_ - 1))];
  }
  history_[next_] = token;
  next_ = (next_ + 1) % history_.size();
  length_ = std::min(length_ + 1, history_.size());
  if (rise_ > 0 && !exempt_) {
    repeating_ = kRepeatDecay * repeating_ + (continues_repeat() ? 1 - kRepeatDecay : 0.0F);
  }
}

bool Repetition::continues_repeat() const {
  const std::size_t n = std::min(length_, kRepeatWindow);
  for (std::size_t start = 1; start + kRepeatLength <= n; ++start) {
    std::size_t same = 0;
    while (same < kRepeatLength && back(start + same) == back(same)) ++same;
    if (same == kRepeatLength) return true;
  }
  return false;
}

float Repetition::temperature(float base) const {
  if (exempt_ || base <= 0 || repeating_ <= kRepeatFloor) return base;
  const float x = (repeating_ - kRepeatFloor) / (1 - kRepeatFloor);
  return base + rise_ * (x * x * (3 - 2 * x));
}

void Repetition::penalize(std::span<float> row) {
  const std::size_t n = std::min(length_, penalty_window_);
  for (std::size_t i = 0; i < n; ++i) {
    const auto token = static_cast<std::size_t>(back(i));
    const std::int32_t count = counts_[token];
    if (count <= 0) continue;  // done at a later occurrence
    float& logit = row[token];
    logit = logit <= 0 ? logit * repeat_penalty_ : logit / repeat_penalty_;
    logit -= static_cast<float>(count) * frequency_penalty_ + presence_penalty_;
    counts_[token] = -count;
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::int32_t& count = counts_[static_cast<std::size_t>(back(i))];
    count = std::abs(count);
  }
}

// Tokens since the last breaker: no run is counted across one.
std::size_t Repetition::run_limit(std::size_t n) const {
  std::size_t limit = 0;
  while (limit < n && is_breaker_[static_cast<std::size_t>(back(limit))] == 0) ++limit;
  return limit;
}

void Repetition::dry(std::span<float> row) {
  const std::size_t n = std::min(length_, dry_window_);
  const std::size_t limit = dry_window_ > 0 ? run_limit(n) : 0;
  if (n <= dry_allowed_ || limit < dry_allowed_) return;
  // Z algorithm over the history read backwards: runs_[i] tokens before and with back(i) equal the
  // tokens before and with back(0). The token after that run was back(i - 1).
  std::size_t left = 0;
  std::size_t right = 0;
  for (std::size_t i = 1; i < n; ++i) {
    std::size_t z =
        i < right ? std::min<std::size_t>(right - i, static_cast<std::size_t>(runs_[i - left])) : 0;
    while (i + z < n && back(z) == back(i + z)) ++z;
    runs_[i] = static_cast<std::int32_t>(z);
    if (i + z > right) {
      left = i;
      right = i + z;
    }
    const auto run = static_cast<std::int32_t>(std::min(z, limit));
    std::int32_t& longest = longest_[static_cast<std::size_t>(back(i - 1))];
    if (static_cast<std::size_t>(run) >= dry_allowed_) longest = std::max(longest, run);
  }
  // base^exponent stays finite.
  const float largest = dry_base_ > 1.000001F
                            ? std::log(std::numeric_limits<float>::max()) / std::log(dry_base_)
                            : std::numeric_limits<float>::max();
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const auto token = static_cast<std::size_t>(back(i));
    if (longest_[token] == 0) continue;
    const float exponent = static_cast<float>(longest_[token]) - static_cast<float>(dry_allowed_);
    row[token] -= dry_multiplier_ * std::pow(dry_base_, std::min(exponent, largest));
    longest_[token] = 0;
  }
}

}  // namespace orrery::engine
