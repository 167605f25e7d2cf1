// The golden models: tiny random ones with the logits that transformers gives in f32. Checks a
// backend's programs against them: all prompt positions, whole and in chunks, the logits along the
// greedy continuation in phase decode, and the greedy tokens.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/npy.hpp"
#include "support/plan_runner.hpp"
#include "support/sanitized.hpp"

namespace orrery::testing {

// exact: the f32 row of the acceptance table, 2e-5 (1 + max |logit|) up to two layers, 1e-4 above.
// rounded: mean KL at most max_kl, as for b16 and i8 and for f16 caches.
enum class Tolerance { exact, rounded };

struct GoldenCase {
  std::string folder;  // of golden.json
  std::string model;   // file or folder to open
  Tolerance tolerance = Tolerance::exact;
  double max_kl = 1e-4;
  // Rows that may go another way: where two experts' logits differ by less than what was rounded
  // off before them, the other one is chosen. They are left out of the mean.
  std::size_t flips = 0;
  RunnerOptions runner;
};

struct GoldenPrompt {
  std::vector<std::int32_t> ids, greedy;
  std::vector<double> margins;
  Npy logits;            // (ids, vocab)
  Npy generated_logits;  // (greedy, vocab): those that chose the greedy tokens
};

// All of a folder; under a sanitizer the longest, as the others walk the same steps over less
// memory.
inline std::vector<GoldenPrompt> load_golden(const std::string& folder) {
  std::vector<GoldenPrompt> prompts;
  std::ifstream file(folder + "/golden.json");
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_discarded()) return prompts;
  for (const auto& item : json["prompts"]) {
    const std::string number = std::to_string(prompts.size());
    const auto logits = read_npy(folder + "/logits_p" + number + ".npy");
    const auto generated = read_npy(folder + "/logits_gen" + number + ".npy");
    if (!logits || !generated) return {};
    prompts.push_back({item["ids"], item["greedy"], item["margins"], *logits, *generated});
  }
  if (test::kSanitized && !prompts.empty()) {
    return {std::ranges::max(prompts, {}, [](const GoldenPrompt& p) { return p.ids.size(); })};
  }
  return prompts;
}

struct Difference {
  double worst = 0.0;    // max |got - want|
  double mean_kl = 0.0;  // of softmax(want) from softmax(got)
  double top = 0.0;      // max |want|
};

// `got` and `want` are (rows, vocab).
inline Difference compare_logits(const std::vector<float>& got, const std::vector<double>& want,
                                 std::size_t vocab, std::size_t flips = 0) {
  Difference d;
  const std::size_t rows = want.size() / vocab;
  std::vector<double> row_kl;
  for (std::size_t r = 0; r < rows; ++r) {
    double got_sum = 0.0, want_sum = 0.0, kl = 0.0;
    for (std::size_t i = r * vocab; i < (r + 1) * vocab; ++i) {
      d.worst = std::max(d.worst, std::isfinite(got[i]) ? std::abs(got[i] - want[i]) : HUGE_VAL);
      d.top = std::max(d.top, std::abs(want[i]));
      got_sum += std::exp(double{got[i]});
      want_sum += std::exp(want[i]);
    }
    for (std::size_t i = r * vocab; i < (r + 1) * vocab; ++i) {
      const double log_p = want[i] - std::log(want_sum), log_q = got[i] - std::log(got_sum);
      kl += std::exp(log_p) * (log_p - log_q);
    }
    row_kl.push_back(kl);
  }
  std::ranges::sort(row_kl);
  row_kl.resize(rows > flips ? rows - flips : 0);
  for (const double kl : row_kl) d.mean_kl += kl / static_cast<double>(rows);
  return d;
}

// The largest difference that `exact` allows.
inline double exact_bound(std::uint32_t n_layers, double top) {
  return (n_layers <= 2 ? 2e-5 : 1e-4) * (1.0 + top);
}

