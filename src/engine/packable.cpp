#include "engine/packable.hpp"

#include <fmt/format.h>

#include <utility>

#include "model/model.hpp"

namespace orrery::engine {
namespace {

// Calls f(weight, whether the step that reads it can have it packed) for all that steps read.
template <class F>
void for_each_use(const plan::Plan& plan, F f) {
  for (const plan::Step& step : plan.steps) {
    const bool multiplies = step.op == plan::Op::matmul || step.op == plan::Op::logits;
    for (std::size_t i = 0; i < step.w.size(); ++i) {
      const bool looks_up = step.op == plan::Op::embed && i == 0;
      if (step.w[i] != plan::kNone) {
        const plan::Weight& w = plan.weights[static_cast<std::size_t>(step.w[i])];
        const bool whole = w.rows % kPackedRows == 0 && w.row_begin % kPackedRows == 0;
        f(step, w, (multiplies || looks_up) && whole && w.experts == 0);
      }
      if (step.bias[i] != plan::kNone) {
        f(step, plan.weights[static_cast<std::size_t>(step.bias[i])], false);
      }
    }
  }
}

}  // namespace

Result<std::set<std::string>> find_packable(std::shared_ptr<const storage::Checkpoint> files) {
  ORRERY_TRY(const model::LoadedModel loaded, model::load_model(std::move(files)));
  std::set<std::string> multiplied, others;
  using plan::Phase;
  for (const Phase phase : {Phase::decode, Phase::prefill, Phase::embed}) {
    if (!loaded.hparams().causal && phase != Phase::embed) continue;
    model::RecordOptions options;
    options.phase = phase;
    options.capacity = {1, 1, 1};
    options.context_length = loaded.hparams().context_length;
    ORRERY_TRY(const plan::Plan plan, loaded.record(options));
    for_each_use(plan, [&](const plan::Step& step, const plan::Weight& weight, bool can) {
      if (!can) others.insert(weight.tensor);
      if (step.op != plan::Op::embed) multiplied.insert(weight.tensor);
    });
  }
  for (const std::string& name : others) multiplied.erase(name);
  return multiplied;
}

Status check_packed(const plan::Plan& plan) {
  Status status;
  for_each_use(plan, [&](const plan::Step& step, const plan::Weight& weight, bool can) {
    if (weight.layout == Layout::file || can || !status) return;
    status = fail("E_IMAGE", fmt::format("tensor {} is packed, and {} cannot read it so; make the "
                                         "image again with `orrery pack`",
                                         weight.tensor, plan::op_name(step.op)));
  });
  return status;
}

}  // namespace orrery::engine
