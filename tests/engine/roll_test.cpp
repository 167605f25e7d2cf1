// Contexts that roll: what the pages hold is right to the token, keys have their new positions,
// memory stays what it was, and models whose positions are no rotations are refused.
#include "engine/roll.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "engine/fake_backend.hpp"
#include "engine/model.hpp"
#include "engine/random.hpp"
#include "engine/session_file.hpp"
#include "engine/tiny_executor.hpp"
#include "support/crashing_state_io.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"
#include "tensor/cache_page.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

constexpr std::uint32_t kSinks = plan::kPageTokens;

Tokens random_tokens(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  Tokens tokens(n);
  for (auto& token : tokens) token = static_cast<text::TokenId>(random.next() % fake::kVocab);
  return tokens;
}

Tokens without(const Tokens& tokens, std::size_t dropped) {
  Tokens left(tokens.begin(), tokens.begin() + kSinks);
  left.insert(left.end(), tokens.begin() + kSinks + static_cast<std::ptrdiff_t>(dropped),
              tokens.end());
  return left;
}

bool is_right(std::span<const float> logits, std::span<const text::TokenId> tokens) {
  const std::uint64_t hash = fake::expected_hash(tokens);
  for (std::uint32_t v = 0; v < fake::kVocab; ++v) {
    if (logits[v] != fake::logit(hash, v)) return false;
  }
  return true;
}

EvaluateOptions rolling() {
  EvaluateOptions options;
  options.overflow = Overflow::roll;
  return options;
}

TEST(Roll, KeepsSinksAndTheLastTokensAndComputesNothingAgain) {
  fake::Backend backend;
  const auto executor = fake::make_executor(backend, 600, 1);
  const auto session = *Session::open(executor);
  Tokens tokens = random_tokens(590, 1);
  std::uint64_t committed = 0;
  std::uint32_t dropped = 0;
  ASSERT_TRUE(session->evaluate(tokens, rolling()));
  while (tokens.size() < 6000) {
    tokens.push_back(static_cast<text::TokenId>(tokens.size() % fake::kVocab));
    const auto result = session->evaluate(tokens, rolling());
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_EQ(result->computed, 1U) << tokens.size();
    ASSERT_TRUE(is_right(result->logits, without(tokens, result->dropped))) << tokens.size();
    ASSERT_GE(result->dropped, dropped);
    dropped = result->dropped;
    // Ten pages of the whole list, and of the window what one slice may add.
    if (tokens.size() == 601) committed = executor->kv().committed_bytes();
    if (tokens.size() > 601) {
      ASSERT_EQ(executor->kv().committed_bytes(), committed);
    }
  }
  EXPECT_EQ(dropped, 22U * 256);  // 256: half of what is not a sink, in whole pages
}

TEST(Roll, TheNextTurnGoesOnWithWhatIsHeld) {
  fake::Backend backend;
  const auto executor = fake::make_executor(backend, 600, 1);
  const auto session = *Session::open(executor);
  Tokens tokens = random_tokens(500, 2);
  for (int turn = 0; turn < 40; ++turn) {
    const auto more = random_tokens(90, static_cast<std::uint64_t>(turn));
    tokens.insert(tokens.end(), more.begin(), more.end());
    const auto result = session->evaluate(tokens, rolling());
    ASSERT_TRUE(result);
    if (turn > 0) {
      EXPECT_EQ(result->computed, 90U) << turn;
    }
    ASSERT_TRUE(is_right(result->logits, without(tokens, result->dropped)));
  }
  // Another conversation finds nothing that would be wrong.
  const Tokens other = random_tokens(599, 3);
  const auto result = session->evaluate(other, rolling());
  ASSERT_TRUE(result);
  EXPECT_TRUE(is_right(result->logits, other));
}

TEST(Roll, PagesOfOthersAreCopiedAndShortMemoryIsSaid) {
  for (const std::uint64_t budget : {std::uint64_t{1} << 20, std::uint64_t{15 * 256}}) {
    fake::Backend backend;
    const auto executor = fake::make_executor(backend, 600, 2, budget);
    const auto first = *Session::open(executor), second = *Session::open(executor);
    Tokens tokens = random_tokens(590, 4);
    ASSERT_TRUE(first->evaluate(tokens));
    const std::uint32_t shared = second->share(*first, first->shareable(576));
    for (int step = 0; step < 300; ++step) {
      tokens.push_back(static_cast<text::TokenId>(step % 97));
      const auto result = first->evaluate(tokens, rolling());
      if (!result) {  // nothing is left for it, which is said
        EXPECT_EQ(result.error().kind, "E_MEMORY");
        EXPECT_LT(budget, std::uint64_t{1} << 20);
        break;
      }
      const Tokens left = tokens.size() > 600 ? without(tokens, result->dropped) : tokens;
      ASSERT_TRUE(is_right(result->logits, left)) << step;
    }
    ASSERT_EQ(shared, 576U);
    if (budget < std::uint64_t{1} << 20) first->clear();
    Tokens others(tokens.begin(), tokens.begin() + shared);
    others.push_back(5);
    const auto result = second->evaluate(others);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->computed, 1U);
    EXPECT_TRUE(is_right(result->logits, others));
  }
}

