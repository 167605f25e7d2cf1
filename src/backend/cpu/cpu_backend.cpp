#include <fmt/format.h>

#include <algorithm>

#include "backend/cpu/program.hpp"
#include "base/topology.hpp"

namespace orrery::backend {
namespace cpu {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(kernels::KernelSet kernels, int threads)
      : kernels_(std::move(kernels)), team_(std::make_shared<ThreadTeam>(threads)) {}

  DeviceInfo info() const override {
    return {"cpu",
            fmt::format("{}, {} thread{}, {}", kernels_.name, team_->size(),
                        team_->size() == 1 ? "" : "s", cpu_model()),
            !kernels_.blocks->has_tiles};
  }

  bool supports(const plan::Plan& plan, const plan::Step& step) const override {
    // Operands are written in runs of 32 elements: a head or a chunk must be made of whole runs.
    if (step.out[0] == plan::kNone) return true;
    const plan::Buffer& out = plan.buffers[static_cast<std::size_t>(step.out[0])];
    if (out.form == plan::Form::f32) return true;
    switch (step.op) {
      case plan::Op::norm:
        if (step.heads > 1 && out.cols / step.heads % 32 != 0) return false;
        [[fallthrough]];
      case plan::Op::quantize_rows:
        return out.cols % 32 == 0 || out.form == plan::Form::bf16;
      case plan::Op::attention:
        return step.v_dim % 32 == 0;
      case plan::Op::mla_values:
      case plan::Op::mla_attention:
        return step.v_head % 32 == 0;
      case plan::Op::matmul:
        return out.cols % 32 == 0;
      default:
        return false;
    }
  }

  Result<std::unique_ptr<Program>> compile(const plan::Plan& plan, Bindings bindings) override {
    return CpuProgram::compile(plan, std::move(bindings), kernels_, team_);
  }

 private:
  kernels::KernelSet kernels_;
  std::shared_ptr<ThreadTeam> team_;
};

}  // namespace
}  // namespace cpu

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options) {
  ORRERY_TRY(kernels::KernelSet kernels, kernels::choose_kernels(options.isa));
  const int threads = options.threads > 0 ? options.threads : physical_cores();
  return std::make_unique<cpu::CpuBackend>(std::move(kernels), std::clamp(threads, 1, 256));
}

}  // namespace orrery::backend
