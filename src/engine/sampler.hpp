// Chooses the next token from a row of logits. The chain, in this order: the mask of what is
// allowed, bias, penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature (with
// its repetition-driven and entropy-driven forms), one draw. Mirostat replaces the truncations.
// Temperature 0 is argmax. Nothing is allocated after the constructor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "engine/candidates.hpp"
#include "engine/random.hpp"
#include "engine/repetition.hpp"
#include "engine/sampler_params.hpp"

namespace orrery::engine {

struct TokenLogprob {
  text::TokenId id = text::kNoToken;
  float logprob = 0;  // natural logarithm of the model's own probability, before the chain, or of
                      // that of the draw (SamplerParams::logprobs_of_draw)
};

class Sampler {
 public:
  // E_PARAM as validate(). `context` in tokens bounds the windows of penalties and DRY. Samplers
  // that are used by turns on one thread may share `scratch`, which is most of their memory.
  static Result<Sampler> create(const SamplerParams& params, std::int32_t vocab,
                                std::uint32_t context,
                                std::shared_ptr<Candidates> scratch = nullptr);

  Sampler(Sampler&&) = default;
  Sampler& operator=(Sampler&&) = default;

  // Forgets the history; the random numbers start again from the seed.
  void reset();
  // A token of the prompt or of the answer, in order; sample() does not accept by itself.
  void accept(text::TokenId token) {
    if (token >= 0 && static_cast<std::size_t>(token) < vocab_) repetition_.accept(token);
  }
  // The history becomes these tokens; random numbers and mirostat go on.
  void set_history(std::span<const text::TokenId> tokens);
  // The part of a row of logits that belongs to tokens of the vocabulary; the rest is padding.
  std::span<const float> row(std::span<const float> logits) const { return logits.first(vocab_); }
  // `logits` as row() gives them. `allowed` as text::Constraint gives it; empty: every token.
  // E_NAN when a logit is NaN or none is finite, E_GRAMMAR when none of the allowed ones is.
  Result<text::TokenId> sample(std::span<const float> logits,
                               std::span<const std::uint32_t> allowed = {});
  // Code fences and constrained spans: see Repetition::set_exempt.
  void set_exempt(bool exempt) { repetition_.set_exempt(exempt); }

  // What the last sample() chose among; the probabilities are those of the draw.
  const Candidates& candidates() const { return *candidates_; }
  // n_logprobs best tokens of the last sample(), best first; chosen_logprob() is the chosen one's.
  std::span<const TokenLogprob> logprobs() const { return logprobs_; }
  TokenLogprob chosen_logprob() const { return chosen_; }
  std::uint64_t seed() const { return seed_; }
  const SamplerParams& params() const { return params_; }

 private:
  Sampler(SamplerParams params, std::int32_t vocab, std::uint32_t context,
          std::shared_ptr<Candidates> scratch);
  std::size_t draw();
  void truncate();
  void apply_temperature();
  std::size_t mirostat();
  void limit_mirostat_v1();
  void report(std::span<const float> logits, std::size_t chosen);

  SamplerParams params_;
  std::uint64_t seed_;
  Random random_;
  Repetition repetition_;
  std::shared_ptr<Candidates> candidates_;
  float mirostat_mu_;
  std::size_t vocab_;
  TokenLogprob chosen_;
  std::vector<TokenLogprob> logprobs_;
  std::vector<Candidate> best_;  // (kMaxLogprobs or mirostat's 100)
};

}  // namespace orrery::engine
