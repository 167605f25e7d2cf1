// What adapters add to the products of a step (backend.hpp, LowRank): y += scale * B (A x).
//
// Each thread projects the step's rows onto A for itself, which takes a small part of the product
// and no barrier, and adds B's part to the weight rows that it multiplies. The sums of a row depend
// on its own operand and adapters alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/step.hpp"

namespace orrery::backend::cpu {

struct OperandRows;

// The adapters that are bound to a program.
class AdapterBank {
 public:
  struct Pair {
    std::uint32_t slot;
    LowRank numbers;
  };

  explicit AdapterBank(std::size_t n_weights) : by_weight_(n_weights) {}
  void bind(std::uint32_t slot, std::span<const LowRank> pairs);
  bool is_taken(std::uint32_t slot) const { return (taken_ >> slot & 1U) != 0; }
  // In the order of their slots; none for kNone.
  std::span<const Pair> of(plan::WeightId weight) const;
  // Bytes of a thread's memory for any step of the plan.
  std::uint64_t memory_bytes(const plan::Plan& plan, bool blocks) const;

 private:
  std::vector<std::vector<Pair>> by_weight_;
  std::uint32_t taken_ = 0;
};

// What a step knows of its weights.
struct AdaptedStep {
  AdaptedStep() = default;
  AdaptedStep(const CompileContext& context, const plan::Step& step);

  std::array<plan::WeightId, 3> weights{plan::kNone, plan::kNone, plan::kNone};
  std::uint32_t k = 0;   // of the operand
  bool is_q8 = false;    // the operand's form
  bool outputs = false;  // rows are those of the outputs
  const kernels::KernelSet* kernels = nullptr;
};

// Of rows, class f32: A x is a product of that class, with the values that a q8 row stands for;
// B's columns are added by fma in their order.
class RowAdapters {
 public:
  // Projects the rows; without adapters in the batch it does nothing.
  RowAdapters(const AdaptedStep& step, const Worker& worker, const OperandRows& rows);

  // Adds to y, elements [begin, begin + n) of the product of weight `part` with a row.
  void add(std::size_t part, std::int64_t row, std::uint32_t begin, std::uint32_t n,
           float* y) const;

 private:
  const float* scales(std::int64_t row) const;
  void project(const float* x, std::int64_t row) const;

  const AdaptedStep& step_;
  const Worker& worker_;
  std::int64_t first_row_ = 0;
  std::uint64_t stride_ = 0;    // ranks of a row
  float* projected_ = nullptr;  // (rows, stride); null: nothing to add
};

// Of token blocks, which are one sequence: A x is a product of class b16, B's columns are added as
// those of rows are.
class BlockAdapters {
 public:
  BlockAdapters(const AdaptedStep& step, const Worker& worker);

  // Whether anything is added to this step.
  explicit operator bool() const { return active_; }
  // Two areas of 32 features of `blocks` blocks.
  float* sums() const { return sums_; }
  // Token blocks [first, end) of the operand, for what follows.
  void project(const BufferRef& operand, std::int32_t first, std::int32_t end);
  // Adds to y (blocks, n, 32), features [row, row + n) of the product of weight `part`.
  void add(std::size_t part, std::uint32_t row, std::uint32_t n, float* y) const;

 private:
  const AdaptedStep& step_;
  const Worker& worker_;
  bool active_ = false;
  float *sums_ = nullptr, *factors_ = nullptr, *projected_ = nullptr;
  std::int32_t first_ = 0, end_ = 0;  // blocks that are projected
};

}  // namespace orrery::backend::cpu
