#include "backend/cpu/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "backend/cpu/expert_lists.hpp"
#include "base/check.hpp"
#include "base/checked.hpp"
#include "base/clock.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::uint32_t kNoStep = UINT32_MAX;

std::uint64_t rope_bytes(const plan::Plan& plan, const RopeTable& table) {
  const std::uint64_t rows = align_up(plan.capacity.tokens, 32);
  return align_up(rows * table.frequencies->size() * 4, 64);
}

StepResult make_step(const CompileContext& context, const plan::Step& step) {
  const bool blocks = context.buffer(step.in[0]).blocks;
  switch (step.op) {
    case plan::Op::embed:
      return make_embed(context, step);
    case plan::Op::norm:
      return make_norm(context, step);
    case plan::Op::quantize_rows:
      return make_quantize_rows(context, step);
    case plan::Op::matmul:
      if (!blocks) return make_matmul(context, step);
      if (step.number_class != plan::NumberClass::b16) return make_matmul_as_decode(context, step);
      return make_matmul_blocks(context, step);
    case plan::Op::logits:
      return make_matmul(context, step);
    case plan::Op::moe_route:
      return make_moe_route(context, step);
    case plan::Op::moe_matmul:
      if (step.number_class != plan::NumberClass::b16) return make_moe_matmul(context, step);
      return make_moe_matmul_blocks(context, step);
    case plan::Op::moe_combine:
      return make_moe_combine(context, step);
    case plan::Op::rope_kv_write:
      return blocks ? make_rope_kv_write_blocks(context, step) : make_rope_kv_write(context, step);
    case plan::Op::attention:
      return blocks ? make_attention_blocks(context, step) : make_attention(context, step);
    case plan::Op::mla_write:
      return blocks ? make_mla_write_blocks(context, step) : make_mla_write(context, step);
    case plan::Op::mla_values:
      return make_mla_values(context, step);
    case plan::Op::mla_attention:
      return make_mla_attention_blocks(context, step);
    case plan::Op::conv_state:
      return make_conv_state(context, step);
    case plan::Op::scan_state:
    case plan::Op::delta_state:
      return make_recurrence(context, step);
    case plan::Op::split:
      return make_split(context, step);
    case plan::Op::columns:
      return make_columns(context, step);
    case plan::Op::join:
      return make_join(context, step);
    case plan::Op::sparsify:
      return make_sparsify(context, step);
    case plan::Op::match_rms:
      return make_match_rms(context, step);
    case plan::Op::altup_predict:
      return make_altup_predict(context, step);
    case plan::Op::altup_correct:
      return make_altup_correct(context, step);
    case plan::Op::altup_add:
      return make_altup_add(context, step);
    case plan::Op::select_rows:
      return make_select_rows(context, step);
    case plan::Op::pool:
      return make_pool(context, step);
    case plan::Op::add:
    case plan::Op::mul:
    case plan::Op::tap:
      return make_elementwise(context, step);
  }
  ORRERY_CHECK(false);
}

// Ticks since `before`, which becomes now.
std::uint64_t lap(std::uint64_t& before) {
  const std::uint64_t now = clock_ticks();
  return now - std::exchange(before, now);
}

}  // namespace

CpuProgram::CpuProgram(const plan::Plan& plan, Bindings bindings, const kernels::KernelSet& kernels,
                       std::shared_ptr<ThreadTeam> team)
    : plan_(plan),
      bindings_(std::move(bindings)),
      kernels_(kernels),
      team_(std::move(team)),
      adapters_(plan.weights.size()),
      barrier_(team_->size()),
      cursors_(3 * static_cast<std::size_t>(team_->size())) {
  blocks_ = std::ranges::any_of(plan_.steps, [](const plan::Step& step) {
    return step.number_class == plan::NumberClass::b16;
  });
  for (const plan::Step& step : plan_.steps) {
    if (step.op != plan::Op::embed) continue;
    embed_rows_ = plan_.weights[static_cast<std::size_t>(step.w[0])].rows;
    break;  // others are beside the vocabulary's
  }
}

Result<std::unique_ptr<CpuProgram>> CpuProgram::compile(const plan::Plan& plan, Bindings bindings,
                                                        const kernels::KernelSet& kernels,
                                                        std::shared_ptr<ThreadTeam> team) {
  ORRERY_CHECK(bindings.weights.size() == plan.weights.size());
  ORRERY_CHECK(bindings.pools.size() == plan.groups.size());
  std::unique_ptr<CpuProgram> program(
      new CpuProgram(plan, std::move(bindings), kernels, std::move(team)));
  program->add_rope_tables();
  ORRERY_TRY_VOID(program->bind_steps());
  return program;
}

