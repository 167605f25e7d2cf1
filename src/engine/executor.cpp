#include "engine/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "memory/bus_guard.hpp"
#include "plan/passes.hpp"

namespace orrery::engine {
namespace {

// Prompts of so few tokens take the decode plan, whose time grows with the rows; blocks of 32
// tokens cost what a full one does.
constexpr std::uint32_t kFewTokens = 12;

std::uint32_t find_head(const plan::Plan& plan) {
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].op == plan::Op::select_rows) return static_cast<std::uint32_t>(i);
  }
  return static_cast<std::uint32_t>(plan.steps.size());
}

}  // namespace

plan::Plan fused_for(const backend::Backend& backend, plan::Plan plan) {
  return plan::fuse(
      plan::drop_taps(std::move(plan)),
      [&](const plan::Plan& p, const plan::Step& step) { return backend.supports(p, step); });
}

Result<std::unique_ptr<Executor>> Executor::create(BoundPlan decode, BoundPlan prefill,
                                                   backend::Backend& backend, KvOptions kv) {
  ORRERY_CHECK(decode.plan.groups == prefill.plan.groups);
  std::unique_ptr<Executor> executor(new Executor);
  executor->context_ = kv.context;
  kv.slice = std::max(decode.plan.capacity.tokens, prefill.plan.capacity.tokens);
  ORRERY_TRY(executor->kv_, KvPages::create(decode.plan.groups, kv));
  ORRERY_TRY_VOID(executor->prepare(executor->decode_, std::move(decode), backend));
  ORRERY_TRY_VOID(executor->prepare(executor->prefill_, std::move(prefill), backend));

  const plan::Capacity& d = executor->decode_.plan.capacity;
  const plan::Capacity& p = executor->prefill_.plan.capacity;
  for (auto* rows : {&executor->ids_, &executor->positions_, &executor->row_sequence_}) {
    rows->resize(std::max(d.tokens, p.tokens));
  }
  executor->output_rows_.resize(std::max(d.outputs, p.outputs));
  const std::size_t n_groups = executor->kv_->n_groups();
  executor->tables_.resize(n_groups);
  executor->adapters_.resize(kv.sequences);
  executor->joined_scales_.resize(d.sequences);
  const auto stride = static_cast<std::size_t>(executor->kv_->stride());
  executor->joined_tables_.assign(n_groups, std::vector<std::int32_t>(d.sequences * stride, -1));
  backend::Batch& batch = executor->batch_;
  batch.ids = executor->ids_.data();
  batch.positions = executor->positions_.data();
  batch.row_sequence = executor->row_sequence_.data();
  batch.output_rows = executor->output_rows_.data();
  batch.page_tables = executor->tables_;
  batch.pages_stride = executor->kv_->stride();
  return executor;
}

Status Executor::prepare(Phase& phase, BoundPlan bound, backend::Backend& backend) {
  plan::Plan plan = fused_for(backend, std::move(bound.plan));
  phase.head = find_head(plan);
  if (phase.head < plan.steps.size()) {
    // A last step that reads the rows of all tokens keeps them alive to the end of the plan, so
    // that the head can run again for other rows.
    plan::Step keep;
    keep.op = plan::Op::tap;
    keep.in[0] = plan.steps[phase.head].in[0];
    plan.steps.push_back(keep);
  }
  phase.plan = plan::place(std::move(plan), false);
  backend::Bindings bindings{std::move(bound.weights), kv_->pools(), std::move(bound.experts)};
  ORRERY_TRY(phase.program, backend.compile(phase.plan, std::move(bindings)));
  return {};
}

void Executor::follow_with(BoundPlan decode, BoundPlan prefill, backend::Backend& backend,
                           std::function<Status()> fill) {
  following_.emplace(std::move(decode), std::move(prefill), &backend, std::move(fill));
}

