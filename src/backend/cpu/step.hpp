// What a compiled CPU step is: bound arguments and one function that every thread of the team
// enters.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/handout.hpp"
#include "kernels/dispatch.hpp"
#include "plan/plan.hpp"

namespace orrery::backend::cpu {

// A buffer of the plan in the program's scratch. Row order: rows outermost. Block order: blocks of
// 32 tokens, features outermost inside (kernels/block_kernels.hpp).
struct BufferRef {
  std::byte* data = nullptr;
  std::uint32_t cols = 0;
  plan::Form form = plan::Form::f32;
  bool blocks = false;
  std::uint64_t row_bytes = 0;  // form_row_bytes; a block of 32 tokens takes 32 of them

  explicit operator bool() const { return data != nullptr; }
  float* row(std::int64_t r) const { return reinterpret_cast<float*>(data + r * row_bytes); }
  std::byte* bytes(std::int64_t r) const { return data + r * row_bytes; }
  float* block(std::int64_t b) const { return reinterpret_cast<float*>(data + b * 32 * row_bytes); }
};

// Cosines and sines of the batch's positions for one table of frequencies, made once a run.
// Row order: (rows, dim / 2). Block order: (blocks, dim / 2, 32).
struct RopeTable {
  const std::vector<float>* frequencies = nullptr;
  float mscale = 1.0F;
  bool blocks = false;
  float* cos = nullptr;
  float* sin = nullptr;
};

// One thread inside a run.
struct Worker {
  int thread = 0;
  int threads = 1;
  const Batch* batch = nullptr;
  Cursor* cursors = nullptr;     // of the current step, one a thread
  std::byte* scratch = nullptr;  // private, 64-byte aligned

  // Items in order, whoever asks.
  std::int32_t next() const { return cursors->taken.fetch_add(1, std::memory_order_relaxed); }
  // Items in a range for each thread. A step uses one way or the other.
  Handout ranges(std::int32_t items) const { return {cursors, thread, threads, items}; }
};

class CpuStep {
 public:
  virtual ~CpuStep() = default;
  virtual void run(const Worker& worker) const = 0;
  // Starts to bring in what this thread will read first. Called a step or two before run().
  virtual void fetch(const Worker&) const {}
  // Bytes of thread-private scratch that run() uses.
  virtual std::size_t scratch_bytes() const { return 0; }
  // Bytes shared by all threads of the step (zeroed once at compile), bound before the first run.
  virtual std::size_t shared_bytes() const { return 0; }
  virtual void bind_shared(std::byte*) {}
  const std::string& kernel() const { return kernel_; }

 protected:
  std::string kernel_;
};

// Everything a step needs to bind itself.
struct CompileContext {
  const plan::Plan* plan = nullptr;
  const Bindings* bindings = nullptr;
  const kernels::KernelSet* kernels = nullptr;
  std::byte* scratch = nullptr;
  int threads = 1;
  bool blocks = false;  // token buffers are in block order
  std::vector<std::unique_ptr<std::vector<float>>>* vectors = nullptr;  // owned f32 copies
  std::vector<RopeTable>* rope_tables = nullptr;

  BufferRef buffer(plan::BufferId id) const;
  // A norm weight or bias as f32 (a copy where the file has another type); null for kNone.
  const float* vector(plan::WeightId id) const;
  const std::byte* weight(plan::WeightId id) const;
  const plan::Weight& info(plan::WeightId id) const;
  std::string kernel_label(bool block_kernel, std::string_view what, plan::WeightId id) const;
};

using StepResult = Result<std::unique_ptr<CpuStep>>;
StepResult make_embed(const CompileContext& context, const plan::Step& step);
StepResult make_norm(const CompileContext& context, const plan::Step& step);
StepResult make_quantize_rows(const CompileContext& context, const plan::Step& step);
StepResult make_matmul(const CompileContext& context, const plan::Step& step);
StepResult make_matmul_blocks(const CompileContext& context, const plan::Step& step);
StepResult make_rope_kv_write(const CompileContext& context, const plan::Step& step);
StepResult make_rope_kv_write_blocks(const CompileContext& context, const plan::Step& step);
StepResult make_attention(const CompileContext& context, const plan::Step& step);
StepResult make_attention_blocks(const CompileContext& context, const plan::Step& step);
StepResult make_select_rows(const CompileContext& context, const plan::Step& step);
StepResult make_elementwise(const CompileContext& context,
                            const plan::Step& step);  // add, mul, tap

// Writes x (n values, n % 32 == 0) as elements [begin, begin + n) of an operand row of class i8.
// `temporary` holds q8_layout(n).stride bytes.
void store_q8(const kernels::RowKernels& kernels, const float* x, std::uint32_t begin,
              std::uint32_t n, std::byte* row, std::uint32_t cols, std::byte* temporary);

kernels::ActivationKind activation_kind(plan::Activation activation);

inline std::int32_t n_blocks(std::int32_t tokens) {
  return (tokens + 31) / 32;
}
// Rows of the batch that a buffer of this extent has.
inline std::int32_t batch_rows(const Batch& batch, bool outputs) {
  return outputs ? batch.n_outputs : batch.n_tokens;
}

}  // namespace orrery::backend::cpu