void CpuProgram::add_rope_tables() {
  for (const plan::Step& step : plan_.steps) {
    if (step.rope == plan::RopeStyle::none) continue;
    const auto* frequencies = &plan_.constants[static_cast<std::size_t>(step.rope_table)];
    const bool known = std::ranges::any_of(rope_tables_, [&](const RopeTable& table) {
      return table.frequencies == frequencies && table.mscale == step.rope_mscale;
    });
    if (!known) rope_tables_.push_back({frequencies, step.rope_mscale, blocks_, nullptr, nullptr});
  }
}

// Two passes: the first learns how much memory the steps want, the second binds them to it.
Status CpuProgram::bind_steps() {
  std::uint64_t rope_total = 0;
  for (const RopeTable& table : rope_tables_) rope_total += 2 * rope_bytes(plan_, table);
  std::uint64_t shared_total = 0;
  if (!blocks_) solo_ = solo_steps(plan_);
  memory::Tape tape;
  for (const bool measure : {true, false}) {
    tape = memory::Tape({region_.data(), region_.size()});
    std::byte* base = tape.take(measure ? 0 : plan_.scratch_bytes);
    CompileContext context{.plan = &plan_,
                           .bindings = &bindings_,
                           .kernels = &kernels_,
                           .scratch = base,
                           .threads = team_->size(),
                           .blocks = blocks_,
                           .solo = blocks_ ? nullptr : &solo_,
                           .vectors = &vectors_,
                           .rope_tables = &rope_tables_};
    if (!measure) {
      for (RopeTable& table : rope_tables_) {
        table.cos = reinterpret_cast<float*>(tape.take(rope_bytes(plan_, table)));
        table.sin = reinterpret_cast<float*>(tape.take(rope_bytes(plan_, table)));
      }
    }
    vectors_.clear();
    steps_.clear();
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      const bool merges = !blocks_ && s > 0 && solo_.merged[s - 1];
      context.merged = merges ? steps_.back()->rope() : nullptr;
      ORRERY_TRY(std::unique_ptr<CpuStep> bound, make_step(context, plan_.steps[s]));
      thread_scratch_bytes_ = std::max(thread_scratch_bytes_, align_up(bound->scratch_bytes(), 64));
      shared_total = std::max(shared_total, align_up(bound->shared_bytes(), 64));
      steps_.push_back(std::move(bound));
    }
    if (!measure) break;
    const std::uint64_t total = align_up(plan_.scratch_bytes, 64) + rope_total + shared_total +
                                thread_bytes() * static_cast<std::uint64_t>(team_->size());
    ORRERY_TRY(region_, memory::Region::map(total));
  }
  // Steps run one after the other, so they share one area; counters in it return to zero.
  std::byte* shared = tape.take(shared_total);
  for (const auto& step : steps_) step->bind_shared(shared);
  const auto threads = static_cast<std::size_t>(team_->size());
  const std::uint64_t thread_total = thread_bytes() * threads;
  std::byte* of_threads = tape.take(thread_total);
  ORRERY_CHECK(of_threads != nullptr);
  tapes_ = memory::split({of_threads, thread_total}, threads, runs_);
  link_matmuls();
  if (plan_.result != plan::kNone) {
    const plan::Buffer& result = plan_.buffers[static_cast<std::size_t>(plan_.result)];
    result_ = reinterpret_cast<const float*>(region_.data() + result.offset);
  }
  return {};
}

// After a step that multiplied weights, a thread starts to fetch the next such step's; the first
// step does it for the first one.
void CpuProgram::link_matmuls() {
  matmul_after_.assign(steps_.size(), kNoStep);
  std::uint32_t last = 0;
  for (std::uint32_t s = 1; s < steps_.size(); ++s) {
    const plan::Op op = plan_.steps[s].op;
    const bool multiplies =
        op == plan::Op::matmul || op == plan::Op::moe_matmul || op == plan::Op::logits;
    if (!multiplies) continue;
    matmul_after_[last] = s;
    last = s;
  }
}

Status CpuProgram::check(const Batch& batch, std::uint32_t first, std::uint32_t last) const {
  ORRERY_CHECK(first <= last && last <= steps_.size());
  ORRERY_CHECK(batch.n_tokens >= 0 && batch.n_outputs >= 0);
  ORRERY_CHECK(static_cast<std::uint32_t>(batch.n_tokens) <= plan_.capacity.tokens);
  ORRERY_CHECK(static_cast<std::uint32_t>(batch.n_outputs) <= plan_.capacity.outputs);
  ORRERY_CHECK(batch.page_tables.size() == plan_.groups.size());
  for (std::int32_t i = 0; i < batch.n_tokens; ++i) {
    if (batch.ids[i] < 0 || static_cast<std::uint32_t>(batch.ids[i]) >= embed_rows_) {
      return fail("E_TOKEN", fmt::format("token id {} is outside of the vocabulary of {}",
                                         batch.ids[i], embed_rows_));
    }
  }
  return {};
}