TEST(Roll, IsSavedAndRestored) {
  test::CrashingStateIo io;
  Tokens tokens = random_tokens(590, 5);
  std::uint32_t reused = 0;
  for (int process = 0; process < 6; ++process) {
    fake::Backend backend;
    const auto executor = fake::make_executor(backend, 600, 1);
    const auto session = *Session::open(executor);
    const auto file = *SessionFile::open(io, "s", kv_identity(*executor, nullptr));
    EXPECT_EQ(file->restore(*session).tokens, reused);
    for (int step = 0; step < 200; ++step) {
      tokens.push_back(static_cast<text::TokenId>(step % 97));
      const auto result = session->evaluate(tokens, rolling());
      ASSERT_TRUE(result);
      if (process > 0 || step > 0) {
        ASSERT_EQ(result->computed, 1U) << process << " " << step;
      }
      const Tokens left = tokens.size() > 600 ? without(tokens, result->dropped) : tokens;
      ASSERT_TRUE(is_right(result->logits, left));
      if (step % 70 == 0) {
        ASSERT_TRUE(file->save(*session, "text"));
      }
    }
    ASSERT_TRUE(file->save(*session, "text"));
    reused = static_cast<std::uint32_t>(session->held().size());
  }
}

// In a model of one layer keys and values depend on their token alone: rolled pages are what
// computing the same list anew would make, but for a rounding of each key.
struct Rolled {
  DType type;
  double most;  // relative distance of the logits
};
class RolledModel : public testing::TestWithParam<Rolled> {};

TEST_P(RolledModel, EqualsAttentionOverTheKeptTokens) {
  const test::TempDir folder;
  const std::string path = folder.write("m.gguf", test::TinyGguf(1)
                                                      .set("llama.attention.head_count", 2U)
                                                      .set("llama.attention.head_count_kv", 1U)
                                                      .build());
  ModelOptions options;
  options.threads = 1;
  options.context = 300;
  options.max_sequences = 2;
  options.deterministic = true;
  options.k_type = options.v_type = GetParam().type;
  const auto model = Model::open(path, options, storage::system_io());
  ASSERT_TRUE(model) << model.error().message;
  const auto session = *Session::open((*model)->executor());
  const auto exact = *Session::open((*model)->executor());
  Tokens tokens(3010);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<text::TokenId>(3 + i * i % 251);
  }
  double worst = 0;
  for (std::size_t n = 290; n <= tokens.size(); ++n) {
    const Tokens list(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
    const auto result = session->evaluate(list, rolling());
    ASSERT_TRUE(result) << result.error().message;
    if (n > 290) {
      ASSERT_EQ(result->computed, 1U);
    }
    if (n % 97 != 0 || n < 301) continue;
    const std::vector<float> rolled(result->logits.begin(), result->logits.end());
    exact->clear();
    const auto wanted = exact->evaluate(without(list, result->dropped));
    ASSERT_TRUE(wanted);
    double distance = 0, size = 0;
    for (std::size_t i = 0; i < rolled.size(); ++i) {
      distance += std::pow(double{rolled[i]} - wanted->logits[i], 2.0);
      size += std::pow(double{wanted->logits[i]}, 2.0);
    }
    worst = std::max(worst, std::sqrt(distance / size));
  }
  RecordProperty("distance", std::to_string(worst));
  EXPECT_LE(worst, GetParam().most);
  EXPECT_GT(worst, 0.0);
}

INSTANTIATE_TEST_SUITE_P(Types, RolledModel,
                         testing::Values(Rolled{DType::f32, 1e-5}, Rolled{DType::f16, 1e-3},
                                         Rolled{DType::q8_0, 2e-2}, Rolled{DType::q4_0, 0.3}),
                         [](const auto& of) {
                           return std::string(dtype_info(of.param.type).name);
                         });

