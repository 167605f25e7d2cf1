// Sessions on models with states: reuse, edits, several sessions and failed runs give the bits of a
// computation from the start.
#include <gtest/gtest.h>

#include <vector>

#include "engine/random.hpp"
#include "engine/session.hpp"
#include "engine/tiny_executor.hpp"
#include "support/sanitized.hpp"
#include "support/tiny_hybrid.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;
using Model = TinyModelOf<test::TinyHybrid>;

Tokens random_tokens(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  Tokens tokens(n);
  for (auto& token : tokens) {
    token = static_cast<text::TokenId>(random.next() % test::TinyHybrid::kVocab);
  }
  return tokens;
}

Tokens first(const Tokens& tokens, std::size_t n) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)};
}

// Runs, then fails those that are asked to: what they wrote stays.
class FailingProgram final : public backend::Program {
 public:
  FailingProgram(std::unique_ptr<backend::Program> inner, const bool* fails)
      : inner_(std::move(inner)), fails_(fails) {}
  Status run(const backend::Batch& batch, std::uint32_t begin, std::uint32_t end) override {
    const Status status = inner_->run(batch, begin, end);
    return *fails_ ? fail("E_FAKE", "asked to fail") : status;
  }
  std::uint32_t n_steps() const override { return inner_->n_steps(); }
  const float* result() const override { return inner_->result(); }
  std::vector<float> download(plan::BufferId buffer, std::int64_t rows) const override {
    return inner_->download(buffer, rows);
  }
  std::uint64_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  std::string kernel_name(std::uint32_t step) const override { return inner_->kernel_name(step); }

 private:
  std::unique_ptr<backend::Program> inner_;
  const bool* fails_;
};

class FailingBackend final : public backend::Backend {
 public:
  backend::DeviceInfo info() const override { return inner_->info(); }
  bool supports(const plan::Plan& plan, const plan::Step& step) const override {
    return inner_->supports(plan, step);
  }
  Result<std::unique_ptr<backend::Program>> compile(const plan::Plan& plan,
                                                    backend::Bindings bindings) override {
    ORRERY_TRY(auto program, inner_->compile(plan, std::move(bindings)));
    return std::make_unique<FailingProgram>(std::move(program), &fails);
  }
  bool fails = false;

 private:
  std::unique_ptr<backend::Backend> inner_ = *backend::make_cpu_backend({2, ""});
};

class StateSessionTest : public testing::Test {
 protected:
  Evaluation evaluate(Session& session, const Tokens& tokens) {
    const auto result = session.evaluate(tokens);
    EXPECT_TRUE(result.has_value());
    logits.assign(result->logits.begin(), result->logits.end());
    return *result;
  }
  // From the start, in one slice.
  std::vector<float> computed_anew(const Tokens& tokens) {
    const auto session = *Session::open(whole_);
    const auto result = session->evaluate(tokens);
    return {result->logits.begin(), result->logits.end()};
  }

  FailingBackend backend;
  Model model{{}, true};
  std::vector<float> logits;

 private:
  std::shared_ptr<Executor> whole_ = model.make(backend, 512, 1, 512);
};

TEST_F(StateSessionTest, DeterministicAnswersDoNotDependOnSlicesOrReuse) {
  const Tokens tokens = random_tokens(150, 1);
  const std::vector<float> expected = computed_anew(tokens);
  for (const std::uint32_t slice : {32U, 33U, 100U}) {
    const auto session = *Session::open(model.make(backend, 256, 1, slice));
    evaluate(*session, tokens);
    EXPECT_EQ(logits, expected) << slice;
  }
  const auto stepped = *Session::open(model.make(backend, 256, 1, 32));
  for (std::size_t n = test::kSanitized ? 120 : 1; n <= tokens.size(); ++n) {
    evaluate(*stepped, first(tokens, n));
  }
  EXPECT_EQ(logits, expected);
}