Status CpuProgram::bind_adapter(std::uint32_t slot, std::span<const LowRank> pairs) {
  AdapterBank adapters = adapters_;
  adapters.bind(slot, pairs);
  const std::uint64_t bytes = align_up(adapters.memory_bytes(plan_, blocks_), 64);
  if (bytes > adapter_bytes_) {
    ORRERY_TRY(adapter_region_,
               memory::Region::map(bytes * static_cast<std::uint64_t>(team_->size())));
    adapter_bytes_ = bytes;
  }
  adapters_ = std::move(adapters);
  return {};
}

Status CpuProgram::run(const Batch& batch, std::uint32_t first, std::uint32_t last) {
  ORRERY_TRY_VOID(check(batch, first, last));
  batch_ = &batch;
  first_ = first;
  last_ = last;
  solo_run_ = !blocks_ && batch.n_tokens == 1 && batch.n_outputs <= 1;
  for (Cursor& cursor : cursors_) cursor.taken.store(0, std::memory_order_relaxed);
  runs_.end();
  team_->run([](void* self, int thread) { static_cast<CpuProgram*>(self)->work(thread); }, this);
  batch_ = nullptr;
  return {};
}

void CpuProgram::work(int thread) {
  memory::Tape& tape = tapes_[static_cast<std::size_t>(thread)];
  Worker worker{.thread = thread, .threads = team_->size(), .batch = batch_, .solo = solo_run_};
  worker.scratch = tape.take(thread_scratch_bytes_);
  worker.own = solo_run_ && thread != 0 ? tape.take(solo_.own_bytes) : nullptr;
  if (batch_->adapter_scales != nullptr && adapter_bytes_ > 0) {
    worker.adapters = &adapters_;
    worker.adapter_memory = reinterpret_cast<float*>(
        adapter_region_.data() + adapter_bytes_ * static_cast<std::uint64_t>(thread));
  }
  if (blocks_) kernels_.blocks->thread_begin();
  // The tables are read after the barrier of a later step, because rope follows a matmul.
  if (first_ == 0 && !rope_tables_.empty()) fill_rope_tables(thread);
  StepTicks* ticks = profile_ ? &ticks_[ticks_stride_ * static_cast<std::size_t>(thread)] : nullptr;
  std::uint64_t before = profile_ ? clock_ticks() : 0;
  std::uint32_t epoch = 0;  // barriers passed
  for (std::uint32_t s = first_; s < last_; ++s) {
    worker.alone = solo_run_ && solo_.alone[s];
    const bool merged = solo_run_ && solo_.merged[s] && s + 1 < last_;
    if (!worker.alone && !merged) {
      // Everybody left epoch - 2 before epoch - 1 began, so its cursors are free for epoch + 1.
      cursors(epoch + 1)[thread].taken.store(0, std::memory_order_relaxed);
      worker.cursors = cursors(epoch);
    }
    if (!merged) steps_[s]->run(worker);
    if (matmul_after_[s] != kNoStep) steps_[matmul_after_[s]]->fetch(worker);
    if (ticks != nullptr) ticks[s].busy += lap(before);
    if (!worker.alone && !merged) {
      barrier_.wait();
      ++epoch;
    }
    if (ticks != nullptr) ticks[s].waiting += lap(before);
  }
  if (blocks_) kernels_.blocks->thread_end();
}

// Angles as the references compute them: float(position) * frequency in f32, then cos and sin.
void CpuProgram::fill_rope_tables(int thread) {
  for (const RopeTable& table : rope_tables_) {
    const std::size_t half = table.frequencies->size();
    const std::int32_t rows = batch_->n_tokens;
    const std::int32_t padded = table.blocks ? 32 * n_blocks(rows) : rows;
    for (std::int32_t r = thread; r < padded; r += team_->size()) {
      const float position = static_cast<float>(batch_->positions[std::min(r, rows - 1)]);
      for (std::size_t i = 0; i < half; ++i) {
        const float angle = position * (*table.frequencies)[i];
        const std::size_t at = table.blocks ? (static_cast<std::size_t>(r / 32) * half + i) * 32 +
                                                  static_cast<std::size_t>(r % 32)
                                            : static_cast<std::size_t>(r) * half + i;
        table.cos[at] = std::cos(angle) * table.mscale;
        table.sin[at] = std::sin(angle) * table.mscale;
      }
    }
  }
}

