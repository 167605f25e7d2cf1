// Sessions on the real CPU backend: equal bits however the work is cut, and no allocation.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <tuple>

#include "engine/sampler.hpp"
#include "engine/session.hpp"
#include "engine/tiny_executor.hpp"
#include "support/tiny_hybrid.hpp"

namespace {
std::atomic<std::uint64_t> allocations = 0;

void* counted(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

Tokens random_tokens(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  Tokens tokens(n);
  for (auto& token : tokens) {
    token = static_cast<text::TokenId>(random.next() % test::TinyLlama::kVocab);
  }
  return tokens;
}

// Seven experts, two of them used.
const test::TinyLlama::Mixture kMixture{.experts = 7, .route = {.used = 2}, .shared = true};

std::vector<float> copy(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

class CpuSessionTest : public testing::Test {
 protected:
  std::unique_ptr<backend::Backend> backend = *backend::make_cpu_backend({1, ""});
};

std::vector<float> evaluate(Session& session, const Tokens& tokens) {
  auto result = session.evaluate(tokens);
  EXPECT_TRUE(result.has_value());
  return copy(result->logits);
}

TEST_F(CpuSessionTest, DeterministicAnswersDoNotDependOnSlicesOrReuse) {
  const std::tuple<DType, DType, DType> types[] = {{DType::f32, DType::f16, DType::bf16},
                                                   {DType::q4_1, DType::f16, DType::bf16},
                                                   {DType::q4_1, DType::q8_0, DType::q4_0},
                                                   {DType::f32, DType::q4_0, DType::q8_0}};
  for (const auto& [type, k_type, v_type] : types) {
    for (const std::uint32_t window : {0U, 40U}) {
      TinyModel model({.type = type,
                       .window = window,
                       .k_type = k_type,
                       .v_type = v_type,
                       .mixture = window == 0 ? test::TinyLlama::Mixture{} : kMixture},
                      true);
      const Tokens tokens = random_tokens(150, 1);
      const auto whole = *Session::open(model.make(*backend, 256, 1, 256));
      const auto sliced = *Session::open(model.make(*backend, 256, 1, 33));
      const auto stepped = *Session::open(model.make(*backend, 256, 1, 32));
      const std::vector<float> expected = evaluate(*whole, tokens);
      EXPECT_EQ(evaluate(*sliced, tokens), expected);
      for (std::size_t n = 1; n < tokens.size(); ++n) {
        evaluate(*stepped, Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)));
      }
      EXPECT_EQ(evaluate(*stepped, tokens), expected);
      Tokens other = tokens;
      other[140] = (other[140] + 1) % 97;
      evaluate(*whole, other);
      EXPECT_EQ(evaluate(*whole, tokens), expected);
    }
  }
}

// A row alone takes another way through the program than a batch (backend/cpu/solo.hpp), and with
// several threads each has rows of its own there.
class CpuSessionThreadsTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<backend::Backend> backend = *backend::make_cpu_backend({GetParam(), ""});
};
INSTANTIATE_TEST_SUITE_P(Threads, CpuSessionThreadsTest, testing::Values(1, 2, 3));

void expect_batch_equals_each_alone(TinyModel model, backend::Backend& backend) {
  const auto executor = model.make(backend, 256, 6, 64);
  std::vector<std::unique_ptr<Session>> alone;
  std::vector<std::unique_ptr<Session>> together;
  std::vector<Session*> batch;
  for (std::size_t i = 0; i < 3; ++i) {
    const Tokens prompt = random_tokens(20 + 45 * i, i);
    for (auto* sessions : {&alone, &together}) {
      sessions->push_back(*Session::open(executor));
      evaluate(*sessions->back(), prompt);
    }
    batch.push_back(together.back().get());
  }
  for (std::uint64_t step = 0; step < 40; ++step) {
    const Tokens next = random_tokens(3, 100 + step);
    ASSERT_TRUE(decode_batch(batch, next).has_value());
    std::vector<std::vector<float>> rows;
    for (std::size_t i = 0; i < 3; ++i) rows.push_back(copy(executor->logits(i)));
    for (std::size_t i = 0; i < 3; ++i) {
      Session* session = alone[i].get();
      ASSERT_TRUE(decode_batch({&session, 1}, {&next[i], 1}).has_value());
      ASSERT_EQ(copy(executor->logits(0)), rows[i]);
    }
  }
}

TEST_P(CpuSessionThreadsTest, BatchOfThreeEqualsEachAlone) {
  expect_batch_equals_each_alone(
      {{.type = DType::q4_1, .qk_norm = true, .k_type = DType::f16, .v_type = DType::f16}, false},
      *backend);
}

TEST_P(CpuSessionThreadsTest, BatchOfThreeEqualsEachAloneWithAQuantizedCache) {
  expect_batch_equals_each_alone(
      {{.type = DType::q4_1, .qk_norm = true, .k_type = DType::q8_0, .v_type = DType::q8_0}, false},
      *backend);
}

TEST_P(CpuSessionThreadsTest, BatchOfThreeEqualsEachAloneWithExperts) {
  expect_batch_equals_each_alone({{.type = DType::q4_1, .mixture = kMixture}, false}, *backend);
}

std::uint64_t mapped_pages() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

void expect_no_memory_taken(std::shared_ptr<Executor> executor) {
  const auto session = *Session::open(std::move(executor));
  SamplerParams params;
  params.seed = 1;
  params.repeat_penalty = 1.1F;
  params.dry_multiplier = 0.8F;
  params.repetition_temperature = 0.5F;
  params.n_logprobs = 5;
  Sampler sampler = *Sampler::create(params, test::TinyLlama::kVocab, 512);
  Tokens tokens = random_tokens(60, 2);
  tokens.reserve(512);
  const auto step = [&] {
    const auto result = session->evaluate(tokens);
    if (!result) std::abort();
    const auto token = sampler.sample(result->logits);
    if (!token) std::abort();
    sampler.accept(*token);
    tokens.push_back(*token);
  };
  for (int i = 0; i < 3; ++i) step();  // warm
  const std::uint64_t mapped = mapped_pages();
  const std::size_t heap = mallinfo2().uordblks;
  const std::uint64_t before = allocations;
  for (int i = 0; i < 100; ++i) step();
  EXPECT_EQ(allocations - before, 0U);
  EXPECT_EQ(mallinfo2().uordblks, heap);
  EXPECT_EQ(mapped_pages(), mapped);
}

TEST_F(CpuSessionTest, DecodingTakesNoMemory) {
  const auto two_threads = *backend::make_cpu_backend({2, ""});
  TinyModel model({.type = DType::q4_1, .mixture = kMixture}, false);
  expect_no_memory_taken(model.make(*two_threads, 512, 1, 64));
}

// Snapshots come and go: the pages of a state group are used again once there are enough of them.
TEST_F(CpuSessionTest, DecodingWithStatesTakesNoMemory) {
  const auto two_threads = *backend::make_cpu_backend({2, ""});
  TinyModelOf<test::TinyHybrid> model({.type = DType::q8_0}, false);
  expect_no_memory_taken(model.make(*two_threads, 512, 1, 64));
}

}  // namespace
}  // namespace orrery::engine
