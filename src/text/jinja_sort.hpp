// A stable sort that stays inside its range whatever the comparison says: NaN has no order, and
// std::sort may walk out of the range then.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace orrery::text::jinja {

template <class T, class Less>
void merge_sort(std::vector<T>& values, Less less) {
  std::vector<T> merged;
  for (std::size_t width = 1; width < values.size(); width *= 2) {
    merged.clear();
    merged.reserve(values.size());
    for (std::size_t begin = 0; begin < values.size(); begin += 2 * width) {
      std::size_t left = begin;
      const std::size_t middle = std::min(begin + width, values.size());
      std::size_t right = middle;
      const std::size_t end = std::min(begin + 2 * width, values.size());
      while (left < middle && right < end) {
        const bool take_right = less(values[right], values[left]);
        merged.push_back(std::move(values[take_right ? right++ : left++]));
      }
      while (left < middle) merged.push_back(std::move(values[left++]));
      while (right < end) merged.push_back(std::move(values[right++]));
    }
    std::swap(values, merged);
  }
}

}  // namespace orrery::text::jinja
