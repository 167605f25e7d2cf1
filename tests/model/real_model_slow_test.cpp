// Real models on the reference backend against transformers with the same dequantised weights. The
// files are in the user's cache once scripts or `orrery pull` have fetched them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/golden.hpp"
#include "support/paths.hpp"

namespace orrery::model {
namespace {

struct Real {
  const char* file;    // in the cache
  const char* golden;  // in data/golden_real
};

void PrintTo(const Real& real, std::ostream* out) {
  *out << real.golden;
}

std::string cache_folder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0') {
    return std::string(xdg) + "/orrery/";
  }
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + "/.cache/orrery/";
}

// Mean over the positions of a short prompt; over long texts it is held to 1e-3.
constexpr double kMaxKl = 5e-3;

class RealModel : public ::testing::TestWithParam<Real> {};

// The first prompt only: a token of 135 million weights takes the oracle about a second.
TEST_P(RealModel, FirstPromptEqualsTransformers) {
  const std::string file = cache_folder() + GetParam().file;
  const std::string golden = test::shared_dir() + "/data/golden_real/" + GetParam().golden;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is absent";
  if (!std::filesystem::exists(golden)) GTEST_SKIP() << golden << " is absent";
  std::ifstream stream(golden);
  const auto json = nlohmann::json::parse(stream, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  const auto& prompt = json["prompts"][0];
  const auto checkpoint = storage::Checkpoint::open(file, storage::system_io());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto model = load_model(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  const auto backend = backend::make_reference_backend();
  const auto runner = testing::PlanRunner::make(*model, *backend, {});
  ASSERT_TRUE(runner) << runner.error().message;
  const std::vector<std::int32_t> ids = prompt["ids"], greedy = prompt["greedy"];
  const std::size_t vocab = model->hparams().vocab_size;
  const auto logits = (*runner)->feed(ids, plan::Phase::prefill);
  ASSERT_TRUE(logits) << logits.error().message;
  const float* last = logits->data() + (ids.size() - 1) * vocab;
  double sum = 0.0;
  for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(double{last[i]});
  const double bound = 1e-4 * (1.0 + std::abs(prompt["top10"][0][1].get<double>()));
  EXPECT_NEAR(std::log(sum), prompt["logsumexp"].get<double>(), bound);
  for (const auto& pair : prompt["top10"]) {
    EXPECT_NEAR(last[pair[0].get<std::size_t>()], pair[1].get<double>(), bound);
  }
  EXPECT_EQ(testing::argmax(last, vocab), greedy[0]);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto row = (*runner)->feed({greedy[i]}, plan::Phase::decode);
    ASSERT_TRUE(row) << row.error().message;
    EXPECT_EQ(testing::argmax(row->data(), vocab), greedy[i + 1]);
  }
}

// Class i8 against the same weights, dequantised: in decode, and in prefill with `deterministic`.
TEST_P(RealModel, CpuStaysCloseToTheReference) {
  const std::string file = cache_folder() + GetParam().file;
  const std::string golden = test::shared_dir() + "/data/golden_real/" + GetParam().golden;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is absent";
  if (!std::filesystem::exists(golden)) GTEST_SKIP() << golden << " is absent";
  std::ifstream stream(golden);
  const auto json = nlohmann::json::parse(stream, nullptr, false);
  const std::vector<std::int32_t> ids = json["prompts"][0]["ids"];
  const auto checkpoint = storage::Checkpoint::open(file, storage::system_io());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto model = load_model(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  const auto cpu = backend::make_cpu_backend({.threads = 2, .isa = ""});
  ASSERT_TRUE(cpu) << cpu.error().message;
  const auto reference = backend::make_reference_backend();
  const auto oracle = testing::PlanRunner::make(*model, *reference, {});
  const auto want = (*oracle)->feed(ids, plan::Phase::prefill);
  const std::vector<double> wide(want->begin(), want->end());
  for (const bool deterministic : {false, true}) {
    testing::RunnerOptions options;
    options.deterministic = deterministic;
    options.cache_type = DType::f16;
    const auto runner = testing::PlanRunner::make(*model, **cpu, options);
    ASSERT_TRUE(runner) << runner.error().message;
    for (const plan::Phase phase : {plan::Phase::prefill, plan::Phase::decode}) {
      (*runner)->restart();
      const auto got = (*runner)->feed(ids, phase);
      ASSERT_TRUE(got) << got.error().message;
      const auto d = testing::compare_logits(*got, wide, model->hparams().vocab_size);
      EXPECT_LE(d.mean_kl, kMaxKl)
          << "deterministic " << deterministic << ", phase " << static_cast<int>(phase);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cached, RealModel,
    ::testing::Values(Real{"SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m.json"},
                      Real{"gemma-3-270m-q4_k_m.gguf", "gemma3-270m.json"},
                      Real{"qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b.json"}));

}  // namespace
}  // namespace orrery::model
