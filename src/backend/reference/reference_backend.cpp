#include <fmt/format.h>

#include <utility>

#include "backend/reference/reference_program.hpp"
#include "base/check.hpp"
#include "tensor/decode.hpp"

namespace orrery::backend {
namespace reference {

ReferenceProgram::ReferenceProgram(const plan::Plan& plan, Bindings bindings,
                                   std::shared_ptr<ThreadTeam> team)
    : plan_(plan), bindings_(std::move(bindings)), team_(std::move(team)) {
  const plan::Capacity& capacity = plan_.capacity;
  for (const plan::Buffer& buffer : plan_.buffers) {
    const std::int64_t rows = buffer.rows.at(capacity.tokens, capacity.sequences, capacity.outputs);
    buffers_.emplace_back(static_cast<std::size_t>(rows) * buffer.cols);
  }
  if (plan_.result != plan::kNone) result_.resize(buffers_[plan_.result].size());
}

std::uint32_t ReferenceProgram::n_steps() const {
  return static_cast<std::uint32_t>(plan_.steps.size());
}

std::uint64_t ReferenceProgram::scratch_bytes() const {
  std::uint64_t bytes = result_.size() * sizeof(float);
  for (const std::vector<double>& buffer : buffers_) bytes += buffer.size() * sizeof(double);
  return bytes;
}

std::string ReferenceProgram::kernel_name(std::uint32_t step) const {
  return fmt::format("reference/{}", plan::op_name(plan_.steps[step].op));
}

std::int64_t ReferenceProgram::rows_of(plan::BufferId buffer, const Batch& batch) const {
  return plan_.buffers[buffer].rows.at(batch.n_tokens, batch.n_sequences, batch.n_outputs);
}

std::vector<float> ReferenceProgram::weight_row(plan::WeightId weight, std::uint32_t row,
                                                std::size_t expert) const {
  const plan::Weight& w = plan_.weights[weight];
  ORRERY_CHECK(row < w.rows);
  const std::byte* first =
      w.experts == 0 ? bindings_.weights[weight] : bindings_.experts[weight].at(expert);
  std::vector<float> values(w.cols);
  decode_row(w.dtype, first + row_bytes(w.dtype, w.cols) * row, values.data(), w.cols);
  return values;
}

std::vector<float> ReferenceProgram::download(plan::BufferId buffer, std::int64_t rows) const {
  const std::vector<double>& source = buffers_[buffer];
  const std::size_t n = static_cast<std::size_t>(rows) * cols_of(buffer);
  ORRERY_CHECK(rows >= 0 && n <= source.size());
  std::vector<float> copy(n);
  for (std::size_t i = 0; i < n; ++i) copy[i] = static_cast<float>(source[i]);
  return copy;
}

Status ReferenceProgram::run(const Batch& batch, std::uint32_t first, std::uint32_t last) {
  const plan::Capacity& capacity = plan_.capacity;
  ORRERY_CHECK(first <= last && last <= plan_.steps.size());
  ORRERY_CHECK(static_cast<std::uint32_t>(batch.n_tokens) <= capacity.tokens);
  ORRERY_CHECK(static_cast<std::uint32_t>(batch.n_outputs) <= capacity.outputs);
  for (std::uint32_t i = first; i < last; ++i) run_step(plan_.steps[i], batch);
  if (last == plan_.steps.size() && plan_.result != plan::kNone) {
    const std::vector<float> rows = download(plan_.result, rows_of(plan_.result, batch));
    std::ranges::copy(rows, result_.begin());
  }
  return {};
}

void ReferenceProgram::run_step(const plan::Step& step, const Batch& batch) {
  switch (step.op) {
    case plan::Op::embed:
      return embed(step, batch);
    case plan::Op::norm:
      return norm(step, batch);
    case plan::Op::quantize_rows:
    case plan::Op::mul:
    case plan::Op::add:
      return combine(step, batch);
    case plan::Op::split:
      return split(step, batch);
    case plan::Op::conv_state:
      return conv_state(step, batch);
    case plan::Op::scan_state:
      return scan_state(step, batch);
    case plan::Op::delta_state:
      return delta_state(step, batch);
    case plan::Op::matmul:
    case plan::Op::logits:
      return matmul(step, batch);
    case plan::Op::rope_kv_write:
      return rope_kv_write(step, batch);
    case plan::Op::attention:
      return attention(step, batch);
    case plan::Op::mla_write:
      return mla_write(step, batch);
    case plan::Op::mla_values:
      return mla_values(step, batch);
    case plan::Op::mla_attention:
      return mla_attention(step, batch);
    case plan::Op::columns:
      return columns(step, batch);
    case plan::Op::join:
      return join(step, batch);
    case plan::Op::sparsify:
      return sparsify(step, batch);
    case plan::Op::match_rms:
      return match_rms(step, batch);
    case plan::Op::altup_predict:
      return altup_predict(step, batch);
    case plan::Op::altup_correct:
      return altup_correct(step, batch);
    case plan::Op::altup_add:
      return altup_add(step, batch);
    case plan::Op::select_rows:
      return select_rows(step, batch);
    case plan::Op::moe_route:
      return moe_route(step, batch);
    case plan::Op::moe_matmul:
      return moe_matmul(step, batch);
    case plan::Op::moe_combine:
      return moe_combine(step, batch);
    case plan::Op::pool:
      return pool(step, batch);
    case plan::Op::tap:
      return;
  }
  ORRERY_CHECK(false);
}

namespace {

class ReferenceBackend : public Backend {
 public:
  DeviceInfo info() const override { return {"reference", "double precision loops"}; }
  bool supports(const plan::Plan&, const plan::Step&) const override { return true; }
  Result<std::unique_ptr<Program>> compile(const plan::Plan& plan, Bindings bindings) override {
    ORRERY_CHECK(bindings.weights.size() == plan.weights.size());
    ORRERY_CHECK(bindings.pools.size() == plan.groups.size());
    for (const plan::Weight& w : plan.weights) ORRERY_CHECK(w.layout == Layout::file);
    return std::make_unique<ReferenceProgram>(plan, std::move(bindings), team_);
  }

 private:
  std::shared_ptr<ThreadTeam> team_ = std::make_shared<ThreadTeam>(2);
};

}  // namespace
}  // namespace reference

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<reference::ReferenceBackend>();
}

}  // namespace orrery::backend
