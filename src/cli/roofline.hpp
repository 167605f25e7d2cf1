// How fast this machine can read the model's bytes and multiply at all: what a step is held
// against, measured in the same run by as many threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/model.hpp"
#include "kernels/peak_kernels.hpp"
#include "plan/cost.hpp"

namespace orrery::cli {

struct Roofline {
  double plain_read = 0, prefetched_read = 0;  // bytes per second
  // Operations per second, two for each multiply-add; 0 where the kernels have no such instruction.
  double f32 = 0, i8 = 0, bf16 = 0, tile = 0;

  double read() const { return std::max(plain_read, prefetched_read); }
  // Of the products of a class: b16 is for tiles, else for bf16 dot products, else for f32.
  double multiply(plan::NumberClass number_class) const;
};

// The reads: passes over all spans, pieces of which the threads take in turns; the fastest stretch
// of 32 MiB counts.
Roofline measure_reads(const std::vector<std::span<const std::byte>>& spans, int threads,
                       const kernels::PeakKernels& peaks);
// Bytes per second that the threads of a model that is being served can read of its weights: the
// fastest of stretches of 32 MiB, each in the executor's turn, so that running answers and this do
// not disturb each other and none waits for more than one of them. A second at most.
double measure_reads_beside(const engine::Model& model, const kernels::PeakKernels& peaks);
// Fills in the products.
void measure_products(Roofline& roofline, int threads, const kernels::PeakKernels& peaks);

// The part of what the machine could do in `seconds` that a step did, by the roof that is nearer.
struct RoofFraction {
  double fraction = 0;
  const char* roof = "";  // "read" or "multiply"; "" where the step does neither
};
RoofFraction roof_fraction(const Roofline& roofline, const plan::StepCost& cost,
                           plan::NumberClass number_class, double seconds);

}  // namespace orrery::cli
