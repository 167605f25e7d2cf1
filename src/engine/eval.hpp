// How well a model predicts a text, and how far two models are apart.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "engine/session.hpp"
#include "text/tokenizer.hpp"

namespace orrery::engine {

// Windows done, windows in all, the figure so far.
using EvalProgress = std::function<void(std::uint32_t, std::uint32_t, double)>;

// A text cut into windows of `context` tokens, as llama.cpp's perplexity tool does it: the end that
// fills no window is left out, the first token of each window gives way to BOS where the tokenizer
// adds one, and the tokens of the second half are scored, each given all before it.
struct EvalText {
  std::vector<text::TokenId> tokens;
  std::uint32_t context = 0;
  text::TokenId bos = text::kNoToken;  // kNoToken: windows keep their first token

  std::uint32_t n_windows() const { return static_cast<std::uint32_t>(tokens.size() / context); }
  std::vector<text::TokenId> window(std::uint32_t index) const;
};

// E_TOKENS when the text has fewer than two windows.
Result<EvalText> cut_windows(const text::Tokenizer& tokenizer, std::string_view text,
                             std::uint32_t context);

struct Perplexity {
  double perplexity = 0;
  double mean_nll = 0;        // nats a token
  double standard_error = 0;  // of the perplexity
  std::uint64_t scored = 0;   // tokens
};
Result<Perplexity> evaluate_perplexity(Session& session, const EvalText& text,
                                       const EvalProgress& progress = {});

struct Divergence {
  double mean_kl = 0;  // nats, of the reference's distribution from the model's
  double max_kl = 0;
  double same_top1 = 0;   // share of positions with the same most probable token
  double perplexity = 0;  // of the model
  double reference_perplexity = 0;
  std::uint64_t scored = 0;
};
// Over the scored positions of the text. Both sessions have the same vocabulary, else E_VOCAB.
Result<Divergence> evaluate_divergence(Session& session, Session& reference, const EvalText& text,
                                       const EvalProgress& progress = {});

// sum of p ln(p / q), nats; p and q are softmax of rows of equal length.
double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits);

struct LogitsReport {
  std::vector<std::pair<text::TokenId, float>> top;  // best first
  double logsumexp = 0;
  std::vector<text::TokenId> greedy;  // argmax, evaluated on, and so forth
};
// Logits after `tokens`, and `n_greedy` tokens that follow by argmax.
Result<LogitsReport> report_logits(Session& session, std::span<const text::TokenId> tokens,
                                   std::uint32_t n_top, std::uint32_t n_greedy);

}  // namespace orrery::engine
