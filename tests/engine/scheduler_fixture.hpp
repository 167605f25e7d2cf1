// Requests on the fake backend, and what becomes of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "engine/fake_backend.hpp"
#include "engine/fake_tokenizer.hpp"
#include "engine/random.hpp"
#include "engine/scheduler_loop.hpp"

namespace orrery::engine::fake {

using Tokens = std::vector<text::TokenId>;
inline constexpr text::TokenId kEnd = kVocab - 1;

inline std::vector<std::string> alphabet() {
  std::vector<std::string> pieces;
  for (std::uint32_t i = 0; i + 1 < kVocab; ++i) {
    pieces.emplace_back(1, static_cast<char>(' ' + i % 94));
  }
  pieces.emplace_back("<end>");
  return pieces;
}

inline Tokens random_tokens(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  Tokens tokens(n);
  for (auto& token : tokens) token = static_cast<text::TokenId>(random.next() % kEnd);
  return tokens;
}

// What argmax gives after the prompt, without the end.
inline Tokens greedy_answer(Tokens tokens, std::size_t n) {
  const std::size_t begin = tokens.size();
  while (tokens.size() < begin + n) {
    const std::uint64_t hash = expected_hash(tokens);
    std::uint32_t best = 0;
    for (std::uint32_t v = 1; v < kVocab - 1; ++v) {
      if (logit(hash, v) > logit(hash, best)) best = v;
    }
    tokens.push_back(static_cast<text::TokenId>(best));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.end()};
}

inline Request greedy(Tokens prompt, std::uint32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.logit_bias = {{kEnd, -INFINITY}};
  request.max_tokens = max_tokens;
  return request;
}

// Kept by its shared pointer; waiting is for tests with threads.
class Recorder final : public RequestEvents {
 public:
  void on_prefill(std::uint32_t now_done, std::uint32_t now_total) override {
    EXPECT_TRUE(tokens.empty());
    EXPECT_GT(now_done, done);
    EXPECT_LE(now_done, now_total);
    done = now_done;
    total = now_total;
    if (prefilled) prefilled();
  }
  void on_token(const TokenEvent& event) override {
    EXPECT_EQ(ends, 0);
    tokens.push_back(event.id);
    text.append(event.text);
    chosen.push_back(event.chosen);
    n_logprobs = event.logprobs.size();
    if (took) took();
  }
  void on_end(const RequestEnd& given) override {
    const std::lock_guard lock(mutex_);
    ++ends;
    end = given;
    text += given.text;
    ended_.notify_all();
  }
  const RequestEnd& wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return ends > 0; });
    return end;
  }

  std::function<void()> prefilled, took;
  std::uint32_t done = 0, total = 0;
  Tokens tokens;
  std::string text;
  std::vector<TokenLogprob> chosen;
  std::size_t n_logprobs = 0;
  int ends = 0;
  RequestEnd end;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
};

}  // namespace orrery::engine::fake