Status Executor::settle() {
  if (!following_) return {};
  Following next = std::move(*following_);
  following_.reset();
  Phase decode, prefill;
  ORRERY_TRY_VOID(prepare(decode, std::move(next.decode), *next.backend));
  ORRERY_TRY_VOID(prepare(prefill, std::move(next.prefill), *next.backend));
  // Compiling reads the files: they are let go of behind it.
  ORRERY_TRY_VOID(next.fill());
  decode_ = std::move(decode);
  prefill_ = std::move(prefill);
  prompt_phase_ = nullptr;
  result_ = nullptr;
  return {};
}

Status Executor::begin_run() {
  if (has_run_) ORRERY_TRY_VOID(settle());
  has_run_ = true;
  return {};
}

std::uint64_t Executor::scratch_bytes() const {
  return decode_.program->scratch_bytes() + prefill_.program->scratch_bytes();
}

Status Executor::run(Phase& phase, std::uint32_t first_step, std::uint32_t last_step) {
  ORRERY_TRY_VOID(check_mapped());
  if (observer_ != nullptr) {
    ORRERY_TRY_VOID(run_observed(phase, first_step, last_step));
  } else {
    ORRERY_TRY_VOID(phase.program->run(batch_, first_step, last_step));
  }
  return check_mapped();
}

Status Executor::run_observed(Phase& phase, std::uint32_t first_step, std::uint32_t last_step) {
  for (std::uint32_t i = first_step; i < last_step; ++i) {
    const plan::Step& step = phase.plan.steps[i];
    const auto show = [&](plan::BufferId id) {
      const plan::Buffer& buffer = phase.plan.buffers[static_cast<std::size_t>(id)];
      const std::int64_t rows =
          buffer.order == plan::Order::experts
              ? std::int64_t{batch_.n_tokens} * step.experts_used
              : buffer.rows.at(batch_.n_tokens, batch_.n_sequences, batch_.n_outputs);
      observer_->see(phase.plan, step, phase.program->download(id, rows));
    };
    const bool multiplies = step.op == plan::Op::matmul || step.op == plan::Op::moe_matmul ||
                            step.op == plan::Op::logits;
    if (multiplies) show(step.in[0]);
    ORRERY_TRY_VOID(phase.program->run(batch_, i, i + 1));
    if (step.op == plan::Op::moe_route) show(step.out[0]);
  }
  return {};
}

Result<std::uint32_t> Executor::bind_adapter(const model::Adapter& adapter) {
  if (n_adapters_ == backend::kMaxAdapters) {
    return fail(
        "E_ADAPTER",
        fmt::format("{} adapters are loaded, which is as many as a model takes", n_adapters_));
  }
  ORRERY_TRY_VOID(settle());
  const std::uint32_t slot = n_adapters_++;  // taken, even if the second program cannot have it
  for (const Phase* phase : {&decode_, &prefill_}) {
    std::vector<backend::LowRank> pairs;
    for (std::size_t i = 0; i < phase->plan.weights.size(); ++i) {
      const plan::Weight& weight = phase->plan.weights[i];
      const auto pair =
          std::ranges::find(adapter.pairs, weight.tensor, &model::AdapterPair::tensor);
      if (pair == adapter.pairs.end()) continue;
      ORRERY_CHECK(pair->cols == weight.cols && weight.row_begin + weight.rows <= pair->rows);
      pairs.push_back({static_cast<plan::WeightId>(i), pair->rank, pair->a.data(),
                       pair->b.data() + weight.row_begin, pair->rows});
    }
    ORRERY_TRY_VOID(phase->program->bind_adapter(slot, pairs));
  }
  return slot;
}

void Executor::set_adapters(SequenceId sequence, const AdapterScales& scales) {
  adapters_[static_cast<std::size_t>(sequence)] = scales;
}

// Of one row after the other; null where none has an adapter.
const float* Executor::scales_of(std::span<const DecodeRow> rows) {
  const auto is_used = [](float scale) { return scale != 0.0F; };
  bool any = false;
  for (std::size_t i = 0; i < rows.size() && n_adapters_ > 0; ++i) {
    joined_scales_[i] = adapters(rows[i].sequence);
    any = any || std::ranges::any_of(joined_scales_[i], is_used);
  }
  return any ? joined_scales_[0].data() : nullptr;
}

