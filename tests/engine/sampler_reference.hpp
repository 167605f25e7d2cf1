// The chain written as its definitions read: whole sorts in double precision, no shared code with
// the sampler.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "engine/sampler_params.hpp"

namespace orrery::engine::reference {

struct Item {
  int id;
  double logit, p;
};

inline void normalise(std::vector<Item>& items) {
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  double sum = 0;
  for (Item& item : items) sum += item.p = std::exp(item.logit - items[0].logit);
  for (Item& item : items) item.p /= sum;
}

inline void cut_mass(std::vector<Item>& items, double mass, bool strict) {
  double sum = 0;
  std::size_t n = 0;
  while (n < items.size()) {
    sum += items[n++].p;
    if (strict ? sum > mass : sum >= mass) break;
  }
  items.resize(n);
}

inline double entropy(const std::vector<Item>& items) {
  double h = 0;
  for (const Item& item : items) h -= item.p > 0 ? item.p * std::log(item.p) : 0;
  return h;
}

inline void sigma(std::vector<Item>& items, double n) {
  double mean = 0, variance = 0;
  for (const Item& item : items) mean += item.logit / static_cast<double>(items.size());
  for (const Item& item : items) {
    variance += (item.logit - mean) * (item.logit - mean) / static_cast<double>(items.size());
  }
  const double lowest = items[0].logit - n * std::sqrt(variance);
  std::erase_if(items, [&](const Item& item) { return item.logit < lowest; });
}

inline void penalize(std::vector<Item>& items, const SamplerParams& p,
                     const std::vector<int>& history) {
  std::map<int, int> counts;
  const auto window = static_cast<std::size_t>(p.penalty_last_n);
  for (std::size_t i = history.size() > window ? history.size() - window : 0; i < history.size();
       ++i) {
    ++counts[history[i]];
  }
  for (Item& item : items) {
    if (counts[item.id] == 0) continue;
    item.logit = item.logit <= 0 ? item.logit * p.repeat_penalty : item.logit / p.repeat_penalty;
    item.logit -= static_cast<double>(p.frequency_penalty) * counts[item.id] + p.presence_penalty;
  }
}

// Every suffix of the history against every earlier place.
inline void dry(std::vector<Item>& items, const SamplerParams& p, const std::vector<int>& history) {
  const auto is_breaker = [&](int id) {
    return std::count(p.dry_breakers.begin(), p.dry_breakers.end(), id) > 0;
  };
  std::map<int, int> longest;
  const int n = static_cast<int>(history.size());
  for (int end = 0; end + 1 < n; ++end) {  // the run ends at `end`, followed by history[end + 1]
    int run = 0;
    while (run <= end && history[end - run] == history[n - 1 - run] &&
           !is_breaker(history[n - 1 - run])) {
      ++run;
    }
    longest[history[end + 1]] = std::max(longest[history[end + 1]], run);
  }
  for (Item& item : items) {
    const int run = longest[item.id];
    if (run < p.dry_allowed_length) continue;
    item.logit -= p.dry_multiplier * std::pow(p.dry_base, run - p.dry_allowed_length);
  }
}

// The distribution that a token is drawn from (XTC and mirostat apart).
inline std::vector<Item> distribution(const std::vector<float>& logits, const SamplerParams& p,
                                      const std::vector<int>& history) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < logits.size(); ++i)
    items.push_back({static_cast<int>(i), logits[i], 0});
  for (const auto& [id, bias] : p.logit_bias) items[static_cast<std::size_t>(id)].logit += bias;
  penalize(items, p, history);
  if (p.dry_multiplier > 0) dry(items, p, history);
  std::erase_if(items, [](const Item& item) { return std::isinf(item.logit); });
  normalise(items);
  if (p.top_n_sigma > 0) sigma(items, p.top_n_sigma);
  if (p.top_k > 0 && static_cast<std::size_t>(p.top_k) < items.size()) {
    items.resize(static_cast<std::size_t>(p.top_k));
  }
  normalise(items);
  if (p.typical_p < 1) {
    const double h = entropy(items);
    std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
      return std::abs(-std::log(a.p) - h) < std::abs(-std::log(b.p) - h);
    });
    cut_mass(items, p.typical_p, true);
    normalise(items);
  }
  if (p.top_p < 1) cut_mass(items, p.top_p, false);
  std::erase_if(items, [&](const Item& item) { return item.p < p.min_p * items[0].p; });
  normalise(items);
  double t = p.temperature;
  if (p.dynatemp_range > 0 && items.size() > 1) {
    const double low = std::max(0.0, t - p.dynatemp_range);
    const double share = entropy(items) / std::log(static_cast<double>(items.size()));
    t = low + (t + p.dynatemp_range - low) * std::pow(share, p.dynatemp_exponent);
  }
  for (Item& item : items) item.logit /= t;
  normalise(items);
  return items;
}

}  // namespace orrery::engine::reference