void CpuProgram::set_profile(bool on) {
  profile_ = on;
  ticks_stride_ = steps_.size() + 4;  // no two threads write one cache line
  ticks_.assign(ticks_stride_ * static_cast<std::size_t>(team_->size()), {});
}

std::vector<StepTime> CpuProgram::take_step_times() {
  std::vector<StepTime> times(steps_.size());
  const double threads = team_->size();
  for (std::size_t s = 0; s < times.size(); ++s) {
    StepTicks sum;
    for (std::size_t at = s; at < ticks_.size(); at += ticks_stride_) {
      const StepTicks ticks = std::exchange(ticks_[at], {});
      sum.busy += ticks.busy;
      sum.waiting += ticks.waiting;
    }
    times[s] = {ticks_to_seconds(sum.busy) / threads, ticks_to_seconds(sum.waiting) / threads};
  }
  return times;
}

// Where rows of a buffer are. Those of experts are asked for in the order of the routes.
std::vector<std::int32_t> CpuProgram::places(plan::BufferId id, std::int64_t rows) const {
  std::vector<std::int32_t> places(static_cast<std::size_t>(rows));
  std::iota(places.begin(), places.end(), 0);
  const plan::Buffer& buffer = plan_.buffers[static_cast<std::size_t>(id)];
  if (buffer.order != plan::Order::experts) return places;
  const auto maker =
      std::ranges::find_if(plan_.steps, [&](const plan::Step& s) { return s.out[0] == id; });
  ORRERY_CHECK(maker != plan_.steps.end() && rows % maker->experts_used == 0);
  Batch batch;
  batch.n_tokens = static_cast<std::int32_t>(rows / maker->experts_used);
  const ExpertCounts counts(plan_, *maker);
  std::vector<std::byte> scratch(ExpertLists::scratch_bytes(counts));
  const CompileContext context{.plan = &plan_, .scratch = region_.data(), .blocks = blocks_};
  const BufferRef routes = context.buffer(maker->in[1]);
  const Worker worker{.batch = &batch};
  const ExpertLists lists(counts, routes, worker, scratch.data());
  std::vector<std::int32_t> of_row(places.size());
  for (const ExpertLists::List& list : lists.lists()) {
    const std::int32_t begin = buffer.form == plan::Form::bf16 ? 32 * list.first_block : list.begin;
    for (std::int32_t i = 0; i < list.rows(); ++i) {
      of_row[static_cast<std::size_t>(list.begin + i)] = begin + i;
    }
  }
  for (std::size_t pair = 0; pair < places.size(); ++pair) {
    const std::size_t token = pair / maker->experts_used;
    const auto j = static_cast<std::uint32_t>(pair % maker->experts_used);
    const std::int32_t row = lists.row(static_cast<std::int32_t>(token), j);
    places[pair] = of_row[static_cast<std::size_t>(row)];
  }
  return places;
}

std::vector<float> CpuProgram::download(plan::BufferId id, std::int64_t rows) const {
  const plan::Buffer& buffer = plan_.buffers[static_cast<std::size_t>(id)];
  const CompileContext context{.plan = &plan_, .scratch = region_.data(), .blocks = blocks_};
  const BufferRef ref = context.buffer(id);
  std::vector<float> out(static_cast<std::size_t>(rows) * buffer.cols);
  float* to = out.data();
  for (const std::int64_t r : places(id, rows)) {
    if (ref.form == plan::Form::q8) {
      const kernels::Q8Layout layout = kernels::q8_layout(buffer.cols);
      const std::byte* row = ref.bytes(r);
      const float* d = reinterpret_cast<const float*>(row + layout.d_offset);
      for (std::uint32_t c = 0; c < buffer.cols; ++c) {
        to[c] = static_cast<float>(static_cast<std::int8_t>(row[c])) * d[c / 32];
      }
    } else if (ref.form == plan::Form::bf16) {
      const auto* block = reinterpret_cast<const std::uint16_t*>(ref.block(r / 32));
      for (std::uint32_t c = 0; c < buffer.cols; ++c) {
        const std::size_t t = static_cast<std::size_t>(r % 32);
        const std::size_t at = std::size_t{c / 32} * 1024 + (t / 16) * 512 +
                               std::size_t{c % 32 / 2} * 32 + (t % 16) * 2 + c % 2;
        const std::uint32_t bits = std::uint32_t{block[at]} << 16;
        to[c] = std::bit_cast<float>(bits);
      }
    } else {
      for (std::uint32_t c = 0; c < buffer.cols; ++c) {
        to[c] = ref.blocks
                    ? ref.block(r / 32)[std::size_t{c} * 32 + static_cast<std::size_t>(r % 32)]
                    : ref.row(r)[c];
      }
    }
    to += buffer.cols;
  }
  return out;
}

}  // namespace orrery::backend::cpu
