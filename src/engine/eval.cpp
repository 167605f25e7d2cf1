#include "engine/eval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "engine/candidates.hpp"
#include "engine/softmax.hpp"

namespace orrery::engine {
namespace {

// Sums of negative log likelihoods.
struct Score {
  double sum = 0, squares = 0;
  std::uint64_t n = 0;

  void add(std::span<const float> logits, text::TokenId next) {
    const double nll = log_sum_exp(logits.data(), logits.size()) - logits[next];
    sum += nll;
    squares += nll * nll;
    ++n;
  }
  double perplexity() const { return std::exp(sum / static_cast<double>(n)); }
};

// Rows of positions [context / 2, context - 1): each predicts the token after it.
std::uint32_t first_scored(const EvalText& text) {
  return text.context / 2;
}

text::TokenId best(std::span<const float> logits) {
  Candidate top{text::kNoToken, 0};
  best_of(logits, {&top, 1});
  return top.id;
}

}  // namespace

std::vector<text::TokenId> EvalText::window(std::uint32_t index) const {
  const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(index) * context;
  std::vector<text::TokenId> window(begin, begin + context);
  if (bos != text::kNoToken) window[0] = bos;
  return window;
}

Result<EvalText> cut_windows(const text::Tokenizer& tokenizer, std::string_view text,
                             std::uint32_t context) {
  if (context < 4) return fail("E_PARAM", "a window must have at least 4 tokens");
  EvalText cut;
  cut.context = context;
  cut.tokens = tokenizer.encode(text, {.add_special = true, .parse_special = false});
  const auto bare = tokenizer.encode("", {.add_special = true, .parse_special = false});
  const text::TokenId bos = tokenizer.special().bos;
  if (bos != text::kNoToken && !bare.empty() && bare.front() == bos) cut.bos = bos;
  if (cut.n_windows() < 2) {
    return fail("E_TOKENS", fmt::format("the text has {} tokens; two windows of {} are the least",
                                        cut.tokens.size(), context));
  }
  return cut;
}

Result<Perplexity> evaluate_perplexity(Session& session, const EvalText& text,
                                       const EvalProgress& progress) {
  Score score;
  const std::size_t vocab = session.executor().vocab();
  for (std::uint32_t w = 0; w < text.n_windows(); ++w) {
    const auto window = text.window(w);
    // The last token predicts nothing that the text has.
    const auto inputs = std::span(window).first(window.size() - 1);
    ORRERY_TRY(LogitStream stream, LogitStream::open(session, inputs, first_scored(text)));
    for (;;) {
      ORRERY_TRY(const LogitStream::Rows rows, stream.next());
      if (rows.count == 0) break;
      for (std::uint32_t i = 0; i < rows.count; ++i) {
        score.add({rows.logits + i * vocab, vocab}, window[rows.position + i + 1]);
      }
    }
    if (progress) progress(w + 1, text.n_windows(), score.perplexity());
  }
  const auto n = static_cast<double>(score.n);
  Perplexity result;
  result.scored = score.n;
  result.mean_nll = score.sum / n;
  result.perplexity = score.perplexity();
  const double variance = std::max(0.0, score.squares / n - result.mean_nll * result.mean_nll);
  result.standard_error = result.perplexity * std::sqrt(variance / std::max(1.0, n - 1));
  return result;
}

double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits) {
  const double p_sum = log_sum_exp(p_logits.data(), p_logits.size());
  const double q_sum = log_sum_exp(q_logits.data(), q_logits.size());
  const float p_max = max_of(p_logits.data(), p_logits.size());
  const double scale = std::exp(p_max - p_sum);
  double kl = 0;
  for (std::size_t i = 0; i < p_logits.size(); ++i) {
    const double p = exp_nonpositive(p_logits[i] - p_max) * scale;
    if (p > 0) kl += p * ((p_logits[i] - p_sum) - (q_logits[i] - q_sum));
  }
  return kl;
}

Result<Divergence> evaluate_divergence(Session& session, Session& reference, const EvalText& text,
                                       const EvalProgress& progress) {
  const std::size_t vocab = session.executor().vocab();
  if (reference.executor().vocab() != vocab) {
    return fail("E_VOCAB", fmt::format("the models have vocabularies of {} and {} tokens", vocab,
                                       reference.executor().vocab()));
  }
  ORRERY_CHECK(&session.executor() != &reference.executor());  // one's rows would end the other's
  Divergence result;
  Score score;
  Score reference_score;
  double same = 0;
  for (std::uint32_t w = 0; w < text.n_windows(); ++w) {
    const auto window = text.window(w);
    const auto inputs = std::span(window).first(window.size() - 1);
    ORRERY_TRY(LogitStream ours, LogitStream::open(session, inputs, first_scored(text)));
    ORRERY_TRY(LogitStream theirs, LogitStream::open(reference, inputs, first_scored(text)));
    LogitStream::Rows q;
    LogitStream::Rows p;
    std::uint32_t q_used = 0;
    std::uint32_t p_used = 0;
    for (std::uint32_t at = first_scored(text); at < inputs.size(); ++at) {
      if (q_used == q.count) {
        ORRERY_TRY(q, ours.next());
        q_used = 0;
      }
      if (p_used == p.count) {
        ORRERY_TRY(p, theirs.next());
        p_used = 0;
      }
      const std::span q_row(q.logits + q_used++ * vocab, vocab);
      const std::span p_row(p.logits + p_used++ * vocab, vocab);
      const double kl = kl_divergence(p_row, q_row);
      result.mean_kl += kl;
      result.max_kl = std::max(result.max_kl, kl);
      same += best(p_row) == best(q_row) ? 1 : 0;
      score.add(q_row, window[at + 1]);
      reference_score.add(p_row, window[at + 1]);
    }
    if (progress) {
      progress(w + 1, text.n_windows(), result.mean_kl / static_cast<double>(score.n));
    }
  }
  result.scored = score.n;
  result.mean_kl /= static_cast<double>(score.n);
  result.same_top1 = same / static_cast<double>(score.n);
  result.perplexity = score.perplexity();
  result.reference_perplexity = reference_score.perplexity();
  return result;
}

Result<LogitsReport> report_logits(Session& session, std::span<const text::TokenId> tokens,
                                   std::uint32_t n_top, std::uint32_t n_greedy) {
  LogitsReport report;
  std::vector<text::TokenId> all(tokens.begin(), tokens.end());
  ORRERY_TRY(Evaluation evaluation, session.evaluate(all));
  report.logsumexp = log_sum_exp(evaluation.logits.data(), evaluation.logits.size());
  std::vector<Candidate> top(std::min<std::size_t>(n_top, evaluation.logits.size()));
  top.resize(best_of(evaluation.logits, top));
  for (const Candidate& c : top) report.top.emplace_back(c.id, c.logit);
  while (report.greedy.size() < n_greedy) {
    const text::TokenId next = best(evaluation.logits);
    if (next == text::kNoToken) return fail("E_NAN", "the model gave no finite logit");
    report.greedy.push_back(next);
    all.push_back(next);
    if (report.greedy.size() == n_greedy) break;
    ORRERY_TRY(evaluation, session.evaluate(all));
  }
  return report;
}

}  // namespace orrery::engine
