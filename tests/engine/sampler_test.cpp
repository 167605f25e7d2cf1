#include "engine/sampler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "engine/sampler_reference.hpp"
#include "support/cpu_clock.hpp"
#include "support/sanitized.hpp"

namespace orrery::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

SamplerParams neutral() {
  SamplerParams p;
  p.temperature = 1;
  p.top_k = 0;
  p.top_p = 1;
  p.min_p = 0;
  p.seed = 1;
  return p;
}

Sampler make(const SamplerParams& p, std::size_t vocab) {
  auto sampler = Sampler::create(p, static_cast<std::int32_t>(vocab), 4096);
  EXPECT_TRUE(sampler.has_value());
  return std::move(*sampler);
}

std::vector<float> random_logits(std::size_t n, std::uint64_t seed, double spread) {
  Random random(seed);
  std::vector<float> logits(n);
  for (float& logit : logits) {  // close to normal: the sum of twelve uniforms
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random.uniform();
    logit = static_cast<float>(spread * sum);
  }
  return logits;
}

std::vector<int> kept_ids(Sampler& sampler, const std::vector<float>& logits) {
  EXPECT_TRUE(sampler.sample(logits).has_value());
  std::vector<int> ids;
  for (std::size_t i = 0; i < sampler.candidates().size(); ++i) {
    ids.push_back(sampler.candidates().id(i));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

void expect_reference(const SamplerParams& p, const std::vector<float>& logits,
                      const std::vector<int>& history, const char* what) {
  SCOPED_TRACE(what);
  Sampler sampler = make(p, logits.size());
  for (const int id : history) sampler.accept(id);
  ASSERT_TRUE(sampler.sample(logits).has_value());
  const Candidates& got = sampler.candidates();
  std::map<int, double> expected;
  for (const auto& item : reference::distribution(logits, p, history)) expected[item.id] = item.p;
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(expected.contains(got.id(i))) << got.id(i);
    EXPECT_NEAR(got.probability(i), expected[got.id(i)], 2e-5 * expected[got.id(i)] + 1e-9);
  }
}

TEST(Random, KnownSequence) {
  // From the authors' C sources, the state filled by splitmix64(0).
  Random random(0);
  EXPECT_EQ(random.next(), 0x53175D61490B23DFULL);
  EXPECT_EQ(random.next(), 0x61DA6F3DC380D507ULL);
  EXPECT_EQ(random.next(), 0x5C0FDF91EC9A7BFCULL);
}

TEST(Sampler, EveryStageEqualsTheReference) {
  std::vector<int> history;
  Random random(9);
  for (int i = 0; i < 300; ++i) history.push_back(static_cast<int>(random.next() % 7));
  for (const std::size_t vocab : {2UL, 17UL, 300UL, 5000UL}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const auto logits = random_logits(std::max<std::size_t>(vocab, 8), seed, 2.5);
      const auto with = [&](const char* what, auto change) {
        SamplerParams p = neutral();
        change(p);
        expect_reference(p, logits, history, what);
      };
      with("plain", [](auto&) {});
      with("temperature", [](auto& p) { p.temperature = 0.37F; });
      with("top_k", [](auto& p) { p.top_k = 5; });
      with("top_k above the heap", [](auto& p) { p.top_k = 700; });
      with("top_p", [](auto& p) { p.top_p = 0.83F; });
      with("min_p", [](auto& p) { p.min_p = 0.07F; });
      with("typical", [](auto& p) { p.typical_p = 0.61F; });
      with("top_n_sigma", [](auto& p) { p.top_n_sigma = 1.3F; });
      with("repeat", [](auto& p) { p.repeat_penalty = 1.3F; });
      with("frequency", [](auto& p) { p.frequency_penalty = 0.11F; });
      with("presence", [](auto& p) { p.presence_penalty = 0.7F, p.penalty_last_n = 5; });
      with("dry", [](auto& p) { p.dry_multiplier = 0.8F; });
      with("dry, breakers", [](auto& p) { p.dry_multiplier = 0.8F, p.dry_breakers = {3}; });
      with("dynatemp", [](auto& p) { p.dynatemp_range = 0.5F, p.dynatemp_exponent = 1.5F; });
      with("bias", [](auto& p) { p.logit_bias = {{1, 3.5F}, {0, -kInfinity}}; });
      with("chain", [](auto& p) {
        p.temperature = 0.8F, p.top_k = 40, p.top_p = 0.95F, p.min_p = 0.05F;
        p.repeat_penalty = 1.1F, p.typical_p = 0.95F, p.dry_multiplier = 0.5F;
      });
    }
  }
}