// Both styles of pairs, two layers, two heads: each key is what it would be, had it been written at
// its new position.
TEST(Roll, KeysAreThoseOfTheirNewPositions) {
  const auto backend = backend::make_reference_backend();
  TinyModel tiny({}, true);
  const auto executor = tiny.make(*backend, 256, 2, 32);
  const auto near = *Session::open(executor);
  const Tokens tokens(130, 7);  // one token: its keys differ by their position alone
  ASSERT_TRUE(near->evaluate(tokens));
  const KvPages& kv = executor->kv();
  const plan::CacheGroup shape = kv.groups()[0];
  const auto key_of = [&](std::uint32_t head, int position) {
    std::vector<float> key(shape.k_dim);
    read_cache_row(
        shape.k_type, CacheSide::keys, static_cast<int>(shape.k_dim), position % 64,
        kv.page(0, 0, static_cast<std::uint32_t>(position) / 64).data() + head * shape.head_bytes(),
        key.data());
    return key;
  };
  std::vector<std::vector<float>> before;
  for (const std::uint32_t head : {0U, 1U}) {  // of layer 0, whose input is the token alone
    for (const int position : {3, 50}) before.push_back(key_of(head, position));
  }
  const std::vector<float> second_layer = key_of(2, 70);
  rotate_keys(executor->decode_plan(), kv, 0, 1, -64);
  for (const std::uint32_t head : {0U, 1U}) {
    for (const int i : {0, 1}) {
      const std::vector<float> key = key_of(head, 64 + (i == 0 ? 3 : 50));
      for (std::size_t e = 0; e < key.size(); ++e) {
        EXPECT_NEAR(key[e], before[head * 2 + static_cast<std::size_t>(i)][e], 1e-5);
      }
    }
  }
  // And back; pairs side by side.
  rotate_keys(executor->decode_plan(), kv, 0, 1, 64);
  const std::vector<float> again = key_of(2, 70);
  for (std::size_t e = 0; e < again.size(); ++e) EXPECT_NEAR(again[e], second_layer[e], 1e-5);
  rotate_keys(executor->decode_plan(), kv, 0, 1, 5);
  const std::vector<float> turned = key_of(2, 70);
  for (std::size_t i = 0; i < turned.size() / 2; ++i) {
    const double angle = 5 * std::pow(10000.0, -2.0 * static_cast<double>(i) / 64);
    const double x = again[2 * i], y = again[2 * i + 1];
    EXPECT_NEAR(turned[2 * i], x * std::cos(angle) - y * std::sin(angle), 1e-5);
    EXPECT_NEAR(turned[2 * i + 1], x * std::sin(angle) + y * std::cos(angle), 1e-5);
  }
}

TEST(Roll, LeavesRoomForWindows) {
  plan::Plan plan;
  EXPECT_EQ(roll_sinks(0), 64U);
  EXPECT_EQ(roll_sinks(65), 128U);
  EXPECT_EQ(roll_step(plan, 64, 0), 0U);
  EXPECT_EQ(roll_step(plan, 128, 0), 64U);
  EXPECT_EQ(roll_step(plan, 8192, 0), 4032U);
  plan.groups.push_back({plan::CacheKind::window, 4096});
  EXPECT_EQ(roll_step(plan, 8192, 0), 4032U);
  EXPECT_EQ(roll_step(plan, 5000, 0), 832U);
  EXPECT_EQ(roll_step(plan, 4200, 0), 0U);
  EXPECT_EQ(roll_step(plan, 4096, 0), 1984U);  // a window that drops nothing
  EXPECT_EQ(check_rolls(plan, 4200, 0).error().kind, "E_CONTEXT");
}

// Families of every kind: those that can, over five contexts; the others say why not.
class RolledFamily : public testing::TestWithParam<const char*> {};

TEST_P(RolledFamily, RollsOrSaysWhyNot) {
  const std::string name = GetParam();
  const std::string path = test::shared_dir() + "/data/golden/" + name + "/" + name + "-f16.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs ../shared/data/golden";
  ModelOptions options;
  options.threads = 1;
  options.context = 256;
  const auto model = Model::open(path, options, storage::system_io());
  ASSERT_TRUE(model) << model.error().message;
  const auto session = *Session::open((*model)->executor());
  Tokens tokens(250, 5);
  const std::string_view refused[] = {"deepseek-v2", "deepseek-v3", "gpt2",
                                      "lfm2",        "mamba2",      "qwen3-next"};
  if (std::ranges::find(refused, name) != std::end(refused)) {
    const auto result = session->evaluate(tokens, rolling());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, "E_UNSUPPORTED");
    EXPECT_NE(result.error().message.find("choose to shift"), std::string::npos);
    return;
  }
  for (; tokens.size() < 1300; tokens.push_back(static_cast<int>(tokens.size() * 7 % 90))) {
    const auto result = session->evaluate(tokens, rolling());
    ASSERT_TRUE(result) << result.error().message;
    if (tokens.size() > 250) {
      ASSERT_EQ(result->computed, 1U) << tokens.size();
    }
    for (const float logit : result->logits) ASSERT_TRUE(std::isfinite(logit));
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, RolledFamily,
                         testing::Values("deepseek-v2", "deepseek-v3", "gpt2", "lfm2", "mamba2",
                                         "qwen3-next", "llama", "llama3-rope", "phi3", "gemma2",
                                         "gemma3", "gpt-oss", "smollm3", "qwen3"),
                         [](const auto& of) {
                           std::string name = of.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace orrery::engine
