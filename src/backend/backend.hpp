// A backend compiles a plan for a device and runs it. No function here is per operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/plan.hpp"

namespace orrery::backend {

// Memory of one cache group: page p starts at base + p * group.page_bytes(). Address space for
// `capacity` pages is reserved; the engine commits pages as it hands them out.
struct PagePool {
  std::byte* base = nullptr;
  std::uint32_t capacity = 0;
};

// Adapters that a program can have at once.
inline constexpr std::uint32_t kMaxAdapters = 16;

// What an adapter adds to the product of one weight: y = W x + scale * B (A x), before the bias and
// whatever follows. Adapters add in the order of their slots. A row of a sequence that has none
// gets the bits that it gets when none is bound.
struct LowRank {
  plan::WeightId weight = plan::kNone;  // of matmul and logits steps alone
  std::uint32_t rank = 0;
  const float* a = nullptr;    // (rank, cols)
  const float* b = nullptr;    // (rank, rows): the columns of B
  std::uint64_t b_stride = 0;  // floats from one to the next
};

// What changes between ticks. Plain arrays with fixed capacity, owned by the engine. Rows of one
// sequence are adjacent and have consecutive positions; a prefill batch has exactly one sequence.
struct Batch {
  std::int32_t n_tokens = 0, n_sequences = 0, n_outputs = 0;
  const std::int32_t* ids = nullptr;           // (n_tokens)
  const std::int32_t* positions = nullptr;     // (n_tokens)
  const std::int32_t* row_sequence = nullptr;  // (n_tokens): index into the page tables
  const std::int32_t* output_rows = nullptr;   // (n_outputs): rows whose logits are wanted
  // (n_tokens): which of the texts of a pair a row is of, 0 or 1 (BERT's token types). Null: 0.
  const std::int32_t* types = nullptr;
  // Per cache group: (n_sequences, pages_stride) page numbers; entry i covers positions
  // [64 i, 64 i + 64). Entries of dropped window pages are -1 and never read.
  std::span<const std::int32_t* const> page_tables;
  std::int32_t pages_stride = 0;
  // (n_sequences, kMaxAdapters): the factor of each bound adapter in a sequence; 0: it does
  // without. Null: all do without.
  const float* adapter_scales = nullptr;
};

// Where the bytes are that a plan names.
struct Bindings {
  std::vector<const std::byte*>
      weights;                  // plan.weights order: first byte of the weight's row_begin
  std::vector<PagePool> pools;  // plan.groups order
  // plan.weights order: of experts, the first byte of each one's row_begin; empty for other
  // weights. May be left out where a plan has no experts.
  std::vector<std::vector<const std::byte*>> experts{};
};

// Where the time of a step went, in seconds, the mean of the threads.
struct StepTime {
  double busy = 0;     // their own work
  double waiting = 0;  // from its end until all had ended theirs
};

class Program {
 public:
  virtual ~Program() = default;
  // Runs steps [first, last); a program can be left and resumed at every step boundary.
  virtual Status run(const Batch& batch, std::uint32_t first, std::uint32_t last) = 0;
  virtual std::uint32_t n_steps() const = 0;
  // Puts an adapter into a free slot below kMaxAdapters; its numbers outlive the program. Not while
  // it runs. E_UNSUPPORTED where a backend has no adapters, E_MEMORY.
  virtual Status bind_adapter(std::uint32_t, std::span<const LowRank>) {
    return fail("E_UNSUPPORTED", "this device cannot apply adapters");
  }
  // Rows of the plan's result, (n_outputs, cols) f32, valid until the next run.
  virtual const float* result() const = 0;
  // Copies a buffer of the last run as (rows, cols) f32, whatever its form and order (tests, taps).
  virtual std::vector<float> download(plan::BufferId buffer, std::int64_t rows) const = 0;
  virtual std::uint64_t scratch_bytes() const = 0;
  // The name of the kernel that runs a step ("avx512_vnni/matmul_i8<Q4_1>").
  virtual std::string kernel_name(std::uint32_t step) const = 0;
  // With the profile on, run() adds up the times of each step; take_step_times() gives them and
  // begins anew. Empty where a backend cannot tell.
  virtual void set_profile(bool) {}
  virtual std::vector<StepTime> take_step_times() { return {}; }
};

struct DeviceInfo {
  std::string name;         // "cpu"
  std::string description;  // "avx512_vnni, 2 threads"
  // A few rows times quantized weights are faster in class i8 than in b16, in prefill too.
  bool prefers_i8_rows = false;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceInfo info() const = 0;
  virtual bool supports(const plan::Plan& plan, const plan::Step& step) const = 0;
  // The plan has been placed. E_UNSUPPORTED names the step that the device cannot run.
  virtual Result<std::unique_ptr<Program>> compile(const plan::Plan& plan, Bindings bindings) = 0;
};

struct CpuOptions {
  int threads = 0;  // 0: physical cores
  std::string isa;  // "" chooses; "emu", "avx2", "avx512", ...: forced (ORRERY_ISA)
};

// Errors: E_ISA when the forced instruction set is unknown or this machine lacks it.
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options);
// Obvious loops in double precision over the same plan: the oracle for all others.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace orrery::backend
