// orrery inspect plan: exactly what runs, phase by phase.
#include <fmt/format.h>

#include <memory>

#include "cli/inspect.hpp"
#include "cli/open_model.hpp"
#include "cli/terminal.hpp"
#include "plan/passes.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string model;
  OpenOptions open;
};

void print_phase(const char* name, const plan::Plan& plan, const backend::Program& program) {
  print(fmt::format("== {}: {} steps, at most {} tokens, {} of weights a run, scratch {}\n", name,
                    plan.steps.size(), plan.capacity.tokens, human_bytes(plan::weight_bytes(plan)),
                    human_bytes(program.scratch_bytes())));
  print(plan::to_text(plan));
  print("kernels:\n");
  for (std::uint32_t s = 0; s < program.n_steps(); ++s) {
    print(fmt::format("  {:4} {:14} {:>12}  {}\n", s, plan::op_name(plan.steps[s].op),
                      human_bytes(plan::step_weight_bytes(plan, plan.steps[s])),
                      program.kernel_name(s)));
  }
}

Status inspect_plan(const Options& options) {
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  ORRERY_TRY_VOID(model->settle());
  const engine::ModelInfo& info = model->info();
  print(
      fmt::format("model: {} ({})\ndevice: {}\n", printable(info.name), info.family, info.device));
  print(fmt::format(
      "memory: {} of weights ({} of them packed, the others in the mapping), {} converted, {} "
      "scratch, {} of cache a token, context {}\n",
      human_bytes(info.weight_bytes), human_bytes(info.packed_bytes),
      human_bytes(info.copied_bytes), human_bytes(info.scratch_bytes),
      human_bytes(info.cache_bytes_per_token), info.context));
  if (info.state_bytes > 0) {
    print(fmt::format("state: {} a sequence, and up to {} of snapshots to go back to\n",
                      human_bytes(info.state_bytes), human_bytes(info.snapshot_bytes)));
  }
  if (const engine::Embedder* encoder = model->encoder(); encoder != nullptr) {
    print_phase("embed", encoder->plan(), encoder->program());
    return {};
  }
  const auto executor = model->executor();
  print_phase("decode", executor->decode_plan(), executor->decode_program());
  print_phase("prefill", executor->prefill_plan(), executor->prefill_program());
  return {};
}

}  // namespace

void add_inspect_plan(Command inspect) {
  Command command = inspect.command("plan", "the steps that run for a token and a prompt");
  auto options = std::make_shared<Options>();
  command.option("MODEL", options->model, "model file, folder or short name");
  add_open_options(command, options->open);
  command.does([options] { return inspect_plan(*options); });
}

}  // namespace orrery::cli