TEST(Sampler, TiesGoToTheLowerId) {
  const std::vector<float> logits{1, 2, 2, 2, 1, 0};
  SamplerParams p = neutral();
  p.top_k = 2;
  Sampler two = make(p, 6);
  EXPECT_EQ(kept_ids(two, logits), (std::vector{1, 2}));
  p.top_k = 4;
  Sampler four = make(p, 6);
  EXPECT_EQ(kept_ids(four, logits), (std::vector{0, 1, 2, 3}));
  p.temperature = 0;
  Sampler greedy = make(p, 6);
  EXPECT_EQ(greedy.sample(logits), 1);
}

TEST(Sampler, ManyTiesAreCutById) {
  const std::vector<float> logits(5000, 1.0F);
  SamplerParams p = neutral();
  p.top_k = 600;
  Sampler sampler = make(p, logits.size());
  const auto ids = kept_ids(sampler, logits);
  ASSERT_EQ(ids.size(), 600U);
  EXPECT_EQ(ids.back(), 599);
}

TEST(Sampler, TopPIsTheSmallestPrefixThatReachesTheMass) {
  const float ln2 = std::log(2.0F);
  const std::vector<float> logits{0, -ln2, -2 * ln2, -2 * ln2};  // 1/2 1/4 1/8 1/8
  SamplerParams p = neutral();
  p.top_p = 0.7499F;
  Sampler below = make(p, 4);
  EXPECT_EQ(kept_ids(below, logits), (std::vector{0, 1}));
  p.top_p = 0.7501F;
  Sampler above = make(p, 4);
  EXPECT_EQ(kept_ids(above, logits), (std::vector{0, 1, 2}));
  p.top_p = 0;
  Sampler none = make(p, 4);
  EXPECT_EQ(kept_ids(none, logits), (std::vector{0}));
}

TEST(Sampler, MinPKeepsTheThresholdItself) {
  const std::vector<float> logits{0, std::log(0.5F), std::log(0.4999F)};
  SamplerParams p = neutral();
  p.min_p = 0.5F;
  Sampler sampler = make(p, 3);
  EXPECT_EQ(kept_ids(sampler, logits), (std::vector{0, 1}));
}

TEST(Sampler, XtcKeepsTheLeastProbableOfTheLikely) {
  const std::vector<float> logits{2, 3, 2, -4, -5};
  SamplerParams p = neutral();
  p.xtc_probability = 1;
  p.xtc_threshold = 0.1F;
  Sampler sampler = make(p, 5);
  EXPECT_EQ(kept_ids(sampler, logits), (std::vector{2, 3, 4}));
  p.xtc_threshold = 0.45F;  // one token reaches it: nothing is removed
  Sampler one = make(p, 5);
  EXPECT_EQ(kept_ids(one, logits).size(), 5U);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  constexpr int kDraws = ::orrery::test::kSanitized ? 100'000 : 1'000'000;
  const auto logits = random_logits(24, 3, 1.2);
  SamplerParams p = neutral();
  p.temperature = 0.9F;
  p.top_p = 0.97F;
  p.seed = 42;
  Sampler sampler = make(p, logits.size());
  std::map<int, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[*sampler.sample(logits)];
  const auto expected = reference::distribution(logits, p, {});
  double chi2 = 0;
  int seen = 0;
  for (const auto& item : expected) {
    const double n = item.p * kDraws;
    chi2 += (counts[item.id] - n) * (counts[item.id] - n) / n;
    seen += counts[item.id];
  }
  EXPECT_EQ(seen, kDraws);
  // Upper 1e-4 quantile by Wilson and Hilferty.
  const double k = static_cast<double>(expected.size() - 1);
  const double c = 1 - 2 / (9 * k) + 3.719 * std::sqrt(2 / (9 * k));
  EXPECT_LT(chi2, k * c * c * c);
}

