#include <vector>

#include "base/check.hpp"
#include "plan/passes.hpp"

namespace orrery::plan {
namespace {

// How often each buffer is read, taps and the plan's result included.
std::vector<std::uint32_t> count_reads(const Plan& plan) {
  std::vector<std::uint32_t> reads(plan.buffers.size(), 0);
  for (const Step& step : plan.steps) {
    for (const BufferId id : step.in) {
      if (id != kNone) ++reads[id];
    }
    if (step.residual != kNone) ++reads[step.residual];
  }
  if (plan.result != kNone) ++reads[plan.result];
  return reads;
}

// The index of the step that writes each buffer; a buffer is written once.
std::vector<std::size_t> find_writers(const Plan& plan) {
  std::vector<std::size_t> writers(plan.buffers.size(), plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (const BufferId id : plan.steps[i].out) {
      if (id == kNone) continue;
      ORRERY_CHECK(writers[id] == plan.steps.size());
      writers[id] = i;
    }
  }
  return writers;
}

bool can_convert_output(const Step& step) {
  switch (step.op) {
    case Op::norm:
    case Op::attention:
    case Op::mla_values:
    case Op::mla_attention:
    case Op::mul:
    case Op::select_rows:
      return true;
    case Op::matmul:
      return step.glu || (step.activation != Activation::none && step.w[1] == kNone);
    default:
      return false;
  }
}

// Drops the buffers that no step names and numbers the rest anew, in their order.
void compact_buffers(Plan& plan) {
  std::vector<BufferId> renamed(plan.buffers.size(), kNone);
  const auto mark = [&](BufferId id) {
    if (id != kNone) renamed[id] = 0;
  };
  for (const Step& step : plan.steps) {
    for (const BufferId id : step.in) mark(id);
    for (const BufferId id : step.out) mark(id);
    mark(step.residual);
  }
  mark(plan.result);
  std::vector<Buffer> kept;
  for (std::size_t i = 0; i < renamed.size(); ++i) {
    if (renamed[i] == kNone) continue;
    renamed[i] = static_cast<BufferId>(kept.size());
    kept.push_back(std::move(plan.buffers[i]));
  }
  plan.buffers = std::move(kept);
  const auto rename = [&](BufferId& id) {
    if (id != kNone) id = renamed[id];
  };
  for (Step& step : plan.steps) {
    for (BufferId& id : step.in) rename(id);
    for (BufferId& id : step.out) rename(id);
    rename(step.residual);
  }
  rename(plan.result);
}

}  // namespace

Plan fuse(Plan plan, const Supports& supports) {
  const std::vector<std::uint32_t> reads = count_reads(plan);
  const std::vector<std::size_t> writers = find_writers(plan);
  std::vector<bool> folded(plan.steps.size(), false);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& convert = plan.steps[i];
    if (convert.op != Op::quantize_rows || reads[convert.in[0]] != 1) continue;
    const std::size_t writer = writers[convert.in[0]];
    ORRERY_CHECK(writer < i);
    if (!can_convert_output(plan.steps[writer])) continue;
    if (plan.buffers[convert.out[0]].order != plan.buffers[convert.in[0]].order) continue;
    Step fused = plan.steps[writer];
    fused.out[0] = convert.out[0];
    if (!supports(plan, fused)) continue;
    plan.steps[writer] = fused;
    folded[i] = true;
  }
  std::vector<Step> kept;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (!folded[i]) kept.push_back(plan.steps[i]);
  }
  plan.steps = std::move(kept);
  compact_buffers(plan);
  return plan;
}

Plan drop_taps(Plan plan) {
  std::erase_if(plan.steps, [](const Step& step) { return step.op == Op::tap; });
  return plan;
}

}  // namespace orrery::plan
