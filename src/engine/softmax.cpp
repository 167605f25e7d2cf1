#include "engine/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery::engine {
namespace {

constexpr std::size_t kLanes = 16;
constexpr std::size_t kBlock = 1024;  // short float sums, joined in double

double sum_block(const float* values, std::size_t n) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += values[i + j];
  }
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  for (; i < n; ++i) sum += values[i];
  return sum;
}

}  // namespace

double exponentials(const float* logits, std::size_t n, float max, float* out) {
  double sum = 0;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t end = std::min(n, begin + kBlock);
    for (std::size_t i = begin; i < end; ++i) out[i] = exp_nonpositive(logits[i] - max);
    sum += sum_block(out + begin, end - begin);
  }
  return sum;
}

float max_of(const float* values, std::size_t n) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, kLowest);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
    }
  }
  for (; i < n; ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

double log_sum_exp(const float* logits, std::size_t n) {
  const float max = max_of(logits, n);  // comparisons with NaN are false: it never wins
  if (!std::isfinite(max)) return max;
  double sum = 0;
  float block[kBlock];
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t length = std::min(n - begin, kBlock);
    for (std::size_t i = 0; i < length; ++i) {
      const float x = logits[begin + i];
      block[i] = x == x ? exp_nonpositive(x - max) : 0.0F;
    }
    sum += sum_block(block, length);
  }
  return max + std::log(sum);
}

}  // namespace orrery::engine