TEST(Sampler, XtcFiresWithItsProbability) {
  const std::vector<float> logits{2, 1.9F, -30};
  SamplerParams p = neutral();
  p.xtc_probability = 0.3F;
  Sampler sampler = make(p, 3);
  int fired = 0;
  for (int i = 0; i < 20000; ++i) {
    ASSERT_TRUE(sampler.sample(logits).has_value());
    fired += sampler.candidates().size() == 2;
  }
  EXPECT_NEAR(fired / 20000.0, 0.3, 0.015);
}

TEST(Sampler, SeedRepeatsAndResetStartsAgain) {
  const auto logits = random_logits(100, 5, 1.0);
  Sampler a = make(neutral(), 100);
  Sampler b = make(neutral(), 100);
  std::vector<int> first;
  for (int i = 0; i < 50; ++i) {
    first.push_back(*a.sample(logits));
    EXPECT_EQ(first.back(), *b.sample(logits));
  }
  a.reset();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(first[static_cast<std::size_t>(i)], *a.sample(logits));
}

TEST(Sampler, MirostatHoldsItsSurprise) {
  const auto logits = random_logits(2000, 7, 2.0);
  for (const int version : {1, 2}) {
    SamplerParams p = neutral();
    p.mirostat = version;
    p.mirostat_tau = 3;
    Sampler sampler = make(p, logits.size());
    double surprise = 0;
    constexpr int kDraws = ::orrery::test::kSanitized ? 1000 : 4000;
    for (int i = 0; i < kDraws; ++i) {
      const int id = *sampler.sample(logits);
      const Candidates& c = sampler.candidates();
      for (std::size_t j = 0; j < c.size(); ++j) {
        if (c.id(j) == id) surprise -= std::log2(c.probability(j)) / kDraws;
      }
    }
    EXPECT_NEAR(surprise, 3, 0.15) << "version " << version;
  }
}

TEST(Sampler, RepetitionRaisesTheTemperatureAndDecays) {
  SamplerParams p = neutral();
  p.repetition_temperature = 0.6F;
  Repetition repetition(p, 1000, 4096);
  for (int i = 0; i < 300; ++i) {
    repetition.accept(i % 997);
    ASSERT_EQ(repetition.temperature(0.8F), 0.8F);  // no repeat: exactly the base
  }
  int steps = 0;
  while (repetition.temperature(0.8F) == 0.8F && steps < 100) repetition.accept(steps++ % 4);
  EXPECT_LE(steps, 16);
  for (int i = 0; i < 60; ++i) repetition.accept(i % 4);
  EXPECT_NEAR(repetition.temperature(0.8F), 1.4F, 0.02F);
  EXPECT_EQ(repetition.temperature(0), 0.0F);
  repetition.set_exempt(true);
  EXPECT_EQ(repetition.temperature(0.8F), 0.8F);
  repetition.set_exempt(false);
  for (int i = 0; i < 40; ++i) repetition.accept(400 + i);
  EXPECT_EQ(repetition.temperature(0.8F), 0.8F);
}

TEST(Sampler, RepetitionTemperatureIsBitIdenticalWithoutRepeats) {
  const auto logits = random_logits(500, 8, 1.5);
  SamplerParams p = neutral();
  Sampler plain = make(p, 500);
  p.repetition_temperature = 0.6F;
  Sampler driven = make(p, 500);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(*plain.sample(logits), *driven.sample(logits));
    driven.accept(i);
  }
}

