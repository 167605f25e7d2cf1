#include "engine/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/check.hpp"
#include "engine/softmax.hpp"

namespace orrery::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr std::size_t kFewBest = 256;  // up to here a heap of the best beats two passes
constexpr std::int32_t kBuckets = 1024;
constexpr std::size_t kSortable = 1024;
constexpr std::size_t kScan = 64;

// The best `k` of n logits (ids, or 0, 1, ... when null) in order, written to out.
std::size_t scan_best(const float* logits, const text::TokenId* ids, std::size_t n, Candidate* out,
                      std::size_t k) {
  std::size_t held = 0;
  float worst = -kInfinity;  // what a newcomer must exceed
  for (std::size_t begin = 0; begin < n && k > 0; begin += kScan) {
    const std::size_t end = std::min(n, begin + kScan);
    if (max_of(logits + begin, end - begin) <= worst) continue;
    for (std::size_t i = begin; i < end; ++i) {
      if (!(logits[i] > worst)) continue;
      if (held == k) {
        std::pop_heap(out, out + held, better);
        --held;
      }
      out[held++] = {ids != nullptr ? ids[i] : static_cast<text::TokenId>(i), logits[i]};
      std::push_heap(out, out + held, better);
      if (held == k) worst = out[0].logit;
    }
  }
  std::sort_heap(out, out + held, better);
  return held;
}

struct Range {
  float low, high;
};

template <class At>
Range range_of(std::size_t n, At at) {
  constexpr std::size_t kLanes = 16;
  float low[kLanes];
  float high[kLanes];
  std::fill(low, low + kLanes, kInfinity);
  std::fill(high, high + kLanes, -kInfinity);
  for (std::size_t i = 0; i + kLanes <= n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float x = at(i + j);
      low[j] = x < low[j] ? x : low[j];
      high[j] = x > high[j] ? x : high[j];
    }
  }
  for (std::size_t i = n / kLanes * kLanes; i < n; ++i) {
    low[0] = std::min(low[0], at(i));
    high[0] = std::max(high[0], at(i));
  }
  return {*std::min_element(low, low + kLanes), *std::max_element(high, high + kLanes)};
}

}  // namespace

std::size_t best_of(std::span<const float> logits, std::span<Candidate> out) {
  return scan_best(logits.data(), nullptr, logits.size(), out.data(), out.size());
}

Candidates::Candidates(std::size_t vocab)
    : logits_(vocab),
      exps_(vocab),
      keys_(vocab),
      ids_(vocab),
      indices_(vocab),
      buckets_(vocab),
      masses_(kBuckets),
      best_(kFewBest) {}

std::size_t Candidates::load(std::span<const float> logits) {
  ORRERY_CHECK(logits.size() == logits_.size());
  size_ = logits.size();
  std::size_t n_nan = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    logits_[i] = logits[i];
    n_nan += logits[i] != logits[i];
  }
  std::iota(ids_.begin(), ids_.end(), 0);
  return n_nan;
}

void Candidates::restrict_to(std::span<const std::uint32_t> allowed) {
  constexpr std::size_t kBits = 32;
  for (std::size_t begin = 0; begin < size_; begin += kBits) {
    const std::size_t word = begin / kBits;
    const std::uint32_t bits = word < allowed.size() ? allowed[word] : 0;
    if (bits == ~std::uint32_t{0}) continue;
    const std::size_t end = std::min(size_, begin + kBits);
    if (bits == 0) {
      std::fill(logits_.begin() + static_cast<std::ptrdiff_t>(begin),
                logits_.begin() + static_cast<std::ptrdiff_t>(end), -kInfinity);
      continue;
    }
    for (std::size_t i = begin; i < end; ++i) {
      logits_[i] = (bits >> (i - begin) & 1U) != 0 ? logits_[i] : -kInfinity;
    }
  }
}

void Candidates::seal() {
  std::size_t banned = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    banned += logits_[i] == -kInfinity;
    logits_[i] = logits_[i] > kLargest ? kLargest : logits_[i];
  }
  if (banned > 0) retain([&](std::size_t i) { return logits_[i] != -kInfinity; });
}

std::size_t Candidates::best(std::span<Candidate> out) const {
  return scan_best(logits_.data(), ids_.data(), size_, out.data(), out.size());
}

