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
#include "backend/cpu/solo.hpp"
#include "kernels/dispatch.hpp"
#include "plan/plan.hpp"

namespace orrery::backend::cpu {

class AdapterBank;

// One thread inside a run.
struct Worker {
  int thread = 0;
  int threads = 1;
  const Batch* batch = nullptr;
  bool solo = false;             // a run of one row (solo.hpp) ...
  bool alone = false;            // ... and a step that every thread does for itself
  std::byte* own = nullptr;      // this thread's rows in such a run; null: those of the plan
  Cursor* cursors = nullptr;     // of the current step, one a thread
  std::byte* scratch = nullptr;  // private, 64-byte aligned
  const AdapterBank* adapters = nullptr;  // null: no sequence of the batch has one
  float* adapter_memory = nullptr;        // private, for those (adapters.hpp)

  // Items in order, whoever asks.
  std::int32_t next() const { return cursors->taken.fetch_add(1, std::memory_order_relaxed); }
  // f(item) for the items that fall to this thread: all of them in a step done alone.
  template <class F>
  void each(std::int32_t items, F f) const {
    std::int32_t own_next = 0;
    const auto take = [&] { return alone ? own_next++ : next(); };
    for (std::int32_t i = take(); i < items; i = take()) f(i);
  }
  // The same with a range for each thread, where equal items should go to the same thread in every
  // step. A step uses one way or the other.
  template <class F>
  void spread(std::int32_t items, F f) const {
    Handout handout = ranges(items);
    for (std::int32_t i = handout.next(); i >= 0; i = handout.next()) f(i);
  }
  Handout ranges(std::int32_t items) const { return {cursors, thread, threads, items}; }
};

// A buffer of the plan in the program's scratch. Row order: rows outermost. Block order: blocks of
// 32 tokens, features outermost inside (kernels/block_kernels.hpp).
struct BufferRef {
  std::byte* data = nullptr;
  std::uint32_t cols = 0;
  plan::Form form = plan::Form::f32;
  bool blocks = false;
  std::uint64_t row_bytes = 0;  // form_row_bytes; a block of 32 tokens takes 32 of them
  std::uint32_t own = kShared;  // where a thread keeps its own row in a run of one row

  explicit operator bool() const { return data != nullptr; }
  float* row(std::int64_t r) const { return reinterpret_cast<float*>(data + r * row_bytes); }
  std::byte* bytes(std::int64_t r) const { return data + r * row_bytes; }
  // The same for steps that may run alone and for those right after them.
  float* row(std::int64_t r, const Worker& worker) const {
    return reinterpret_cast<float*>(bytes(r, worker));
  }
  std::byte* bytes(std::int64_t r, const Worker& worker) const {
    return worker.own != nullptr && own != kShared ? worker.own + own : bytes(r);
  }
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

// What the rope step of rows does for the heads of one kv head, for the attention step that does it
// in its place in a run of one row.
class RowRope {
 public:
  virtual ~RowRope() = default;
  // The query heads of kv head `head`, normalised and rotated, to q (heads / kv_heads, k_dim).
  virtual void write_q(const Batch& batch, std::int32_t row, std::uint32_t head,
                       float* q) const = 0;
  // K and V of the kv head into their page; k is scratch of k_dim floats.
  virtual void write_cache(const Batch& batch, std::int32_t row, std::uint32_t head,
                           float* k) const = 0;
};

// A matrix of weights, or of one expert, and its bias.
struct Matrix {
  const std::byte* data = nullptr;
  std::uint64_t stride = 0;  // bytes of a row
  DType dtype = DType::f32;
  Layout layout = Layout::file;
  const float* bias = nullptr;

  const std::byte* row(std::uint32_t r) const { return data + r * stride; }
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
  virtual const RowRope* rope() const { return nullptr; }
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
  bool blocks = false;              // token buffers are in block order
  const SoloSteps* solo = nullptr;  // null in block order
  const RowRope* merged = nullptr;  // attention: the rope step that a run of one row merges
  std::vector<std::unique_ptr<std::vector<float>>>* vectors = nullptr;  // owned f32 copies
  std::vector<RopeTable>* rope_tables = nullptr;

  BufferRef buffer(plan::BufferId id) const;
  // A norm weight or bias as f32 (a copy where the file has another type); null for kNone.
  const float* vector(plan::WeightId id) const;
  const std::byte* weight(plan::WeightId id) const;
  const RopeTable& rope_table(const plan::Step& step) const;
  const plan::Weight& info(plan::WeightId id) const;
  plan::Order order(plan::BufferId id) const {
    return plan->buffers[static_cast<std::size_t>(id)].order;
  }
  // The i-th weight of a step with its bias; of all experts.
  Matrix matrix(const plan::Step& step, std::size_t i) const;
  std::vector<Matrix> experts(const plan::Step& step, std::size_t i) const;
  std::string kernel_label(bool block_kernel, std::string_view what, plan::WeightId id) const;
};

using StepResult = Result<std::unique_ptr<CpuStep>>;
StepResult make_embed(const CompileContext& context, const plan::Step& step);
StepResult make_norm(const CompileContext& context, const plan::Step& step);
StepResult make_quantize_rows(const CompileContext& context, const plan::Step& step);
StepResult make_matmul(const CompileContext& context, const plan::Step& step);
StepResult make_matmul_blocks(const CompileContext& context, const plan::Step& step);
StepResult make_matmul_as_decode(const CompileContext& context, const plan::Step& step);
StepResult make_moe_route(const CompileContext& context, const plan::Step& step);
StepResult make_moe_matmul(const CompileContext& context, const plan::Step& step);
StepResult make_moe_matmul_blocks(const CompileContext& context, const plan::Step& step);
StepResult make_moe_combine(const CompileContext& context, const plan::Step& step);
StepResult make_rope_kv_write(const CompileContext& context, const plan::Step& step);
StepResult make_rope_kv_write_blocks(const CompileContext& context, const plan::Step& step);
StepResult make_attention(const CompileContext& context, const plan::Step& step);
StepResult make_attention_blocks(const CompileContext& context, const plan::Step& step);
StepResult make_mla_write(const CompileContext& context, const plan::Step& step);
StepResult make_mla_write_blocks(const CompileContext& context, const plan::Step& step);
StepResult make_mla_values(const CompileContext& context, const plan::Step& step);
StepResult make_mla_attention_blocks(const CompileContext& context, const plan::Step& step);
StepResult make_conv_state(const CompileContext& context, const plan::Step& step);
StepResult make_recurrence(const CompileContext& context, const plan::Step& step);  // scan, delta
StepResult make_split(const CompileContext& context, const plan::Step& step);
StepResult make_columns(const CompileContext& context, const plan::Step& step);
StepResult make_join(const CompileContext& context, const plan::Step& step);
StepResult make_sparsify(const CompileContext& context, const plan::Step& step);
StepResult make_match_rms(const CompileContext& context, const plan::Step& step);
StepResult make_altup_predict(const CompileContext& context, const plan::Step& step);
StepResult make_altup_correct(const CompileContext& context, const plan::Step& step);
StepResult make_altup_add(const CompileContext& context, const plan::Step& step);
StepResult make_select_rows(const CompileContext& context, const plan::Step& step);
StepResult make_pool(const CompileContext& context, const plan::Step& step);
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