TEST(Sampler, LogprobsAreTheModelsOwn) {
  const std::vector<float> logits{0, 1, 2, 3};
  SamplerParams p = neutral();
  p.temperature = 0;
  p.n_logprobs = 2;
  p.logit_bias = {{0, 100}};
  Sampler sampler = make(p, 4);
  EXPECT_EQ(sampler.sample(logits), 0);
  const double sum = std::log(1 + std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  EXPECT_NEAR(sampler.chosen_logprob().logprob, -sum, 1e-6);
  ASSERT_EQ(sampler.logprobs().size(), 2U);
  EXPECT_EQ(sampler.logprobs()[0].id, 3);
  EXPECT_NEAR(sampler.logprobs()[1].logprob, 2 - sum, 1e-6);
}

TEST(Sampler, LogprobsOfTheDrawAreThoseOfWhatIsLeft) {
  const std::vector<float> logits{0, 1, 2, 3};
  SamplerParams p = neutral();
  p.top_k = 2;
  p.temperature = 0.5F;
  p.n_logprobs = 4;
  p.logprobs_of_draw = true;
  Sampler sampler = make(p, 4);
  const text::TokenId chosen = *sampler.sample(logits);
  ASSERT_EQ(sampler.logprobs().size(), 2U);
  const double best = 1 / (1 + std::exp(-2.0));  // a step of 1 at half the temperature
  EXPECT_EQ(sampler.logprobs()[0].id, 3);
  EXPECT_NEAR(std::exp(sampler.logprobs()[0].logprob), best, 1e-6);
  EXPECT_NEAR(std::exp(sampler.logprobs()[1].logprob), 1 - best, 1e-6);
  EXPECT_EQ(sampler.chosen_logprob().id, chosen);
  EXPECT_EQ(sampler.chosen_logprob().logprob, sampler.logprobs()[chosen == 3 ? 0 : 1].logprob);
  // Argmax leaves one.
  p.temperature = 0;
  Sampler greedy = make(p, 4);
  EXPECT_EQ(greedy.sample(logits), 3);
  EXPECT_EQ(greedy.logprobs().size(), 1U);
  EXPECT_NEAR(greedy.chosen_logprob().logprob, 0, 1e-6);
}

TEST(Sampler, OddLogits) {
  Sampler sampler = make(neutral(), 3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sampler.sample(std::vector<float>{0, -kInfinity, -kInfinity}), 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{kInfinity, 0, 1}), 0);
  // A single damaged row of the weights is no reason to answer with the others.
  const auto damaged = sampler.sample(std::vector<float>{nan, 0, 1});
  ASSERT_FALSE(damaged.has_value());
  EXPECT_EQ(damaged.error().kind, "E_NAN");
  EXPECT_EQ(damaged.error().message.rfind("1 of the model's 3 logits are no numbers", 0), 0U);
  const auto none = sampler.sample(std::vector<float>(3, -kInfinity));
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().kind, "E_NAN");
  SamplerParams tiny = neutral();
  tiny.temperature = 1e-30F;
  Sampler cold = make(tiny, 3);
  EXPECT_EQ(cold.sample(std::vector<float>{-5, 7, 6.99F}), 1);
}

TEST(Sampler, ValidationNamesTheParameter) {
  const auto refused = [](const char* name, auto change) {
    SamplerParams p;
    change(p);
    const Status status = validate(p, 100);
    ASSERT_FALSE(status.has_value()) << name;
    EXPECT_EQ(status.error().kind, "E_PARAM");
    EXPECT_EQ(status.error().message.rfind(name, 0), 0U) << status.error().message;
  };
  EXPECT_TRUE(validate(SamplerParams{}, 100).has_value());
  refused("temperature", [](auto& p) { p.temperature = -0.1F; });
  refused("temperature", [](auto& p) { p.temperature = std::nanf(""); });
  refused("top_k", [](auto& p) { p.top_k = -1; });
  refused("top_p", [](auto& p) { p.top_p = 1.01F; });
  refused("min_p", [](auto& p) { p.min_p = -1; });
  refused("typical_p", [](auto& p) { p.typical_p = 2; });
  refused("repeat_penalty", [](auto& p) { p.repeat_penalty = 0; });
  refused("dry_allowed_length", [](auto& p) { p.dry_allowed_length = -3; });
  refused("mirostat", [](auto& p) { p.mirostat = 3; });
  refused("logit_bias", [](auto& p) { p.logit_bias = {{100, 1.0F}}; });
  refused("n_logprobs", [](auto& p) { p.n_logprobs = 65; });
}

