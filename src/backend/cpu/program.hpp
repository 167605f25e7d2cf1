// A compiled plan on the CPU: steps with bound arguments, run by a team inside one parallel region.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/adapters.hpp"
#include "backend/cpu/step.hpp"
#include "base/checked.hpp"
#include "base/thread_team.hpp"
#include "memory/region.hpp"
#include "memory/tape.hpp"

namespace orrery::backend::cpu {

class CpuProgram : public Program {
 public:
  static Result<std::unique_ptr<CpuProgram>> compile(const plan::Plan& plan, Bindings bindings,
                                                     const kernels::KernelSet& kernels,
                                                     std::shared_ptr<ThreadTeam> team);

  Status run(const Batch& batch, std::uint32_t first, std::uint32_t last) override;
  std::uint32_t n_steps() const override { return static_cast<std::uint32_t>(steps_.size()); }
  Status bind_adapter(std::uint32_t slot, std::span<const LowRank> pairs) override;
  const float* result() const override { return result_; }
  std::vector<float> download(plan::BufferId buffer, std::int64_t rows) const override;
  std::uint64_t scratch_bytes() const override { return region_.size(); }
  std::string kernel_name(std::uint32_t step) const override { return steps_[step]->kernel(); }
  void set_profile(bool on) override;
  std::vector<StepTime> take_step_times() override;

 private:
  CpuProgram(const plan::Plan& plan, Bindings bindings, const kernels::KernelSet& kernels,
             std::shared_ptr<ThreadTeam> team);
  void add_rope_tables();
  Status bind_steps();
  void link_matmuls();
  Status check(const Batch& batch, std::uint32_t first, std::uint32_t last) const;
  void work(int thread);
  std::uint64_t thread_bytes() const {
    return thread_scratch_bytes_ + align_up(solo_.own_bytes, 64);
  }
  Cursor* cursors(std::uint32_t epoch) {
    return &cursors_[epoch % 3 * static_cast<std::size_t>(team_->size())];
  }
  void fill_rope_tables(int thread);
  std::vector<std::int32_t> places(plan::BufferId buffer, std::int64_t rows) const;

  plan::Plan plan_;
  Bindings bindings_;
  kernels::KernelSet kernels_;
  std::shared_ptr<ThreadTeam> team_;
  bool blocks_ = false;
  // plan scratch | rope tables | shared | of each thread: scratch, own rows
  memory::Region region_;
  memory::Generation runs_;
  std::vector<memory::Tape> tapes_;  // (threads)
  std::uint64_t thread_scratch_bytes_ = 0;
  std::vector<std::unique_ptr<std::vector<float>>> vectors_;
  std::vector<RopeTable> rope_tables_;
  std::vector<std::unique_ptr<CpuStep>> steps_;
  SoloSteps solo_;                           // empty in block order
  std::vector<std::uint32_t> matmul_after_;  // of each step: the next that multiplies weights
  const float* result_ = nullptr;
  AdapterBank adapters_;
  memory::Region adapter_region_;  // of each thread
  std::uint64_t adapter_bytes_ = 0;
  std::uint32_t embed_rows_ = 0;  // ids at or above it are refused

  // One run.
  const Batch* batch_ = nullptr;
  std::uint32_t first_ = 0, last_ = 0;
  Barrier barrier_;
  bool solo_run_ = false;        // of one row
  std::vector<Cursor> cursors_;  // (3, threads), see work()
  bool profile_ = false;
  struct StepTicks {
    std::uint64_t busy = 0, waiting = 0;
  };
  std::vector<StepTicks> ticks_;  // (threads, ticks_stride_)
  std::size_t ticks_stride_ = 0;
};

}  // namespace orrery::backend::cpu
