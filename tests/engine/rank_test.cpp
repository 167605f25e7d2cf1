// Scores of the tiny models of tests/golden/make_rerank.py against transformers, and how a query
// and a document become tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/golden_model.hpp"
#include "engine/model.hpp"
#include "engine/quantize.hpp"
#include "engine/rank_text.hpp"
#include "support/temp_dir.hpp"

namespace orrery::engine {
namespace {

using golden::folder_of, golden::Param, golden::print_name;

constexpr double kExact = 5e-5;    // sums in f32 or more
constexpr double kRounded = 3e-2;  // operands rounded to bf16

struct Golden {
  std::string query, document;
  std::vector<text::TokenId> ids;
  std::size_t second = 0;
  double score = 0;
};

std::vector<Golden> golden_of(const std::string& name) {
  const auto json = golden::json_of(name);
  std::vector<Golden> all;
  if (json.is_discarded()) return all;
  for (const auto& pair : json["pairs"]) {
    all.push_back({pair["query"], pair["document"], pair["ids"], pair["second"], pair["score"]});
  }
  return all;
}

std::shared_ptr<const Model> open(const std::string& path, ModelOptions options = {}) {
  options.threads = 2;
  auto model = Model::open(path, options, storage::system_io());
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : nullptr;
}

const ModelOptions kReference = {
    .device = Device::reference, .isa = "", .k_type = DType::f32, .v_type = DType::f32};

class RankGolden : public ::testing::TestWithParam<Param> {
 protected:
  static void expect_all(const ModelOptions& options, double most) {
    expect_all(GetParam().path(), options, most);
  }
  static void expect_all(const std::string& path, const ModelOptions& options, double most) {
    const auto model = open(path, options);
    ASSERT_NE(model, nullptr);
    EXPECT_TRUE(model->hparams().ranks);
    const std::vector<Golden> golden = golden_of(GetParam().name);
    ASSERT_FALSE(golden.empty());
    std::vector<float> scores;
    for (const Golden& pair : golden) {
      SCOPED_TRACE(pair.query + " / " + pair.document);
      const auto tokens = pair_tokens(*model, pair.query, pair.document, LongText::error);
      ASSERT_TRUE(tokens) << tokens.error().message;
      EXPECT_EQ(tokens->ids, pair.ids);
      EXPECT_EQ(tokens->second, pair.second);
      const auto score = model->rank(tokens->ids, tokens->second);
      ASSERT_TRUE(score) << score.error().message;
      EXPECT_NEAR(*score, pair.score, most);
      scores.push_back(*score);
    }
    // Nothing is left of other pairs.
    EXPECT_EQ(*model->rank(golden[0].ids, golden[0].second), scores[0]);
  }
};

TEST_P(RankGolden, Reference) {
  expect_all(kReference, kExact);
}

// With its tokenizer and its head.
TEST_P(RankGolden, WrittenAsGguf) {
  const test::TempDir temporary;
  const std::string out = temporary.file("out.gguf");
  const QuantizeOptions options = {
      .mix = *find_mix("F32"), .importance = nullptr, .threads = 2, .progress = {}};
  const auto written = quantize(GetParam().path(), out, options, storage::system_io());
  ASSERT_TRUE(written) << written.error().message;
  expect_all(out, kReference, kExact);
}

TEST_P(RankGolden, CpuF32) {
  expect_all({.isa = "", .deterministic = true, .k_type = DType::f32, .v_type = DType::f32},
             kExact);
}

TEST_P(RankGolden, CpuB16) {
  expect_all({}, kRounded);
}

INSTANTIATE_TEST_SUITE_P(Models, RankGolden,
                         ::testing::Values(Param{"bert-rank", false}, Param{"bert-rank", true},
                                           Param{"xlmr-rank", false}, Param{"xlmr-rank", true},
                                           Param{"qwen3-rank", true}),
                         print_name);

TEST(Rank, TokenTypesTellTheTextsOfAPair) {
  const auto model = open(folder_of("bert-rank"));
  ASSERT_NE(model, nullptr);
  const Golden pair = golden_of("bert-rank").at(0);
  EXPECT_GT(std::abs(*model->rank(pair.ids, 0) - *model->rank(pair.ids, pair.second)), 0.1);
}

TEST(Rank, OtherModelsAndOtherUses) {
  const auto ranker = open(folder_of("bert-rank"));
  ASSERT_NE(ranker, nullptr);
  EXPECT_EQ(ranker->embed(std::vector<text::TokenId>{2, 3}).error().kind, "E_RANKS");
  EXPECT_NE(ranker->check_writes().error().message.find("scores documents"), std::string::npos);
  const auto embedder = open(folder_of("bert"));
  ASSERT_NE(embedder, nullptr);
  EXPECT_EQ(embedder->rank(std::vector<text::TokenId>{2, 3}, 0).error().kind, "E_NORANK");
}

TEST(Rank, SpecialTokensInTextsAreText) {
  const auto model = open(folder_of("xlmr-rank"));
  ASSERT_NE(model, nullptr);
  const auto tokens = pair_tokens(*model, "</s>", "a </s> b", LongText::error);
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(std::ranges::count(tokens->ids, 2), 3);  // <s> query </s></s> document </s>
}

std::string repeat(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Rank, LongDocumentsAreRefusedOrCut) {
  const auto model = open(folder_of("bert-rank"));  // reads 128 tokens
  ASSERT_NE(model, nullptr);
  const std::string longer = repeat("hello ", 200);
  const auto refused = pair_tokens(*model, "the world", longer, LongText::error);
  EXPECT_EQ(refused.error().kind, "E_CONTEXT");
  EXPECT_NE(refused.error().message.find("205 tokens, the model reads 128"), std::string::npos)
      << refused.error().message;
  const auto cut = pair_tokens(*model, "the world", longer, LongText::cut);
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->dropped, 77U);
  EXPECT_EQ(cut->ids,
            pair_tokens(*model, "the world", repeat("hello ", 123), LongText::error)->ids);
  EXPECT_TRUE(model->rank(cut->ids, cut->second));
  // Of the query nothing is cut.
  EXPECT_EQ(pair_tokens(*model, longer, "hello", LongText::cut).error().kind, "E_CONTEXT");
}

TEST(Rank, TemplatesAreCutInsideOfThem) {
  const auto model =
      open(folder_of("qwen3-rank") + "/qwen3-rank-f16.gguf", {.isa = "", .context = 128});
  ASSERT_NE(model, nullptr);
  const Golden pair = golden_of("qwen3-rank").at(0);
  const std::string longer = repeat("\xC3\xA9", 100);  // two bytes, two tokens, a character
  EXPECT_EQ(pair_tokens(*model, pair.query, longer, LongText::error).error().kind, "E_CONTEXT");
  const auto cut = pair_tokens(*model, pair.query, longer, LongText::cut);
  ASSERT_TRUE(cut) << cut.error().message;
  const auto left = static_cast<std::size_t>((128 - (pair.ids.size() - 9)) / 2);  // "the world"
  EXPECT_EQ(cut->ids,
            pair_tokens(*model, pair.query, longer.substr(0, 2 * left), LongText::error)->ids);
  EXPECT_EQ(cut->dropped, 200 - 2 * left);
  EXPECT_EQ(pair_tokens(*model, longer, "a", LongText::cut).error().kind, "E_CONTEXT");
}

}  // namespace
}  // namespace orrery::engine
