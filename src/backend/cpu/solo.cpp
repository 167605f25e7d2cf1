#include "backend/cpu/solo.hpp"

#include <algorithm>

#include "base/checked.hpp"

namespace orrery::backend::cpu {
namespace {

using plan::Op;

bool can_run_alone(Op op) {
  return op == Op::embed || op == Op::norm || op == Op::quantize_rows || op == Op::select_rows ||
         op == Op::moe_route || op == Op::moe_combine;
}

// Steps that read a thread's own rows.
bool reads_own_rows(Op op) {
  return (can_run_alone(op) && op != Op::embed) || op == Op::matmul || op == Op::moe_matmul ||
         op == Op::logits;
}

std::vector<plan::BufferId> inputs(const plan::Step& step) {
  std::vector<plan::BufferId> ids(step.in.begin(), step.in.end());
  ids.push_back(step.residual);
  std::erase(ids, plan::kNone);
  return ids;
}

bool overlap(const plan::Plan& plan, plan::BufferId a, plan::BufferId b) {
  const plan::Buffer& x = plan.buffers[static_cast<std::size_t>(a)];
  const plan::Buffer& y = plan.buffers[static_cast<std::size_t>(b)];
  // Rows lie from the buffer's start: what a run of one token touches is at the beginning.
  const auto end = [](const plan::Buffer& buffer) {
    const auto rows = static_cast<std::uint64_t>(buffer.rows.at(1, 1, 1));
    return buffer.offset + rows * plan::form_row_bytes(buffer.form, buffer.cols);
  };
  return x.offset < end(y) && y.offset < end(x);
}

// True when `step` would write over what other threads may still read in steps [begin, end).
bool disturbs(const plan::Plan& plan, const plan::Step& step, std::size_t begin, std::size_t end) {
  for (std::size_t s = begin; s < end; ++s) {
    for (const plan::BufferId read : inputs(plan.steps[s])) {
      for (const plan::BufferId written : step.out) {
        if (written != plan::kNone && overlap(plan, written, read)) return true;
      }
    }
  }
  return false;
}

// Places a thread's rows: memory is taken again after a row's last reader, so that it stays hot.
class RowPlacer {
 public:
  explicit RowPlacer(const plan::Plan& plan) : plan_(plan), last_reader_(plan.buffers.size()) {
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      for (const plan::BufferId id : inputs(plan.steps[s])) {
        last_reader_[static_cast<std::size_t>(id)] = s;
      }
    }
  }

  std::uint32_t place(plan::BufferId id, std::size_t step) {
    const plan::Buffer& buffer = plan_.buffers[static_cast<std::size_t>(id)];
    const std::uint64_t bytes = align_up(plan::form_row_bytes(buffer.form, buffer.cols), 64);
    std::erase_if(rows_, [&](const Row& row) { return row.last < step; });
    std::uint64_t offset = 0;
    auto at = rows_.begin();
    for (; at != rows_.end() && offset + bytes > at->begin; ++at) offset = at->end;
    rows_.insert(at, {offset, offset + bytes, last_reader_[static_cast<std::size_t>(id)]});
    total_ = std::max(total_, offset + bytes);
    return static_cast<std::uint32_t>(offset);
  }
  std::uint64_t total() const { return total_; }

 private:
  struct Row {
    std::uint64_t begin, end;
    std::size_t last;
  };
  const plan::Plan& plan_;
  std::vector<std::size_t> last_reader_;  // of each buffer
  std::vector<Row> rows_;                 // in order of begin
  std::uint64_t total_ = 0;
};

}  // namespace

SoloSteps solo_steps(const plan::Plan& plan) {
  SoloSteps solo;
  const std::size_t n = plan.steps.size();
  solo.alone.resize(n);
  solo.merged.resize(n);
  solo.own_rows.assign(plan.buffers.size(), kShared);
  RowPlacer rows(plan);
  std::size_t first = 0;  // the first step since the last barrier
  for (std::size_t s = 0; s + 1 < n; ++s) {
    const plan::Step& step = plan.steps[s];
    const plan::Step& next = plan.steps[s + 1];
    solo.alone[s] = can_run_alone(step.op) && reads_own_rows(next.op) &&
                    !disturbs(plan, step, first, s + 1) && !disturbs(plan, next, first, s + 1);
    solo.merged[s] = step.op == Op::rope_kv_write && next.op == Op::attention &&
                     next.in[0] == step.out[0] && next.group_layer == step.group_layer &&
                     next.group == step.group && step.qk_norm != plan::QkNorm::width &&
                     !disturbs(plan, next, s, s + 1);
    if (!solo.alone[s]) {
      first = s + 1;
      continue;
    }
    solo.own_rows[static_cast<std::size_t>(step.out[0])] = rows.place(step.out[0], s);
  }
  solo.own_bytes = rows.total();
  return solo;
}

}  // namespace orrery::backend::cpu
