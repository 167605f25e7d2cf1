// Times of repeated calls, what a machine multiplies at best, and what it costs to hand out work.
#pragma once

#include <algorithm>
#include <vector>

#include "base/clock.hpp"
#include "base/thread_team.hpp"

namespace orrery::silicon {

// Seconds of one call.
struct Timing {
  double best = 0, median = 0;
};

// Best and median of samples, which must not be empty.
Timing timing_of(std::vector<double> samples);

// Calls until `budget` seconds are spent, but twice at least where a call takes less than 3 s. A
// sample is as many calls as a clock can time (20 us); the first call only warms up, unless it
// takes the whole budget.
template <class Call>
Timing time_calls(double budget, Call&& call) {
  constexpr double kSampleSeconds = 20e-6;
  constexpr double kLongCall = 3.0;
  constexpr std::size_t kMostSamples = 20'000;
  const double begin = now_seconds();
  std::vector<double> samples;
  int calls = 1;
  call();
  double start = now_seconds();
  const std::size_t fewest = start - begin < kLongCall ? 2 : 1;
  if (start - begin >= std::max(budget, kSampleSeconds)) samples.push_back(start - begin);
  while (samples.size() < fewest || start < begin + budget) {
    for (int i = 0; i < calls; ++i) call();
    const double now = now_seconds();
    if (now - start < kSampleSeconds && calls < 1 << 20) {
      calls *= 2;
    } else {
      samples.push_back((now - start) / calls);
      if (samples.size() == kMostSamples) break;
    }
    start = now;
  }
  return timing_of(std::move(samples));
}

// Operations per second of a loop of kernels::PeakKernels on every thread of the team at once; 0
// for a null loop. Each thread counts the best of its own short windows: on a busy machine few long
// ones pass undisturbed.
double multiply_rate(ThreadTeam& team, double (*multiply)(int rounds));

// The time from handing an empty job to all threads of the team until all are done. No product is
// in it: it is what work costs to start, not what it takes.
Timing dispatch_latency(ThreadTeam& team);

}  // namespace orrery::silicon
