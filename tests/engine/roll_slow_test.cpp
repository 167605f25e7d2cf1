// The default model through several contexts of a real text: rolled pages predict it about as well
// as computing anew what is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "engine/model.hpp"
#include "engine/session.hpp"
#include "engine/softmax.hpp"
#include "storage/locate.hpp"
#include "support/paths.hpp"
#include "support/sanitized.hpp"

namespace orrery::engine {
namespace {

constexpr std::uint32_t kContext = 256;
constexpr std::size_t kTokens = test::kSanitized ? 400 : 640;

// Nats a token, of those behind the first context.
double mean_nll(const Model& model, const std::vector<text::TokenId>& tokens, Overflow overflow) {
  const auto session = *Session::open(model.executor());
  EvaluateOptions options;
  options.overflow = overflow;
  double sum = 0;
  for (std::size_t n = kContext; n < tokens.size(); ++n) {
    const auto result = session->evaluate(std::span(tokens).first(n), options);
    EXPECT_TRUE(result) << result.error().message;
    if (!result) return INFINITY;
    sum += log_sum_exp(result->logits.data(), result->logits.size()) -
           result->logits[static_cast<std::size_t>(tokens[n])];
  }
  return sum / static_cast<double>(tokens.size() - kContext);
}

TEST(RollSlow, PredictsARealTextAsWellAsComputingAgain) {
  const auto path = storage::locate("", storage::system_io(), storage::Environment::of_process());
  if (!path) GTEST_SKIP() << path.error().message;
  ModelOptions options;
  options.threads = 1;
  options.context = kContext;
  const auto model = Model::open(*path, options, storage::system_io());
  ASSERT_TRUE(model) << model.error().message;
  std::ifstream file(test::source_dir() + "/ARCHITECTURE.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  auto tokens = (*model)->tokenizer().encode(text, {.add_special = true, .parse_special = false});
  ASSERT_GE(tokens.size(), kTokens);
  tokens.resize(kTokens);
  const double rolled = mean_nll(**model, tokens, Overflow::roll);
  const double again = mean_nll(**model, tokens, Overflow::shift);
  RecordProperty("rolled", std::to_string(rolled));
  RecordProperty("again", std::to_string(again));
  EXPECT_LE(rolled, again + 0.1);
  EXPECT_GE(rolled, 1.0);
}

}  // namespace
}  // namespace orrery::engine