// Keeps the order; what softmax() left moves along.
template <class Keep>
void Candidates::retain(Keep keep) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    const bool kept_here = keep(i);  // without a branch: half of a vocabulary may go
    ids_[kept] = ids_[i];
    logits_[kept] = logits_[i];
    exps_[kept] = exps_[i];
    kept += kept_here ? 1 : 0;
  }
  size_ = kept;
}

void Candidates::top_n_sigma(float n) {
  if (size_ <= 1) return;
  const float max = max_of(logits_.data(), size_);
  double sum = 0;
  double squares = 0;  // around the maximum: no cancellation from a common offset
  for (std::size_t i = 0; i < size_; ++i) {
    const double x = static_cast<double>(logits_[i]) - max;
    sum += x;
    squares += x * x;
  }
  const double mean = sum / static_cast<double>(size_);
  const double variance = std::max(0.0, squares / static_cast<double>(size_) - mean * mean);
  const double lowest = max - n * std::sqrt(variance);
  retain([&](std::size_t i) { return logits_[i] >= lowest; });
}

void Candidates::top_k(std::size_t k) {
  if (k >= size_) return;
  if (k <= kFewBest) {
    size_ = scan_best(logits_.data(), ids_.data(), size_, best_.data(), k);
    for (std::size_t i = 0; i < size_; ++i) {
      ids_[i] = best_[i].id;
      logits_[i] = best_[i].logit;
    }
    return;
  }
  const float max = max_of(logits_.data(), size_);
  for (std::size_t i = 0; i < size_; ++i) keys_[i] = max - logits_[i];
  keep_cut(find_cut(nullptr, static_cast<double>(k), false));
}

void Candidates::typical(float p) {
  if (size_ <= 1) return;
  const double h = entropy();
  // -ln p - h = ln(sum of e^(l - max)) + max - l - h
  const auto offset = static_cast<float>(std::log(exp_sum_) + max_of(logits_.data(), size_) - h);
  for (std::size_t i = 0; i < size_; ++i) keys_[i] = std::abs(offset - logits_[i]);
  keep_cut(find_cut(exps_.data(), p * exp_sum_, true));
}

void Candidates::top_p(float p) {
  if (size_ <= 1) return;
  softmax();
  // All tokens below (1 - p) / n together have at most 1 - p: the others reach p without them.
  // Half of that leaves room for rounding.
  const double least = 0.5 * (1.0 - p) * exp_sum_ / static_cast<double>(size_);
  retain([&](std::size_t i) { return exps_[i] >= least; });
  const float max = max_of(logits_.data(), size_);
  for (std::size_t i = 0; i < size_; ++i) keys_[i] = max - logits_[i];
  keep_cut(find_cut(exps_.data(), p * exp_sum_, false));
}

void Candidates::min_p(float p) {
  if (size_ <= 1 || p <= 0) return;
  const float lowest = max_of(logits_.data(), size_) + std::log(p);
  retain([&](std::size_t i) { return logits_[i] >= lowest; });
}

void Candidates::xtc(float threshold) {
  if (size_ <= 1 || threshold > 0.5F) return;
  softmax();
  const double least = threshold * exp_sum_;
  std::size_t eligible = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    if (exps_[i] < least) continue;
    const Candidate here{ids_[i], logits_[i]};
    if (eligible == 0 || better({ids_[last], logits_[last]}, here)) last = i;
    ++eligible;
  }
  if (eligible < 2) return;
  retain([&, last](std::size_t i) { return exps_[i] < least || i == last; });
}

void Candidates::limit_surprise(float bits) {
  if (size_ <= 1) return;
  softmax();
  const float max = max_of(logits_.data(), size_);
  const double lowest = max + std::log(exp_sum_) - bits * std::numbers::ln2;
  if (max < lowest) return argmax();
  retain([&](std::size_t i) { return logits_[i] >= lowest; });
}

void Candidates::argmax() {
  std::size_t best = 0;
  for (std::size_t i = 1; i < size_; ++i) {
    if (better({ids_[i], logits_[i]}, {ids_[best], logits_[best]})) best = i;
  }
  if (size_ == 0) return;
  ids_[0] = ids_[best];
  logits_[0] = logits_[best];
  size_ = 1;
}

void Candidates::scale(float divisor) {
  const float max = max_of(logits_.data(), size_);
  // Around the maximum, so that a tiny divisor gives 0 and -large instead of infinities.
  for (std::size_t i = 0; i < size_; ++i) {
    logits_[i] = std::max((logits_[i] - max) / divisor, -kLargest);
  }
}

