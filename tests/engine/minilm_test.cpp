// all-MiniLM-L6-v2 against transformers, mean of the rows at length 1 (tests/golden/minilm.json).
// The model is in the user's cache once scripts/fetch_model.py has fetched it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/embed_text.hpp"
#include "engine/model.hpp"
#include "engine/quantize.hpp"
#include "support/paths.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

namespace orrery::engine {
namespace {

std::string minilm() {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base =
      xdg != nullptr && *xdg != '\0' ? std::string(xdg) : std::string(home ? home : "") + "/.cache";
  return base + "/orrery/all-MiniLM-L6-v2";
}

TEST(MiniLm, VectorsEqualTransformers) {
  if (!std::filesystem::exists(minilm())) GTEST_SKIP() << minilm() << " is absent";
  std::ifstream file(test::source_dir() + "/tests/golden/minilm.json");
  const auto golden = nlohmann::json::parse(file, nullptr, false);
  ASSERT_FALSE(golden.is_discarded());
  ModelOptions options;
  options.threads = 2;
  const auto model = Model::open(minilm(), options, storage::system_io());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->embed_context(), 256U);  // sentence_bert_config.json
  EXPECT_EQ((*model)->executor(), nullptr);
  for (const auto& text : golden["texts"]) {
    if (test::kSanitized && text["tokens"] > 40) continue;
    SCOPED_TRACE(text["text"].get<std::string>().substr(0, 40));
    const auto tokens = embed_tokens(**model, text["text"].get<std::string>(), LongText::cut);
    ASSERT_TRUE(tokens) << tokens.error().message;
    EXPECT_EQ(tokens->ids.size(), text["tokens"].get<std::size_t>());
    const auto vector = (*model)->embed(tokens->ids);
    ASSERT_TRUE(vector) << vector.error().message;
    const std::vector<float> want = text["vector"];
    ASSERT_EQ(vector->size(), want.size());
    double dot = 0.0;  // both have length 1
    for (std::size_t i = 0; i < want.size(); ++i) dot += double{(*vector)[i]} * want[i];
    EXPECT_LE(1.0 - dot, 1e-3);
  }
}

std::shared_ptr<const Model> open(const std::string& path) {
  ModelOptions options;
  options.threads = 2;
  auto model = Model::open(path, options, storage::system_io());
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : nullptr;
}

// Tokens, pooling and the longest text come along.
TEST(MiniLm, AsGgufOfQ8VectorsAreNearlyTheSame) {
  if (!std::filesystem::exists(minilm())) GTEST_SKIP() << minilm() << " is absent";
  if (test::kSanitized) GTEST_SKIP() << "too slow";
  const test::TempDir temporary;
  const std::string out = temporary.file("out.gguf");
  const QuantizeOptions options = {
      .mix = *find_mix("Q8_0"), .importance = nullptr, .threads = 2, .progress = {}};
  const auto written = quantize(minilm(), out, options, storage::system_io());
  ASSERT_TRUE(written) << written.error().message;
  const auto source = open(minilm()), copy = open(out);
  ASSERT_TRUE(source && copy);
  EXPECT_EQ(copy->embed_context(), source->embed_context());
  EXPECT_EQ(copy->hparams().pooling, source->hparams().pooling);
  for (const char* text : {"hello", "The quick brown fox, d\xC3\xA9j\xC3\xA0 vu & unbelievably so!",
                           "\xE4\xBD\xA0\xE5\xA5\xBD 12345 \xF0\x9F\x9A\x80 [MASK] ##ing"}) {
    const auto theirs = embed_tokens(*source, text, LongText::error);
    const auto ours = embed_tokens(*copy, text, LongText::error);
    ASSERT_TRUE(theirs && ours);
    EXPECT_EQ(ours->ids, theirs->ids) << text;
    const auto want = source->embed(theirs->ids), got = copy->embed(ours->ids);
    ASSERT_TRUE(want && got);
    double dot = 0.0;  // both have length 1
    for (std::size_t i = 0; i < want->size(); ++i) dot += double{(*got)[i]} * (*want)[i];
    EXPECT_GT(dot, 0.999) << text;
  }
}

}  // namespace
}  // namespace orrery::engine
