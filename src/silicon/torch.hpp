// torch as a rival, where python3 has it: it runs as a process of its own.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "silicon/problem.hpp"
#include "silicon/timing.hpp"

namespace orrery::silicon {

struct TorchTime {
  int size = 0;
  WeightType type = WeightType::f32;  // f32 or bf16, of both operands and of the result
  Timing time;
};

struct TorchRequest {
  std::vector<int> sizes;
  int small_size = 0;  // up to this size, one thread
  int threads = 1;
  double small_seconds = 0.1, large_seconds = 0.5;
};

// E_TORCH says in one line why there is no figure.
Result<std::vector<TorchTime>> time_torch(const TorchRequest& request);

// What the process prints, a line "SIZE TYPE BEST MEDIAN" for each product; for tests.
Result<std::vector<TorchTime>> parse_torch(const std::string& output);

}  // namespace orrery::silicon
