// One sequence on a backend: a model's decode and prefill programs with pages of their own.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "base/checked.hpp"
#include "model/model.hpp"
#include "plan/passes.hpp"

namespace orrery::testing {

struct RunnerOptions {
  std::uint32_t context = 128;
  std::uint32_t rows = 64;  // of a batch at most
  bool deterministic = false;
  DType cache_type = DType::f32;  // not rounded, so that the reference is an oracle
  bool taps = false;
};

class PlanRunner {
 public:
  static Result<std::unique_ptr<PlanRunner>> make(const model::LoadedModel& model,
                                                  backend::Backend& backend,
                                                  const RunnerOptions& options) {
    auto runner = std::unique_ptr<PlanRunner>(new PlanRunner(options));
    for (const plan::Phase phase : {plan::Phase::decode, plan::Phase::prefill}) {
      ORRERY_TRY_VOID(runner->add_program(model, backend, phase));
    }
    return runner;
  }

  // Logits of every row, (ids, vocab). The ids continue the sequence.
  Result<std::vector<float>> feed(const std::vector<std::int32_t>& ids, plan::Phase phase) {
    std::vector<float> logits;
    for (std::size_t begin = 0; begin < ids.size(); begin += options_.rows) {
      const std::size_t end = std::min(begin + options_.rows, ids.size());
      ORRERY_TRY_VOID(run({ids.begin() + static_cast<std::ptrdiff_t>(begin),
                           ids.begin() + static_cast<std::ptrdiff_t>(end)},
                          phase, logits));
    }
    return logits;
  }
  void restart() { length_ = 0; }

  const plan::Plan& plan(plan::Phase phase) const { return entry(phase).plan; }
  const backend::Program& program(plan::Phase phase) const { return *entry(phase).program; }

 private:
  struct Entry {
    plan::Plan plan;
    std::unique_ptr<backend::Program> program;
  };

  explicit PlanRunner(const RunnerOptions& options) : options_(options) {}

  const Entry& entry(plan::Phase phase) const {
    return entries_[phase == plan::Phase::decode ? 0 : 1];
  }

  Status add_program(const model::LoadedModel& model, backend::Backend& backend,
                     plan::Phase phase) {
    model::RecordOptions record;
    record.phase = phase;
    record.capacity = {options_.rows, 1, options_.rows};
    record.deterministic = options_.deterministic;
    record.context_length = options_.context;
    record.k_type = record.v_type = options_.cache_type;
    ORRERY_TRY(plan::Plan plan, model.record(record));
    if (!options_.taps) plan = plan::drop_taps(std::move(plan));
    plan = plan::fuse(std::move(plan), [&](const plan::Plan& p, const plan::Step& step) {
      return backend.supports(p, step);
    });
    plan = plan::place(std::move(plan), options_.taps);
    backend::Bindings bindings;
    ORRERY_TRY(bindings.weights, model.bind(plan));
    bindings.experts = model.bind_experts(plan);
    const auto n_pages = static_cast<std::uint32_t>(ceil_div(options_.context, plan::kPageTokens));
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      if (pools_.size() == g) pools_.emplace_back(plan.groups[g].page_bytes() * n_pages + 64);
      // Pages in reverse order, aligned to 64 bytes.
      const auto address = reinterpret_cast<std::uintptr_t>(pools_[g].data());
      bindings.pools.push_back({pools_[g].data() + (align_up(address, 64) - address), n_pages});
    }
    pages_.resize(n_pages);
    std::iota(pages_.rbegin(), pages_.rend(), 0);
    ORRERY_TRY(auto program, backend.compile(plan, std::move(bindings)));
    entries_.push_back({std::move(plan), std::move(program)});
    return {};
  }

  Status run(const std::vector<std::int32_t>& ids, plan::Phase phase, std::vector<float>& logits) {
    const Entry& at = entry(phase);
    const auto n = static_cast<std::int32_t>(ids.size());
    std::vector<std::int32_t> positions(ids.size()), rows(ids.size()), sequences(ids.size(), 0);
    std::iota(positions.begin(), positions.end(), length_);
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<const std::int32_t*> tables(at.plan.groups.size(), pages_.data());
    backend::Batch batch;
    batch.n_tokens = batch.n_outputs = n;
    batch.n_sequences = 1;
    batch.ids = ids.data();
    batch.positions = positions.data();
    batch.row_sequence = sequences.data();
    batch.output_rows = rows.data();
    batch.page_tables = tables;
    batch.pages_stride = static_cast<std::int32_t>(pages_.size());
    ORRERY_TRY_VOID(at.program->run(batch, 0, at.program->n_steps()));
    const float* result = at.program->result();
    logits.insert(logits.end(), result, result + ids.size() * at.plan.vocab);
    length_ += n;
    return {};
  }

  RunnerOptions options_;
  std::vector<Entry> entries_;
  std::vector<std::vector<std::byte>> pools_;
  std::vector<std::int32_t> pages_;
  std::int32_t length_ = 0;
};

}  // namespace orrery::testing
