// scan_state and delta_state: threads share the heads, each takes its heads through all tokens.
#include "backend/cpu/state_pages.hpp"
#include "kernels/state_kernels.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::int32_t kTokens = kernels::kStateTokens;

// Columns of some rows: row i begins at data + i * stride.
struct Columns {
  const float* data;
  std::size_t stride;
};

// n columns of `tokens` rows from `first` on; out of blocks they are gathered into scratch.
Columns columns_of(const BufferRef& ref, std::int32_t first, std::int32_t tokens,
                   std::uint32_t begin, std::uint32_t n, float* scratch) {
  if (!ref.blocks) return {ref.row(first) + begin, ref.row_bytes / sizeof(float)};
  const float* from = ref.block(first / 32) + std::size_t{begin} * 32 + first % 32;
  for (std::uint32_t c = 0; c < n; ++c, from += 32) {
    for (std::int32_t t = 0; t < tokens; ++t)
      scratch[static_cast<std::size_t>(t) * n + c] = from[t];
  }
  return {scratch, n};
}

class Recurrence : public CpuStep {
 public:
  Recurrence(const CompileContext& context, const plan::Step& step)
      : is_scan_(step.op == plan::Op::scan_state),
        in_(context.buffer(step.in[0])),
        beta_(context.buffer(is_scan_ ? plan::kNone : step.in[1])),
        dt_(context.buffer(step.in[is_scan_ ? 1 : 2])),
        out_(context.buffer(step.out[0])),
        pages_(context, step,
               context.plan->groups[static_cast<std::size_t>(step.group)].history_floats()),
        heads_(step.heads),
        groups_(step.kv_heads),
        k_(step.k_dim),
        v_(step.v_dim),
        scale_(step.scale),
        eps_(step.eps),
        a_(context.vector(step.w[0])),
        skip_(context.vector(step.w[1])),
        bias_(context.vector(step.bias[0])),
        kernels_(*context.kernels->rows->state),
        rows_(*context.kernels->rows) {
    kernel_ = context.kernel_label(false, plan::op_name(step.op), plan::kNone);
  }

  std::size_t scratch_bytes() const override { return sizeof(float) * kTokens * (2 * k_ + 2 * v_); }

  void run(const Worker& worker) const override {
    const Batch& batch = *worker.batch;
    worker.spread(static_cast<std::int32_t>(heads_), [&](std::int32_t item) {
      const auto head = static_cast<std::uint32_t>(item);
      each_run(batch, kTokens, in_.blocks, [&](std::int32_t first, std::int32_t n) {
        run_tokens(batch, head, first, n, reinterpret_cast<float*>(worker.scratch));
      });
      if (out_.blocks) clear_padding(out_, head * v_, v_, batch.n_tokens);
    });
  }

 private:
  // Where a head's q, k and v lie in a row.
  struct Offsets {
    std::uint32_t q, k, v;
  };
  Offsets offsets(std::uint32_t head) const {
    const std::uint32_t at = head * groups_ / heads_ * k_, all = groups_ * k_;
    if (is_scan_) return {heads_ * v_ + all + at, heads_ * v_ + at, head * v_};
    return {at, all + at, 2 * all + head * v_};
  }

  void run_tokens(const Batch& batch, std::uint32_t head, std::int32_t first, std::int32_t n,
                  float* scratch) const {
    float* q_scratch = scratch;
    float* k_scratch = q_scratch + std::size_t{kTokens} * k_;
    float* v_scratch = k_scratch + std::size_t{kTokens} * k_;
    float* out_scratch = v_scratch + std::size_t{kTokens} * v_;
    const Offsets at = offsets(head);
    Columns q = columns_of(in_, first, n, at.q, k_, q_scratch);
    Columns k = columns_of(in_, first, n, at.k, k_, k_scratch);
    const Columns v = columns_of(in_, first, n, at.v, v_, v_scratch);
    if (!is_scan_) {
      q = normed(q, n, scale_, q_scratch);
      k = normed(k, n, 1.0F, k_scratch);
    }
    float dt[kTokens], decay[kTokens], beta[kTokens];
    column(dt_, first, n, head, beta);
    kernels_.decay(beta, bias_[head], a_[head], n, dt, decay);
    if (!is_scan_) {
      column(beta_, first, n, head, beta);
      rows_.activate(kernels::ActivationKind::sigmoid, beta, n);
    }

    kernels::StateToken tokens[kTokens];
    for (std::int32_t t = 0; t < n; ++t) {
      const auto row = static_cast<std::size_t>(t);
      float* out = out_.blocks ? out_scratch + row * v_ : out_.row(first + t) + head * v_;
      tokens[t] = {q.data + row * q.stride,
                   k.data + row * k.stride,
                   v.data + row * v.stride,
                   out,
                   decay[t],
                   is_scan_ ? dt[t] : beta[t]};
    }
    const std::size_t matrix = std::size_t{head} * k_ * v_;
    const float* before = pages_.before(batch, first);
    kernels::StateTokens args{.before = before == nullptr ? nullptr : before + matrix,
                              .after = pages_.after(batch, first) + matrix,
                              .tokens = tokens,
                              .n = n,
                              .k_dim = static_cast<int>(k_),
                              .v_dim = static_cast<int>(v_),
                              .skip = is_scan_ ? skip_[head] : 0.0F};
    is_scan_ ? kernels_.scan(args) : kernels_.delta(args);
    if (out_.blocks) scatter(out_scratch, first, n, head);
  }

  Columns normed(Columns x, std::int32_t n, float scale, float* to) const {
    for (std::int32_t t = 0; t < n; ++t) {
      const auto row = static_cast<std::size_t>(t);
      kernels_.l2_norm(x.data + row * x.stride, static_cast<int>(k_), eps_, scale, to + row * k_);
    }
    return {to, k_};
  }

  static void column(const BufferRef& ref, std::int32_t first, std::int32_t n, std::uint32_t index,
                     float* to) {
    const Columns x = columns_of(ref, first, n, index, 1, to);
    for (std::int32_t t = 0; t < n; ++t) to[t] = x.data[static_cast<std::size_t>(t) * x.stride];
  }

  void scatter(const float* rows, std::int32_t first, std::int32_t n, std::uint32_t head) const {
    float* to = out_.block(first / 32) + std::size_t{head} * v_ * 32 + first % 32;
    for (std::uint32_t c = 0; c < v_; ++c, to += 32) {
      for (std::int32_t t = 0; t < n; ++t) to[t] = rows[static_cast<std::size_t>(t) * v_ + c];
    }
  }

  bool is_scan_;
  BufferRef in_, beta_, dt_, out_;
  StatePages pages_;
  std::uint32_t heads_, groups_, k_, v_;
  float scale_, eps_;
  const float *a_, *skip_, *bias_;
  const kernels::StateKernels& kernels_;
  const kernels::RowKernels& rows_;
};

}  // namespace

StepResult make_recurrence(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<Recurrence>(context, step);
}

}  // namespace orrery::backend::cpu