TEST(Sampler, LargeVocabularyIsFast) {
  const auto logits = random_logits(262144, 11, 2.5);
  const auto best_of_runs = [&](const SamplerParams& p) {
    Sampler sampler = make(p, logits.size());
    double best = 1e9;
    for (int i = 0; i < (::orrery::test::kSanitized ? 2 : 10); ++i) {
      const ::orrery::test::CpuClock clock;
      EXPECT_TRUE(sampler.sample(logits).has_value());
      best = std::min(best, clock.milliseconds());
    }
    return best;
  };
  SamplerParams p;
  const double chain = best_of_runs(p);
  p = neutral();
  p.top_p = 0.9F;
  const double top_p = best_of_runs(p);
  p = neutral();
  p.typical_p = 0.9F;
  const double typical = best_of_runs(p);
  RecordProperty("chain_ms", std::to_string(chain));
  std::printf("262144 tokens: default chain %.3f ms, top_p alone %.3f, typical alone %.3f\n", chain,
              top_p, typical);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(chain, 1.0);
#endif
}

// The same token, number drawn and probabilities as with -inf in the place of what is not allowed.
TEST(Mask, IsMinusInfinityBeforeTheChain) {
  SamplerParams params = neutral();
  params.top_k = 20;
  params.top_p = 0.9F;
  params.repeat_penalty = 1.3F;
  params.logit_bias = {{3, 2.0F}, {64, -1.0F}};
  params.n_logprobs = 1;
  constexpr std::size_t kVocab = 150;  // the last word is not whole
  Sampler masked = make(params, kVocab), plain = make(params, kVocab);
  Random random(9);
  for (std::uint64_t round = 0; round < 300; ++round) {
    const std::vector<float> logits = random_logits(kVocab, round, 3);
    std::vector<std::uint32_t> mask(5);
    for (auto& word : mask) {
      const std::uint64_t kind = random.next() % 4;
      word = kind == 0 ? 0 : kind == 1 ? ~0U : static_cast<std::uint32_t>(random.next());
    }
    mask[round % 4] |= 1;
    if (round % 10 == 0) mask.pop_back();  // tokens without a word are not allowed
    std::vector<float> banned = logits;
    for (std::size_t i = 0; i < kVocab; ++i) {
      if (i / 32 >= mask.size() || (mask[i / 32] >> (i % 32) & 1U) == 0) banned[i] = -kInfinity;
    }
    const auto chosen = masked.sample(logits, mask);
    ASSERT_TRUE(chosen);
    ASSERT_EQ(*chosen, *plain.sample(banned));
    ASSERT_EQ(masked.candidates().size(), plain.candidates().size());
    ASSERT_GT(masked.candidates().probability(0), 0.0F);
    // The report is of the model's own probabilities.
    ASSERT_EQ(masked.logprobs()[0].id, std::ranges::max_element(logits) - logits.begin());
    masked.accept(*chosen);
    plain.accept(*chosen);
  }
  EXPECT_EQ(masked.sample(random_logits(kVocab, 1, 3), std::vector<std::uint32_t>(5)).error().kind,
            "E_GRAMMAR");
}

TEST(Scratch, IsSharedByTurns) {
  const auto scratch = std::make_shared<Candidates>(100);
  SamplerParams params = neutral();
  Sampler one = *Sampler::create(params, 100, 64, scratch), other = make(params, 100);
  Sampler between = *Sampler::create(params, 100, 64, scratch);
  for (std::uint64_t round = 0; round < 50; ++round) {
    const std::vector<float> logits = random_logits(100, round, 3);
    ASSERT_EQ(*one.sample(logits), *other.sample(logits));
    ASSERT_TRUE(between.sample(random_logits(100, 1000 + round, 3)));
  }
}

}  // namespace
}  // namespace orrery::engine
