#include "engine/sampler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "engine/softmax.hpp"

namespace orrery::engine {
namespace {

constexpr std::size_t kMirostatTokens = 100;

std::uint64_t fresh_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

Result<Sampler> Sampler::create(const SamplerParams& params, std::int32_t vocab,
                                std::uint32_t context, std::shared_ptr<Candidates> scratch) {
  ORRERY_TRY_VOID(validate(params, vocab));
  if (scratch == nullptr) scratch = std::make_shared<Candidates>(static_cast<std::size_t>(vocab));
  return Sampler(params, vocab, context, std::move(scratch));
}

Sampler::Sampler(SamplerParams params, std::int32_t vocab, std::uint32_t context,
                 std::shared_ptr<Candidates> scratch)
    : params_(std::move(params)),
      seed_(params_.seed ? *params_.seed : fresh_seed()),
      random_(seed_),
      repetition_(params_, vocab, context),
      candidates_(std::move(scratch)),
      mirostat_mu_(2 * params_.mirostat_tau),
      vocab_(static_cast<std::size_t>(vocab)),
      best_(std::max<std::size_t>(kMaxLogprobs, kMirostatTokens)) {
  logprobs_.reserve(static_cast<std::size_t>(params_.n_logprobs));
}

void Sampler::reset() {
  random_ = Random(seed_);
  repetition_.reset();
  mirostat_mu_ = 2 * params_.mirostat_tau;
}

void Sampler::set_history(std::span<const text::TokenId> tokens) {
  repetition_.reset();
  for (const text::TokenId token : tokens) accept(token);
}

Result<text::TokenId> Sampler::sample(std::span<const float> logits,
                                      std::span<const std::uint32_t> allowed) {
  if (const std::size_t n = candidates_->load(logits); n > 0) {
    return fail("E_NAN", std::to_string(n) + " of the model's " + std::to_string(logits.size()) +
                             " logits are no numbers; its weights are damaged, fetch them again");
  }
  const std::span<float> row = candidates_->row();
  if (!allowed.empty()) candidates_->restrict_to(allowed);
  for (const auto& [id, bias] : params_.logit_bias) row[static_cast<std::size_t>(id)] += bias;
  repetition_.penalize(row);
  repetition_.dry(row);
  candidates_->seal();
  if (candidates_->size() == 0 && !allowed.empty()) {
    return fail("E_GRAMMAR",
                "no token can follow that the grammar allows; the text is at a dead end");
  }
  if (candidates_->size() == 0) return fail("E_NAN", "the model gave no finite logit");
  const std::size_t chosen = draw();
  report(logits, chosen);
  return candidates_->id(chosen);
}

std::size_t Sampler::draw() {
  if (params_.temperature == 0) {
    candidates_->argmax();
    candidates_->softmax();
    return 0;
  }
  if (params_.mirostat != 0) return mirostat();
  truncate();
  apply_temperature();
  candidates_->softmax();
  return candidates_->pick(random_.uniform());
}

void Sampler::truncate() {
  if (params_.top_n_sigma > 0) candidates_->top_n_sigma(params_.top_n_sigma);
  if (params_.top_k > 0) candidates_->top_k(static_cast<std::size_t>(params_.top_k));
  if (params_.typical_p < 1) candidates_->typical(params_.typical_p);
  if (params_.top_p < 1) candidates_->top_p(params_.top_p);
  if (params_.min_p > 0) candidates_->min_p(params_.min_p);
  if (params_.xtc_probability > 0 && params_.xtc_threshold <= 0.5F) {
    // The number is drawn even where nothing can be removed: a draw a token keeps seeds stable.
    if (random_.uniform() < params_.xtc_probability) candidates_->xtc(params_.xtc_threshold);
  }
}

void Sampler::apply_temperature() {
  float temperature = repetition_.temperature(params_.temperature);
  if (params_.dynatemp_range > 0 && candidates_->size() > 1) {
    const float low = std::max(0.0F, temperature - params_.dynatemp_range);
    const float high = temperature + params_.dynatemp_range;
    const double share =
        candidates_->entropy() / std::log(static_cast<double>(candidates_->size()));
    temperature = low + (high - low) * static_cast<float>(std::pow(std::clamp(share, 0.0, 1.0),
                                                                   params_.dynatemp_exponent));
  }
  if (temperature <= 0) return candidates_->argmax();
  candidates_->scale(temperature);
}

std::size_t Sampler::mirostat() {
  candidates_->scale(repetition_.temperature(params_.temperature));
  if (params_.mirostat == 1) {
    limit_mirostat_v1();
  } else {
    candidates_->limit_surprise(mirostat_mu_);
  }
  candidates_->softmax();
  const std::size_t index = candidates_->pick(random_.uniform());
  const float surprise = -std::log2(candidates_->probability(index));
  mirostat_mu_ -= params_.mirostat_eta * (surprise - params_.mirostat_tau);
  return index;
}

// k from the estimated exponent s of Zipf's law (Basu et al., 2021, algorithm 1).
void Sampler::limit_mirostat_v1() {
  const std::size_t n =
      candidates_->best(std::span(best_.data(), std::min(kMirostatTokens, vocab_)));
  double weighted = 0;
  double squares = 0;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    weighted += t * static_cast<double>(best_[i].logit - best_[i + 1].logit);
    squares += t * t;
  }
  const double s = squares > 0 ? weighted / squares : 0;
  const double eps = s - 1;
  const double k = std::pow(eps * std::exp2(static_cast<double>(mirostat_mu_)) /
                                (1 - std::pow(static_cast<double>(vocab_), -eps)),
                            1 / s);
  if (!(k < static_cast<double>(candidates_->size()))) return;  // NaN too: no estimate, no limit
  candidates_->top_k(std::max<std::size_t>(1, static_cast<std::size_t>(k)));
}

// `chosen` is an index of the candidates.
void Sampler::report(std::span<const float> logits, std::size_t chosen) {
  logprobs_.clear();
  if (params_.n_logprobs == 0) return;
  const bool of_draw = params_.logprobs_of_draw;
  const std::span<const float> all = of_draw ? candidates_->row() : logits;
  const double sum = log_sum_exp(all.data(), all.size());
  const auto logprob = [&](float logit) { return static_cast<float>(logit - sum); };
  const text::TokenId id = candidates_->id(chosen);
  chosen_ = {id, logprob(all[of_draw ? chosen : static_cast<std::size_t>(id)])};
  const auto wanted = std::span(best_).first(static_cast<std::size_t>(params_.n_logprobs));
  const std::size_t n = of_draw ? candidates_->best(wanted) : best_of(logits, wanted);
  for (std::size_t i = 0; i < n; ++i) logprobs_.push_back({best_[i].id, logprob(best_[i].logit)});
}

}  // namespace orrery::engine
