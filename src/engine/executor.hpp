// Runs a model's plans: compiled programs of the phases, the pages they read and write, and the
// arrays that change between runs. All memory is taken at creation, pages apart. One thread at a
// time; turn() is the lock for those who share it, and get it in the order in which they ask.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "base/fair_mutex.hpp"
#include "base/result.hpp"
#include "engine/kv_pages.hpp"
#include "model/adapter.hpp"
#include "plan/plan.hpp"
#include "storage/checkpoint.hpp"
#include "text/tokenizer.hpp"

namespace orrery::engine {

// A recorded plan and the first byte of each of its weights, and of each expert (backend.hpp).
struct BoundPlan {
  plan::Plan plan;
  std::vector<const std::byte*> weights;
  std::vector<std::vector<const std::byte*>> experts{};
};

// `plan` without taps, fused as far as the backend supports it; still to be placed.
plan::Plan fused_for(const backend::Backend& backend, plan::Plan plan);

// One token of one sequence in a decode run; its page must be there.
struct DecodeRow {
  SequenceId sequence = 0;
  text::TokenId id = 0;
  std::int32_t position = 0;
};

// Sees what enters the products of a run.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // The input of a product with weights, (rows, cols), before it; of moe_route what it chose.
  virtual void see(const plan::Plan& plan, const plan::Step& step, std::span<const float> rows) = 0;
};

// The factors of the bound adapters in a sequence; 0: it does without.
using AdapterScales = std::array<float, backend::kMaxAdapters>;

class Executor {
 public:
  // Fuses and places both plans for the backend and compiles them. Both list the same groups.
  static Result<std::unique_ptr<Executor>> create(BoundPlan decode, BoundPlan prefill,
                                                  backend::Backend& backend, KvOptions kv);

  // Plans of the same shapes and results, over weights that `fill` lays out anew. They take the
  // place of the others before the second run, so that the first token does not wait for them. The
  // backend outlives the executor.
  void follow_with(BoundPlan decode, BoundPlan prefill, backend::Backend& backend,
                   std::function<Status()> fill);
  // Puts them in their place now, unless they are; logits of an earlier run are gone. E_MEMORY,
  // errors of `fill`: then the first ones stay.
  Status settle();

  // The files that the weights are mapped from, which outlive the executor. From then on a run
  // fails with E_CHANGED once one of them has lost bytes: before it, or instead of giving its
  // logits.
  void watch(const storage::Checkpoint& files) { files_ = &files; }
  // The same for files that were written to since they were mapped: a system call for each.
  Status check_files() const;

  [[nodiscard]] std::unique_lock<FairMutex> turn() { return std::unique_lock(mutex_); }

  KvPages& kv() { return *kv_; }
  const KvPages& kv() const { return *kv_; }
  std::uint32_t context() const { return context_; }
  std::uint32_t vocab() const { return decode_.plan.vocab; }
  std::uint32_t max_prefill_tokens() const { return prefill_.plan.capacity.tokens; }
  std::uint32_t max_prefill_outputs() const {
    return std::min(decode_.plan.capacity.outputs, prefill_.plan.capacity.outputs);
  }
  // True when prefill() takes the decode plan for so many tokens.
  bool prefers_decode(std::size_t tokens) const;
  std::uint32_t max_decode_rows() const { return decode_.plan.capacity.tokens; }
  const plan::Plan& decode_plan() const { return decode_.plan; }  // as it is run
  const plan::Plan& prefill_plan() const { return prefill_.plan; }
  const backend::Program& decode_program() const { return *decode_.program; }
  const backend::Program& prefill_program() const { return *prefill_.program; }
  backend::Program& decode_program() { return *decode_.program; }  // for its profile
  backend::Program& prefill_program() { return *prefill_.program; }
  std::uint64_t scratch_bytes() const;

  // Makes an adapter of this model ready for both programs; its number is an index of
  // AdapterScales. The adapter outlives the executor. E_ADAPTER when as many are bound as can be,
  // E_UNSUPPORTED and E_MEMORY by the backend.
  Result<std::uint32_t> bind_adapter(const model::Adapter& adapter);
  std::uint32_t n_adapters() const { return n_adapters_; }
  // From the next run on. What the pages of the sequence hold was computed with others: the caller
  // forgets it.
  void set_adapters(SequenceId sequence, const AdapterScales& scales);
  const AdapterScales& adapters(SequenceId sequence) const {
    return adapters_[static_cast<std::size_t>(sequence)];
  }

  // From then on runs go step by step and show their inputs, which is slow; null ends it.
  void observe(InputObserver* observer) { observer_ = observer; }

  // Tokens at positions start, start + 1, ... of one sequence; its pages cover them. Logits of the
  // rows in `outputs` (at most max_prefill_outputs()) are in logits() afterwards, row after row.
  Status prefill(SequenceId sequence, std::span<const text::TokenId> ids, std::uint32_t start,
                 std::span<const std::int32_t> outputs);
  // Logits of other rows of the last prefill, without computing the layers again.
  Status prefill_outputs(std::span<const std::int32_t> outputs);
  // At most max_decode_rows(), each of another sequence. Logits of every row.
  Status decode(std::span<const DecodeRow> rows);
  // (rows of the last run, vocab), valid until the next run.
  std::span<const float> logits(std::size_t row) const;

 private:
  struct Phase {
    plan::Plan plan;
    std::unique_ptr<backend::Program> program;
    std::uint32_t head = 0;  // index of select_rows: what comes from here on is per output
  };

  struct Following {
    BoundPlan decode, prefill;
    backend::Backend* backend = nullptr;
    std::function<Status()> fill;
  };

  Executor() = default;
  Status begin_run();
  Status prepare(Phase& phase, BoundPlan bound, backend::Backend& backend);
  Status run(Phase& phase, std::uint32_t first_step, std::uint32_t last_step);
  Status run_observed(Phase& phase, std::uint32_t first_step, std::uint32_t last_step);
  Status check_mapped();
  const float* scales_of(std::span<const DecodeRow> rows);

  FairMutex mutex_;
  InputObserver* observer_ = nullptr;
  const storage::Checkpoint* files_ = nullptr;
  std::uint32_t seen_hits_ = 0;  // of BusGuard, when the files were last found whole
  std::uint32_t context_ = 0;
  std::unique_ptr<KvPages> kv_;
  Phase decode_, prefill_;
  std::optional<Following> following_;
  bool has_run_ = false;
  Phase* prompt_phase_ = nullptr;  // that ran the last prefill
  const float* result_ = nullptr;
  backend::Batch batch_;
  std::uint32_t n_adapters_ = 0;
  std::vector<AdapterScales> adapters_;                       // (sequences)
  std::vector<AdapterScales> joined_scales_;                  // (decode rows)
  std::vector<std::int32_t> ids_, positions_, row_sequence_;  // (most tokens of a phase)
  std::vector<std::int32_t> output_rows_;                     // (most outputs of a phase)
  std::vector<const std::int32_t*> tables_;                   // (groups)
  std::vector<std::vector<std::int32_t>> joined_tables_;      // (groups): (decode rows, stride)
};

}  // namespace orrery::engine
