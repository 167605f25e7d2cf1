#include "engine/eval.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/fake_backend.hpp"
#include "engine/fake_tokenizer.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

double nll(std::span<const text::TokenId> tokens, text::TokenId next) {
  const std::uint64_t hash = fake::expected_hash(tokens);
  double sum = 0;
  for (std::uint32_t v = 0; v < fake::kVocab; ++v) sum += std::exp(fake::logit(hash, v));
  return std::log(sum) - fake::logit(hash, static_cast<std::uint32_t>(next));
}

EvalText text_of(std::size_t n, std::uint32_t context, text::TokenId bos) {
  EvalText text;
  for (std::size_t i = 0; i < n; ++i)
    text.tokens.push_back(static_cast<text::TokenId>(i * 31 % 90));
  text.context = context;
  text.bos = bos;
  return text;
}

TEST(Eval, PerplexityScoresTheSecondHalfOfEachWindow) {
  fake::Backend backend;
  auto session = *Session::open(fake::make_executor(backend, 128, 1));
  for (const text::TokenId bos : {text::kNoToken, 95}) {
    const EvalText text = text_of(450, 128, bos);
    double sum = 0;
    int scored = 0;
    for (std::size_t w = 0; w < 3; ++w) {
      Tokens window(text.tokens.begin() + static_cast<std::ptrdiff_t>(w * 128),
                    text.tokens.begin() + static_cast<std::ptrdiff_t>(w * 128 + 128));
      if (bos != text::kNoToken) window[0] = bos;
      for (std::size_t i = 64; i < 127; ++i, ++scored) {
        sum += nll(std::span(window).first(i + 1), window[i + 1]);
      }
    }
    std::uint32_t windows = 0;
    const auto result = evaluate_perplexity(*session, text, [&](auto done, auto all, double) {
      windows = done;
      EXPECT_EQ(all, 3U);
    });
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(windows, 3U);
    EXPECT_EQ(result->scored, 3U * 63U);
    EXPECT_NEAR(result->perplexity, std::exp(sum / scored), 1e-4 * result->perplexity);
  }
}

TEST(Eval, WindowsOfAText) {
  const fake::Tokenizer tokenizer({"a", "b", "<s>"});
  const auto text = cut_windows(tokenizer, "abababab", 4);
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->bos, 2);
  EXPECT_EQ(text->window(0), (Tokens{2, 0, 1, 0}));
  EXPECT_EQ(text->window(1), (Tokens{2, 0, 1, 0}));  // the b before gives way to BOS
  EXPECT_EQ(cut_windows(tokenizer, "ab", 4).error().kind, "E_TOKENS");
  EXPECT_EQ(cut_windows(tokenizer, "ab", 2).error().kind, "E_PARAM");
}

TEST(Eval, DivergenceOfAModelFromItselfIsNone) {
  fake::Backend backend;
  auto a = *Session::open(fake::make_executor(backend, 128, 1));
  auto b = *Session::open(fake::make_executor(backend, 128, 1));
  const auto result = evaluate_divergence(*a, *b, text_of(300, 100, 95));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->scored, 3U * 49U);
  EXPECT_NEAR(result->mean_kl, 0, 1e-9);
  EXPECT_EQ(result->same_top1, 1);
  EXPECT_EQ(result->perplexity, result->reference_perplexity);
}

TEST(Eval, KlDivergence) {
  const std::vector<float> p{std::log(0.5F), std::log(0.25F), std::log(0.25F)};
  const std::vector<float> q{std::log(0.25F), std::log(0.25F), std::log(0.5F)};
  EXPECT_NEAR(kl_divergence(p, q), 0.25 * std::log(2.0), 1e-6);
}

TEST(Eval, LogitsReport) {
  fake::Backend backend;
  auto session = *Session::open(fake::make_executor(backend, 128, 1));
  const Tokens tokens{5, 6, 7};
  const auto report = report_logits(*session, tokens, 3, 4);
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->top.size(), 3U);
  ASSERT_EQ(report->greedy.size(), 4U);
  EXPECT_EQ(report->greedy[0], report->top[0].first);
  EXPECT_NEAR(report->logsumexp - report->top[1].second, nll(tokens, report->top[1].first), 1e-5);
}

}  // namespace
}  // namespace orrery::engine
