// Eight clients that chat as those of bench/serve/load.py do, on a clock that goes about as
// SmolLM2-135M does on two cores.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/scheduler_loop_fixture.hpp"

namespace orrery::engine {
namespace {

using fake::Recorder;
using fake::Tokens;

double seconds_of(const backend::Batch& batch) {
  const double n = batch.n_tokens, depth = batch.positions[0];
  if (batch.n_outputs == batch.n_tokens) return 0.0021 + 0.0006 * n;
  return 0.003 + 0.00033 * std::ceil(n / 32) * 32 + 1.1e-7 * n * (depth + n / 2) + 4e-6 * depth;
}

class LoadTest : public fake::SchedulerLoopTest {
 protected:
  struct Client {
    Tokens list;
    std::shared_ptr<Recorder> answer;
    int turns = 0;
  };
  static constexpr std::array<std::size_t, 8> kPrompts = {40, 80, 150, 560, 1500, 300, 40, 3100};

  void SetUp() override {
    executor = *Executor::create(
        fake::record(plan::Phase::decode, {16, 16, 16}, fake::kWindow),
        fake::record(plan::Phase::prefill, {512, 1, 5}, fake::kWindow), backend,
        {.sequences = 32, .context = 4096, .slice = 0, .budget_bytes = 10000 * fake::kPageBytes});
    make_loop(16);
    backend.faults.on_run = [this](const backend::Batch& batch) { now += seconds_of(batch); };
  }

  void ask(Client& client, std::size_t tokens, std::vector<double>& waits) {
    const Tokens more = fake::random_tokens(tokens, ++asked_);
    client.list.insert(client.list.end(), more.begin(), more.end());
    client.answer = submit(fake::greedy(client.list, 40));
    client.answer->took = [&waits, this, answer = client.answer.get(), asked = now] {
      if (answer->tokens.size() == 1) waits.push_back(now - asked);
    };
  }

  // Three conversations of two turns, of another length each.
  void chat() {
    std::array<Client, kPrompts.size()> clients;
    bool is_over = false;
    while (!is_over) {
      is_over = true;
      for (std::size_t i = 0; i < clients.size(); ++i) {
        Client& client = clients[i];
        const bool has_ended = client.answer != nullptr && client.answer->ends > 0;
        if (client.turns < 6 && (client.answer == nullptr || has_ended)) {
          const bool is_first = client.turns++ % 2 == 0;
          if (is_first) {
            client.list.clear();
            ask(client, kPrompts[(i + static_cast<std::size_t>(client.turns)) % 8], first_);
          } else {
            const Tokens& said = client.answer->tokens;
            client.list.insert(client.list.end(), said.begin(), said.end());
            ask(client, 17, second_);
          }
        }
        is_over = is_over && client.turns == 6 && client.answer->ends > 0;
      }
      loop->tick();
    }
  }

  std::vector<double> first_, second_;  // seconds to the first token

 private:
  std::uint64_t asked_ = 0;
};

TEST_F(LoadTest, NextTurnsDoNotWaitForLongPrompts) {
  chat();
  ASSERT_EQ(first_.size(), 24U);
  ASSERT_EQ(second_.size(), 24U);
  std::ranges::sort(first_);
  std::ranges::sort(second_);
  EXPECT_LT(second_[12], 0.030);
  EXPECT_LT(second_.back(), 0.060);
  EXPECT_LT(first_[12], 0.8);
  EXPECT_LT(first_.back(), 0.9 * now);  // nor do long ones wait for the end of all others
}

}  // namespace
}  // namespace orrery::engine
