// tokenizer.json written as GGUF keys tokenizes as before.
#include "text/gguf_keys.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/paths.hpp"
#include "support/sanitized.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class GgufKeysOf : public testing::TestWithParam<const char*> {};

TEST_P(GgufKeysOf, TokenizeAlike) {
  const std::string data = test::shared_dir() + "/data/";
  const std::string folder = data + "hf_tokenizers/" + GetParam();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  if (test::kSanitized && GetParam() != std::string("llama3")) GTEST_SKIP() << "too slow";
  const std::string json = read(folder + "/tokenizer.json");
  const auto keys = tokenizer_keys(json, read(folder + "/tokenizer_config.json"), "", 0);
  ASSERT_TRUE(keys) << keys.error().message;
  auto spec = spec_from_gguf(keys->metadata);
  ASSERT_TRUE(spec) << spec.error().message;
  const auto tokenizer = build_tokenizer(std::move(*spec));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::ifstream lines(data + "tokvec/" + GetParam() + ".jsonl");
  std::string line;
  int texts = 0, equal = 0;
  while (std::getline(lines, line)) {
    const auto vector = nlohmann::json::parse(line);
    const auto ids = (*tokenizer)->encode(vector["text"].get<std::string>(), {});
    ++texts;
    equal += ids == vector["ids_plain"].get<std::vector<TokenId>>();
  }
  EXPECT_GE(texts, 300);
  EXPECT_GE(equal, texts - 3);
}

INSTANTIATE_TEST_SUITE_P(Models, GgufKeysOf,
                         testing::Values("gemma3", "qwen3", "llama3", "deepseek_v3"),
                         [](const auto& test) { return std::string(test.param); });

constexpr const char* kWordPiece =
    R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1}}})";

TEST(GgufKeys, RefuseOtherKinds) {
  const auto refused = tokenizer_keys(kWordPiece, "", "", 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_TOKENIZER");
  EXPECT_NE(refused.error().message.find("cannot be written"), std::string::npos);
}

}  // namespace
}  // namespace orrery::text
