#include "silicon/timing.hpp"

#include <atomic>
#include <cstdint>

namespace orrery::silicon {
namespace {

constexpr int kWindows = 20;
constexpr double kWindowSeconds = 1e-3;
constexpr int kDispatches = 5'000;

struct MultiplyJob {
  double (*multiply)(int) = nullptr;
  std::atomic<double> rate{0};  // of all threads
};

void multiply_all(void* context, int) {
  MultiplyJob& job = *static_cast<MultiplyJob*>(context);
  double best = 0;
  int rounds = 1 << 10;
  for (int window = 0; window < kWindows;) {
    const std::uint64_t start = clock_ticks();
    const double operations = job.multiply(rounds);
    const double seconds = ticks_to_seconds(clock_ticks() - start);
    if (seconds < kWindowSeconds && rounds < 1 << 28) {
      rounds *= 2;
      continue;
    }
    best = std::max(best, operations / seconds);
    ++window;
  }
  job.rate += best;
}

}  // namespace

Timing timing_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  return {samples.front(), samples[samples.size() / 2]};
}

double multiply_rate(ThreadTeam& team, double (*multiply)(int rounds)) {
  if (multiply == nullptr) return 0;
  MultiplyJob job;
  job.multiply = multiply;
  team.run(multiply_all, &job);
  return job.rate;
}

Timing dispatch_latency(ThreadTeam& team) {
  std::vector<double> samples;
  samples.reserve(kDispatches);
  for (int i = 0; i < kDispatches; ++i) {
    const std::uint64_t start = clock_ticks();
    team.run([](void*, int) {}, nullptr);
    samples.push_back(ticks_to_seconds(clock_ticks() - start));
  }
  return timing_of(std::move(samples));
}

}  // namespace orrery::silicon
