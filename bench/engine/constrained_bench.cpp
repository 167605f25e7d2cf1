// Eight texts at once under one constraint each: what part of a decode step masks take, the first
// time a grammar is seen (cold) and again (warm). Usage: constrained_bench MODEL [TOKENS]
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

#include "engine/model.hpp"
#include "engine/scheduler.hpp"
#include "text/constraint_cases.hpp"

namespace {

using namespace orrery;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kBatch = 8;

// Times another constraint. On the scheduler's thread, as all calls are.
class Timed final : public text::Constraint {
 public:
  // Microseconds of a token: its mask and its acceptance.
  Timed(std::unique_ptr<text::Constraint> inner, std::vector<double>& times)
      : inner_(std::move(inner)), times_(times) {}

  std::span<const std::uint32_t> allowed() override {
    const auto start = Clock::now();
    const auto mask = inner_->allowed();
    spent_ += since(start);
    return mask;
  }
  Status accept(text::TokenId token) override {
    const auto start = Clock::now();
    Status status = inner_->accept(token);
    spent_ += since(start);
    return status;
  }
  bool is_finished() const override {
    const auto start = Clock::now();
    const bool finished = inner_->is_finished();
    times_.push_back(spent_ + since(start));
    spent_ = 0;
    return finished;
  }

 private:
  static double since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }

  std::unique_ptr<text::Constraint> inner_;
  std::vector<double>& times_;
  mutable double spent_ = 0;
};

// Counts the requests that have ended.
class Ends final : public engine::RequestEvents {
 public:
  void on_prefill(std::uint32_t, std::uint32_t) override {}
  void on_token(const engine::TokenEvent&) override {}
  void on_end(const engine::RequestEnd& end) override {
    const std::lock_guard lock(mutex_);
    if (end.error) std::printf("a request failed: %s\n", end.error->message.c_str());
    ++ended_;
    changed_.notify_all();
  }
  void wait(std::uint32_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ == n; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t ended_ = 0;
};

bool run(engine::Scheduler& scheduler, const engine::Model& model,
         const text::ConstraintSource& source, std::uint32_t tokens, const char* name) {
  std::vector<double> times;
  const auto before = scheduler.stats();
  const auto ends = std::make_shared<Ends>();
  for (std::uint32_t i = 0; i < kBatch; ++i) {
    engine::Request request;
    request.prompt = model.tokenizer().encode("Fill in the form about a person:\n", {});
    request.sampling.temperature = 1;
    request.sampling.seed = i;
    request.max_tokens = tokens;
    request.constraint = std::make_unique<Timed>(source.start(), times);
    if (!scheduler.submit(std::move(request), ends)) return false;
  }
  ends->wait(kBatch);
  const auto after = scheduler.stats();
  std::sort(times.begin(), times.end());
  const double spent = std::accumulate(times.begin(), times.end(), 0.0);
  const double steps = static_cast<double>(after.decode_ticks - before.decode_ticks);
  const double seconds = after.decode_seconds - before.decode_seconds;
  std::printf("%-22s %6.2f%% of decoding; step %6.2f ms; token %7.1f us, p99 %8.1f, most %8.1f\n",
              name, 100 * spent / (1e6 * seconds), 1e3 * seconds / steps,
              spent / static_cast<double>(times.size()), times[times.size() * 99 / 100],
              times.back());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return std::puts("usage: constrained_bench MODEL [TOKENS]"), 2;
  const auto tokens = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 64);
  engine::ModelOptions options;
  options.context = 1024;
  options.max_sequences = kBatch + 1;
  const auto model = engine::Model::open(argv[1], options, storage::system_io());
  if (!model) return std::puts(model.error().message.c_str()), 1;
  const auto scheduler = engine::Scheduler::start(*model, {.running = kBatch});
  if (!scheduler) return std::puts(scheduler.error().message.c_str()), 1;
  text::Grammars grammars({*model, &(*model)->tokenizer()});
  for (const bench::ConstraintCase& test : bench::constraint_cases()) {
    const auto source = test.compile(grammars);
    if (!source) return std::puts(source.error().message.c_str()), 1;
    for (const char* state : {"cold", "warm"}) {
      const std::string name = std::string(test.name) + ", " + state;
      if (!run(**scheduler, **model, **source, tokens, name.c_str())) return 1;
    }
  }
  return 0;
}