void Candidates::softmax() {
  const float max = max_of(logits_.data(), size_);
  exp_sum_ = exponentials(logits_.data(), size_, max, exps_.data());
}

double Candidates::entropy() {
  softmax();
  const float max = max_of(logits_.data(), size_);
  double weighted = 0;  // sum of e^(l - max) * (max - l)
  for (std::size_t i = 0; i < size_; ++i) {
    weighted += exps_[i] > 0 ? exps_[i] * static_cast<double>(max - logits_[i]) : 0.0;
  }
  return std::log(exp_sum_) + weighted / exp_sum_;
}

std::size_t Candidates::pick(double u) {
  const double target = u * exp_sum_;
  double sum = 0;
  std::size_t last = 0;  // rounding may leave the target above the sum
  for (std::size_t i = 0; i < size_; ++i) {
    if (exps_[i] == 0) continue;
    sum += exps_[i];
    last = i;
    if (sum > target) return i;
  }
  return last;
}

void Candidates::keep_cut(Cut cut) {
  std::size_t ties = cut.ties;
  retain([&](std::size_t i) {
    if (keys_[i] != cut.key) return keys_[i] < cut.key;
    if (ties == 0) return false;
    --ties;
    return true;
  });
}

// indices_[0, n) sorted: walk until the weights reach the target.
Candidates::Cut Candidates::cut_sorted(std::size_t n, const float* weights, double target,
                                       bool strict) {
  double sum = 0;
  std::size_t ties = 0;
  float key = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t index = indices_[i];
    ties = i > 0 && keys_[index] == key ? ties + 1 : 1;
    key = keys_[index];
    sum += weights != nullptr ? weights[index] : 1.0;
    if (strict ? sum > target : sum >= target) break;
  }
  return {key, ties};
}

// One round of find_cut over n keys, at(i) being the index of the i-th: leaves the indices of the
// bucket where the prefix ends in indices_ and takes the weight before it from `target`. Returns
// how many, n where all keys are equal.
template <class At>
std::size_t Candidates::narrow(std::size_t n, At at, const float* weights, double& target,
                               bool strict) {
  const auto [low, high] = range_of(n, [&](std::size_t i) { return keys_[at(i)]; });
  const float scale = static_cast<float>(kBuckets - 1) / (high - low);
  if (!(high > low) || !std::isfinite(scale)) return n;
  for (std::size_t i = 0; i < n; ++i) {
    const float place = (keys_[at(i)] - low) * scale;
    buckets_[i] = static_cast<std::int32_t>(place < kBuckets - 1 ? place : kBuckets - 1);
  }
  std::fill(masses_.begin(), masses_.end(), 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    masses_[buckets_[i]] += weights != nullptr ? weights[at(i)] : 1.0;
  }
  std::int32_t bucket = 0;
  while (bucket + 1 < kBuckets && (strict ? masses_[bucket] <= target : masses_[bucket] < target)) {
    target -= masses_[bucket++];
  }
  std::size_t kept = 0;
  for (;; --bucket) {
    for (std::size_t i = 0; i < n; ++i) {
      indices_[kept] = static_cast<std::uint32_t>(at(i));
      kept += buckets_[i] == bucket;
    }
    if (kept > 0 || bucket == 0) return kept;
    target = kInfinity;  // rounding left nothing to look for here: all of the bucket before
  }
}

Candidates::Cut Candidates::find_cut(const float* weights, double target, bool strict) {
  std::size_t n = size_;
  if (n > kSortable) n = narrow(n, [](std::size_t i) { return i; }, weights, target, strict);
  if (n == size_)
    std::iota(indices_.begin(), indices_.begin() + static_cast<std::ptrdiff_t>(n), 0U);
  while (n > kSortable) {
    const std::size_t all = n;
    n = narrow(n, [&](std::size_t i) { return indices_[i]; }, weights, target, strict);
    if (n == all) break;
  }
  const auto in_order = [&](std::uint32_t a, std::uint32_t b) {
    return keys_[a] != keys_[b] ? keys_[a] < keys_[b] : a < b;
  };
  const auto end = indices_.begin() + static_cast<std::ptrdiff_t>(n);
  if (!std::is_sorted(indices_.begin(), end, in_order)) {
    std::sort(indices_.begin(), end, in_order);
  }
  return cut_sorted(n, weights, target, strict);
}

}  // namespace orrery::engine
