#include "engine/collect_importance.hpp"

#include <algorithm>

namespace orrery::engine {
namespace {

void add_row(std::span<const float> row, std::size_t matrix, float weight, ColumnSums& sums) {
  float* squares = &sums.squares[matrix * row.size()];
  for (std::size_t c = 0; c < row.size(); ++c) squares[c] += weight * row[c] * weight * row[c];
  sums.counts[matrix] += 1.0F;
}

class Collector final : public InputObserver {
 public:
  explicit Collector(Importance& importance) : importance_(importance) {}

  void see(const plan::Plan& plan, const plan::Step& step, std::span<const float> rows) override {
    if (step.op == plan::Op::moe_route) {
      routes_.assign(rows.begin(), rows.end());
      return;
    }
    for (const plan::WeightId w : step.w) {
      if (w == plan::kNone) continue;
      const plan::Weight& weight = plan.weights[static_cast<std::size_t>(w)];
      if (weight.row_begin > 0) continue;  // of a fused tensor, which counts once
      ColumnSums& sums = importance_.sums[weight.tensor];
      const std::size_t matrices = std::max<std::size_t>(weight.experts, 1);
      sums.squares.resize(matrices * weight.cols, 0.0F);
      sums.counts.resize(matrices, 0.0F);
      if (step.op == plan::Op::moe_matmul) {
        add_experts(plan, step, rows, weight.cols, sums);
      } else {
        for (std::size_t at = 0; at < rows.size(); at += weight.cols) {
          add_row(rows.subspan(at, weight.cols), 0, 1.0F, sums);
        }
      }
    }
  }

 private:
  // `rows` are those of tokens, or one for each expert of a token's routes.
  void add_experts(const plan::Plan& plan, const plan::Step& step, std::span<const float> rows,
                   std::size_t cols, ColumnSums& sums) const {
    const std::size_t used = step.experts_used;
    const std::size_t stride = plan.buffers[static_cast<std::size_t>(step.in[1])].cols;
    const plan::Buffer& input = plan.buffers[static_cast<std::size_t>(step.in[0])];
    const bool of_experts = input.order == plan::Order::experts;
    for (std::size_t pair = 0; pair < routes_.size() / stride * used; ++pair) {
      const float* route = &routes_[pair / used * stride + pair % used];
      const std::size_t row = of_experts ? pair : pair / used;
      add_row(rows.subspan(row * cols, cols), static_cast<std::size_t>(route[0]),
              step.weigh_input ? route[used] : 1.0F, sums);
    }
  }

  Importance& importance_;
  std::vector<float> routes_;  // of the layer, (tokens, 2 used (+ 1))
};

// Sets an observer for as long as it lives.
class Observation {
 public:
  Observation(Executor& executor, InputObserver& observer) : executor_(executor) {
    executor_.observe(&observer);
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;
  ~Observation() { executor_.observe(nullptr); }

 private:
  Executor& executor_;
};

}  // namespace

Result<Importance> collect_importance(Session& session, const EvalText& text,
                                      const EvalProgress& progress) {
  Importance importance;
  importance.n_chunks = text.n_windows();
  importance.chunk_tokens = text.context;
  Collector collector(importance);
  const Observation observation(session.executor(), collector);
  for (std::uint32_t w = 0; w < text.n_windows(); ++w) {
    const auto window = text.window(w);
    ORRERY_TRY(LogitStream stream, LogitStream::open(session, window, text.context / 2));
    ORRERY_TRY([[maybe_unused]] const LogitStream::Rows head, stream.next());
    if (progress) progress(w + 1, text.n_windows(), 0.0);
  }
  return importance;
}

}  // namespace orrery::engine
