// all-MiniLM-L6-v2 against transformers, mean of the rows at length 1 (tests/golden/minilm.json).
// The model is in the user's cache once scripts/fetch_model.py has fetched it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/embed_text.hpp"
#include "engine/model.hpp"
#include "support/paths.hpp"
#include "support/sanitized.hpp"

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

}  // namespace
}  // namespace orrery::engine