inline void expect_close(const Difference& d, const GoldenCase& golden, std::uint32_t n_layers,
                         const char* what) {
  if (golden.tolerance == Tolerance::exact) {
    EXPECT_LE(d.worst, exact_bound(n_layers, d.top)) << what;
  } else {
    EXPECT_LE(d.mean_kl, golden.max_kl) << what;
  }
}

inline std::int32_t argmax(const float* row, std::size_t n) {
  return static_cast<std::int32_t>(std::max_element(row, row + n) - row);
}

// With tolerance `exact` the greedy tokens are those of the reference wherever its margin decides.
inline void check_greedy(PlanRunner& runner, const GoldenPrompt& prompt, const GoldenCase& golden,
                         std::uint32_t n_layers, std::size_t vocab) {
  runner.restart();
  auto logits = runner.feed(prompt.ids, plan::Phase::prefill);
  ASSERT_TRUE(logits) << logits.error().message;
  std::vector<float> along(logits->end() - static_cast<std::ptrdiff_t>(vocab), logits->end());
  for (std::size_t i = 0; i + 1 < prompt.greedy.size(); ++i) {
    const auto row = runner.feed({prompt.greedy[i]}, plan::Phase::decode);
    ASSERT_TRUE(row) << row.error().message;
    along.insert(along.end(), row->begin(), row->end());
  }
  const Difference d = compare_logits(along, prompt.generated_logits.values, vocab, golden.flips);
  expect_close(d, golden, n_layers, "logits along the continuation");
  // Margins are rounded to four places.
  const double slack = 2 * exact_bound(n_layers, d.top) + 1e-4;
  for (std::size_t i = 0; i < prompt.greedy.size(); ++i) {
    if (golden.tolerance == Tolerance::rounded || prompt.margins[i] <= slack) continue;
    EXPECT_EQ(argmax(&along[i * vocab], vocab), prompt.greedy[i]) << "token " << i;
  }
}

inline void check_golden(backend::Backend& backend, const GoldenCase& golden) {
  const std::vector<GoldenPrompt> prompts = load_golden(golden.folder);
  ASSERT_FALSE(prompts.empty()) << golden.folder;
  const auto checkpoint = storage::Checkpoint::open(golden.model, storage::system_io());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto model = model::load_model(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  const std::uint32_t n_layers = model->hparams().n_layers;
  const std::size_t vocab = model->hparams().vocab_size;
  const auto runner = PlanRunner::make(*model, backend, golden.runner);
  ASSERT_TRUE(runner) << runner.error().message;
  for (const GoldenPrompt& prompt : prompts) {
    SCOPED_TRACE("prompt of " + std::to_string(prompt.ids.size()));
    (*runner)->restart();
    const auto whole = (*runner)->feed(prompt.ids, plan::Phase::prefill);
    ASSERT_TRUE(whole) << whole.error().message;
    ASSERT_EQ(whole->size(), prompt.logits.values.size());
    expect_close(compare_logits(*whole, prompt.logits.values, vocab, golden.flips), golden,
                 n_layers, "whole prompt");

    (*runner)->restart();
    std::vector<float> chunked;
    for (std::size_t begin = 0, size = 1; begin < prompt.ids.size(); begin += size++) {
      const std::size_t end = std::min(begin + size, prompt.ids.size());
      const auto part = (*runner)->feed({prompt.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                         prompt.ids.begin() + static_cast<std::ptrdiff_t>(end)},
                                        plan::Phase::prefill);
      ASSERT_TRUE(part) << part.error().message;
      chunked.insert(chunked.end(), part->begin(), part->end());
    }
    const std::vector<double> reference(whole->begin(), whole->end());
    expect_close(compare_logits(chunked, reference, vocab, golden.flips), golden, n_layers,
                 "chunks against the whole");
    check_greedy(**runner, prompt, golden, n_layers, vocab);
  }
}

}  // namespace orrery::testing