// One load as long as no mapped file of the process lost bytes.
Status Executor::check_mapped() {
  const std::uint32_t hits = memory::BusGuard::hits();
  if (hits == seen_hits_) return {};
  if (files_ != nullptr) ORRERY_TRY_VOID(files_->check_files(false));
  ORRERY_TRY_VOID(kv_->check_mapped());
  seen_hits_ = hits;  // they were another model's
  return {};
}

Status Executor::check_files() const {
  return files_ == nullptr ? Status{} : files_->check_files(true);
}

bool Executor::prefers_decode(std::size_t tokens) const {
  return tokens <= std::min(kFewTokens, max_decode_rows());
}

Status Executor::prefill(SequenceId sequence, std::span<const text::TokenId> ids,
                         std::uint32_t start, std::span<const std::int32_t> outputs) {
  ORRERY_CHECK(!ids.empty() && ids.size() <= max_prefill_tokens());
  ORRERY_CHECK(start + ids.size() <= kv_->length(sequence));
  ORRERY_TRY_VOID(begin_run());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids_[i] = ids[i];
    positions_[i] = static_cast<std::int32_t>(start + i);
    row_sequence_[i] = 0;
  }
  for (std::size_t g = 0; g < tables_.size(); ++g) tables_[g] = kv_->table(sequence, g);
  const DecodeRow any_row{sequence};
  batch_.adapter_scales = scales_of({&any_row, 1});
  batch_.n_tokens = static_cast<std::int32_t>(ids.size());
  batch_.n_sequences = 1;
  batch_.n_outputs = 0;
  prompt_phase_ = prefers_decode(ids.size()) ? &decode_ : &prefill_;
  ORRERY_TRY_VOID(run(*prompt_phase_, 0, prompt_phase_->head));
  if (outputs.empty()) return {};
  return prefill_outputs(outputs);
}

Status Executor::prefill_outputs(std::span<const std::int32_t> outputs) {
  ORRERY_CHECK(prompt_phase_ != nullptr);
  ORRERY_CHECK(!outputs.empty() && outputs.size() <= max_prefill_outputs());
  std::copy(outputs.begin(), outputs.end(), output_rows_.begin());
  batch_.n_outputs = static_cast<std::int32_t>(outputs.size());
  ORRERY_TRY_VOID(run(*prompt_phase_, prompt_phase_->head, prompt_phase_->program->n_steps()));
  result_ = prompt_phase_->program->result();
  return {};
}

Status Executor::decode(std::span<const DecodeRow> rows) {
  ORRERY_CHECK(!rows.empty() && rows.size() <= max_decode_rows());
  ORRERY_TRY_VOID(begin_run());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ids_[i] = rows[i].id;
    positions_[i] = rows[i].position;
    row_sequence_[i] = output_rows_[i] = static_cast<std::int32_t>(i);
  }
  const auto stride = static_cast<std::size_t>(kv_->stride());
  for (std::size_t g = 0; g < tables_.size(); ++g) {
    tables_[g] = kv_->table(rows[0].sequence, g);
    if (rows.size() == 1) continue;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int32_t* table = kv_->table(rows[i].sequence, g);
      const auto used =
          ceil_div(static_cast<std::uint64_t>(rows[i].position) + 1, plan::kPageTokens);
      std::copy(table, table + used,
                joined_tables_[g].begin() + static_cast<std::ptrdiff_t>(i * stride));
    }
    tables_[g] = joined_tables_[g].data();
  }
  batch_.adapter_scales = scales_of(rows);
  batch_.n_tokens = batch_.n_sequences = batch_.n_outputs = static_cast<std::int32_t>(rows.size());
  ORRERY_TRY_VOID(run(decode_, 0, decode_.program->n_steps()));
  result_ = decode_.program->result();
  return {};
}

std::span<const float> Executor::logits(std::size_t row) const {
  ORRERY_CHECK(result_ != nullptr && row < static_cast<std::size_t>(batch_.n_outputs));
  return {result_ + row * vocab(), vocab()};
}

}  // namespace orrery::engine
