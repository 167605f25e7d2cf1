// The tokens that are still in question while one token is chosen, and the truncations that remove
// some of them. Linear in the vocabulary: nothing is ever sorted whole. All memory is taken by the
// constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.hpp"

namespace orrery::engine {

struct Candidate {
  text::TokenId id;
  float logit;
};

// Better logits first; among equals the lower id.
inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// The best of a row in order, at most out.size(); -inf and NaN are left out. Returns how many.
std::size_t best_of(std::span<const float> logits, std::span<Candidate> out);

class Candidates {
 public:
  explicit Candidates(std::size_t vocab);

  // Every token of the row. Gives how many logits are NaN: with any, the row is of no use.
  std::size_t load(std::span<const float> logits);
  // The row just loaded, by token id, for penalties and biases; seal() ends this.
  std::span<float> row() { return {logits_.data(), size_}; }
  // Between load() and seal(): tokens whose bit (t % 32 of word t / 32) is not set get -inf, as do
  // those without a word.
  void restrict_to(std::span<const std::uint32_t> allowed);
  // Removes tokens of logit -inf and bounds the others to finite values.
  void seal();

  std::size_t size() const { return size_; }
  text::TokenId id(std::size_t i) const { return ids_[i]; }
  float logit(std::size_t i) const { return logits_[i]; }
  // Probability among the candidates; valid after softmax() until they change.
  float probability(std::size_t i) const { return static_cast<float>(exps_[i] / exp_sum_); }

  // The best candidates in order, at most out.size(); removes none. Returns how many.
  std::size_t best(std::span<Candidate> out) const;

  void top_n_sigma(float n);
  void top_k(std::size_t k);
  void typical(float p);
  void top_p(float p);
  void min_p(float p);
  // Of the tokens with at least probability `threshold`, keeps only the least probable one.
  void xtc(float threshold);
  // Keeps tokens with -log2(probability) <= bits, at least the best one.
  void limit_surprise(float bits);
  // Keeps the best one.
  void argmax();

  void scale(float divisor);  // (logits - the largest) / divisor
  void softmax();
  double entropy();  // nats, of softmax(logits)
  // The index of the candidate at `u` in [0, 1) of the cumulated probabilities.
  std::size_t pick(double u);

 private:
  // Where a prefix in the order (key, index) ends: keys below `key`, and the first `ties` equal.
  struct Cut {
    float key;
    std::size_t ties;
  };
  // The shortest prefix by ascending key whose weights add up to `target` or, if `strict`, more.
  // No weights: each is 1.
  Cut find_cut(const float* weights, double target, bool strict);
  template <class At>
  std::size_t narrow(std::size_t n, At at, const float* weights, double& target, bool strict);
  Cut cut_sorted(std::size_t n, const float* weights, double target, bool strict);
  void keep_cut(Cut cut);
  template <class Keep>
  void retain(Keep keep);

  std::size_t size_ = 0;
  double exp_sum_ = 1;
  std::vector<float> logits_;           // (vocab)
  std::vector<float> exps_;             // (vocab): e^(logit - max) after softmax()
  std::vector<float> keys_;             // (vocab): what find_cut orders by, smaller is better
  std::vector<text::TokenId> ids_;      // (vocab), ascending except after top_k
  std::vector<std::uint32_t> indices_;  // (vocab): the part of the keys that find_cut looks at
  std::vector<std::int32_t> buckets_;   // (vocab), of the keys at indices_
  std::vector<double> masses_;          // (buckets)
  std::vector<Candidate> best_;         // (kFewBest)
};

}  // namespace orrery::engine
