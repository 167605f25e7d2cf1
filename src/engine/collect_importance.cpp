#include "engine/collect_importance.hpp"

#include <algorithm>

namespace orrery::engine {
namespace {

void add_rows(std::span<const float> rows, std::size_t cols, ColumnSums& sums) {
  sums.squares.resize(cols, 0.0F);
  sums.counts.resize(1, 0.0F);
  for (std::size_t at = 0; at + cols <= rows.size(); at += cols) {
    for (std::size_t c = 0; c < cols; ++c) sums.squares[c] += rows[at + c] * rows[at + c];
    sums.counts[0] += 1.0F;
  }
}

class Collector final : public InputObserver {
 public:
  explicit Collector(Importance& importance) : importance_(importance) {}

  void see(const plan::Plan& plan, const plan::Step& step, std::span<const float> rows) override {
    for (const plan::WeightId w : step.w) {
      if (w == plan::kNone) continue;
      const plan::Weight& weight = plan.weights[static_cast<std::size_t>(w)];
      if (weight.row_begin > 0) continue;  // of a fused tensor, which counts once
      add_rows(rows, weight.cols, importance_.sums[weight.tensor]);
    }
  }

 private:
  Importance& importance_;
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