TEST_F(StateSessionTest, EditsGoBackToTheLastSnapshot) {
  const auto session = *Session::open(model.make(backend, 512, 1, 100));
  const Tokens tokens = random_tokens(300, 2);
  EXPECT_EQ(evaluate(*session, tokens).reused, 0U);
  Tokens longer = tokens;
  longer.push_back(5);
  EXPECT_EQ(evaluate(*session, longer).reused, 300U);  // the live end
  EXPECT_EQ(logits, computed_anew(longer));
  Tokens changed = tokens;
  changed[280] = (changed[280] + 1) % 97;
  EXPECT_EQ(evaluate(*session, changed).reused, 256U);
  EXPECT_EQ(logits, computed_anew(changed));
  EXPECT_EQ(evaluate(*session, first(tokens, 250)).reused, 192U);
  EXPECT_EQ(logits, computed_anew(first(tokens, 250)));
  EXPECT_EQ(evaluate(*session, first(tokens, 193)).reused, 192U);
  EXPECT_EQ(logits, computed_anew(first(tokens, 193)));
  EXPECT_EQ(evaluate(*session, first(tokens, 40)).reused, 0U);
  EXPECT_EQ(logits, computed_anew(first(tokens, 40)));
}

TEST_F(StateSessionTest, RandomEditsAlwaysGiveTheLogitsOfTheList) {
  const auto session = *Session::open(model.make(backend, 512, 1, 90));
  Random random(3);
  Tokens tokens = random_tokens(10, 4);
  for (int step = 0; step < (test::kSanitized ? 5 : 25); ++step) {
    const std::uint64_t action = random.next() % 4;
    if (action == 0) tokens.resize(1 + random.next() % tokens.size());
    if (action == 1) tokens[random.next() % tokens.size()] = 7;
    if (action == 2) {
      const Tokens more = random_tokens(random.next() % 100, random.next());
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    tokens.push_back(static_cast<text::TokenId>(random.next() % 97));
    if (tokens.size() > 500) tokens.resize(250);
    evaluate(*session, tokens);
    ASSERT_EQ(logits, computed_anew(tokens)) << step;
  }
}

TEST_F(StateSessionTest, InterleavedSessionsEqualEachAlone) {
  const auto executor = model.make(backend, 256, 3, 64);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Session*> batch;
  std::vector<Tokens> lists;
  for (std::size_t i = 0; i < 3; ++i) {
    sessions.push_back(*Session::open(executor));
    batch.push_back(sessions.back().get());
    lists.push_back(random_tokens(50 + 37 * i, 10 + i));
  }
  for (std::size_t part = 0; part < 3; ++part) {  // by turns, a slice each
    for (std::size_t i = 0; i < 3; ++i) {
      evaluate(*sessions[i], first(lists[i], lists[i].size() * (part + 1) / 3));
    }
  }
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Tokens next = random_tokens(3, 100 + step);
    ASSERT_TRUE(decode_batch(batch, next).has_value());
    for (std::size_t i = 0; i < 3; ++i) {
      lists[i].push_back(next[i]);
      const auto row = executor->logits(i);
      if (step == 19) {
        EXPECT_EQ(std::vector<float>(row.begin(), row.end()), computed_anew(lists[i]));
      }
    }
  }
}

TEST_F(StateSessionTest, FailedRunsGoBackToASnapshot) {
  const auto session = *Session::open(model.make(backend, 512, 1, 100));
  Tokens tokens = random_tokens(150, 7);
  evaluate(*session, tokens);
  backend.fails = true;
  tokens.push_back(3);
  EXPECT_EQ(session->evaluate(tokens).error().kind, "E_FAKE");
  EXPECT_EQ(session->held().size(), 128U);
  Session* one = session.get();
  const text::TokenId next = tokens[128];
  EXPECT_EQ(decode_batch({&one, 1}, {&next, 1}).error().kind, "E_FAKE");
  EXPECT_EQ(session->held().size(), 128U);  // the run began a page of its own
  backend.fails = false;
  EXPECT_EQ(evaluate(*session, tokens).reused, 128U);
  EXPECT_EQ(logits, computed_anew(tokens));
}

}  // namespace
}  // namespace orrery::engine
