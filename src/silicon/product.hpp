// One way to compute Y = X W^T, ready to be timed: what prefill does with weights as files have
// them, and the product of two packed operands.
#pragma once

#include <memory>

#include "base/thread_team.hpp"
#include "kernels/dispatch.hpp"
#include "silicon/problem.hpp"

namespace orrery::silicon {

class Product {
 public:
  virtual ~Product() = default;
  // f32 rows into the layouts that run() reads. Called once before the first run().
  virtual void pack() = 0;
  virtual void run() = 0;
  // Of the last run.
  virtual float output(int x_row, int w_row) const = 0;
};
using ProductResult = Result<std::unique_ptr<Product>>;  // E_MEMORY

// The block kernels, as prefill runs them: X is packed, rows of weights are unpacked inside run().
ProductResult make_block_product(const Problem& problem, WeightType type,
                                 const kernels::KernelSet& set, ThreadTeam& team);
// Both operands bf16 and packed.
ProductResult make_packed_product(const Problem& problem, const kernels::BlockKernels& kernels,
                                  ThreadTeam& team);

// Between its beginning and its end, the threads of a team may run the kernels of the table.
class KernelThreads {
 public:
  KernelThreads(ThreadTeam& team, const kernels::BlockKernels& kernels);
  ~KernelThreads();
  KernelThreads(const KernelThreads&) = delete;
  KernelThreads& operator=(const KernelThreads&) = delete;

 private:
  void call_on_all(void (*function)());

  ThreadTeam& team_;
  void (*end_)();
};

}  // namespace orrery::silicon
