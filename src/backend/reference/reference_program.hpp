// A plan run by obvious loops in double precision. Nothing is rounded on the way: operands of every
// number class are the exact doubles, weights their decoded values. Only the cache elements (f16 or
// f32, as the group says) and the f32 results that leave the program are rounded.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "base/thread_team.hpp"
#include "tensor/cache_page.hpp"

namespace orrery::backend::reference {

class ReferenceProgram : public Program {
 public:
  ReferenceProgram(const plan::Plan& plan, Bindings bindings, std::shared_ptr<ThreadTeam> team);

  Status run(const Batch& batch, std::uint32_t first, std::uint32_t last) override;
  std::uint32_t n_steps() const override;
  Status bind_adapter(std::uint32_t slot, std::span<const LowRank> pairs) override;
  const float* result() const override { return result_.data(); }
  std::vector<float> download(plan::BufferId buffer, std::int64_t rows) const override;
  std::uint64_t scratch_bytes() const override;
  std::string kernel_name(std::uint32_t step) const override;

 private:
  void run_step(const plan::Step& step, const Batch& batch);

  // rows.cpp: steps that treat every row by itself.
  void embed(const plan::Step& step, const Batch& batch);
  void norm(const plan::Step& step, const Batch& batch);
  void combine(const plan::Step& step, const Batch& batch);  // add, mul, quantize_rows
  void split(const plan::Step& step, const Batch& batch);
  void select_rows(const plan::Step& step, const Batch& batch);
  void pool(const plan::Step& step, const Batch& batch);
  // streams.cpp: parts of rows, and the streams of AltUp.
  void columns(const plan::Step& step, const Batch& batch);
  void join(const plan::Step& step, const Batch& batch);
  void sparsify(const plan::Step& step, const Batch& batch);
  void match_rms(const plan::Step& step, const Batch& batch);
  void altup_predict(const plan::Step& step, const Batch& batch);
  void altup_correct(const plan::Step& step, const Batch& batch);
  void altup_add(const plan::Step& step, const Batch& batch);
  double* row(plan::BufferId buffer, std::int64_t r) {
    return &buffers_[buffer][static_cast<std::size_t>(r) * cols_of(buffer)];
  }
  // w0 times the router's n values of a row.
  std::vector<double> altup_coefficients(const plan::Step& step, const double* router,
                                         std::uint32_t n) const;
  // matmul.cpp: matmul and logits.
  void matmul(const plan::Step& step, const Batch& batch);
  std::vector<double> multiply(const std::vector<double>& x, std::int64_t rows,
                               plan::WeightId weight) const;
  // y += what the adapters of each row's sequence make of x.
  void add_adapters(const plan::Step& step, std::size_t weight, const Batch& batch,
                    std::vector<double>& y) const;
  // experts.cpp
  void moe_route(const plan::Step& step, const Batch& batch);
  void moe_matmul(const plan::Step& step, const Batch& batch);
  void moe_combine(const plan::Step& step, const Batch& batch);
  // attention.cpp
  void rope_kv_write(const plan::Step& step, const Batch& batch);
  void attention(const plan::Step& step, const Batch& batch);
  std::byte* cache_side(const plan::Step& step, const Batch& batch, std::int64_t row,
                        std::int32_t position, std::uint32_t head, CacheSide side) const;
  // Keys or values of one head of a row's token; those at any position of its sequence.
  void write_cache(const plan::Step& step, const Batch& batch, std::int64_t row, std::uint32_t head,
                   CacheSide side, const double* x);
  std::vector<float> read_cache(const plan::Step& step, const Batch& batch, std::int64_t row,
                                std::int32_t position, std::uint32_t head, CacheSide side) const;

  // mla.cpp
  void mla_write(const plan::Step& step, const Batch& batch);
  void mla_values(const plan::Step& step, const Batch& batch);
  void mla_attention(const plan::Step& step, const Batch& batch);
  // state.cpp
  void conv_state(const plan::Step& step, const Batch& batch);
  void scan_state(const plan::Step& step, const Batch& batch);
  void delta_state(const plan::Step& step, const Batch& batch);
  float* layer_state(const plan::Step& step, const Batch& batch, std::int32_t row,
                     std::int32_t position) const;
  float* enter_state(const plan::Step& step, const Batch& batch, std::int32_t row,
                     std::uint64_t first, std::uint64_t n) const;

  std::int64_t rows_of(plan::BufferId buffer, const Batch& batch) const;
  std::uint32_t cols_of(plan::BufferId buffer) const { return plan_.buffers[buffer].cols; }
  // Row `row` of a weight, or of one of its experts, decoded: (cols).
  std::vector<float> weight_row(plan::WeightId weight, std::uint32_t row,
                                std::size_t expert = 0) const;

  plan::Plan plan_;
  Bindings bindings_;
  std::shared_ptr<ThreadTeam> team_;
  std::vector<std::vector<double>> buffers_;  // per buffer (rows at capacity, cols)
  std::vector<float> result_;                 // (rows, cols) of plan.result
  std::array<std::vector<LowRank>, kMaxAdapters> adapters_;
};

double activate(plan::Activation activation, double x);
// activate(gate) times up, or what the activation makes of it.
double gated(plan::Activation activation, double gate, double up);
double dot(const double* a, const double* b, std::uint32_t n);

// x / rms(x) * (weight + offset) over n elements in place; weight null is all ones.
void rms_norm(double* x, std::uint32_t n, const float* weight, double offset, double eps);
// Rotates the rope_dim elements from x.
void rotate(const plan::Step& step, const std::vector<float>& frequencies, std::int32_t position,
            double* x);

}  // namespace orrery::backend::reference
