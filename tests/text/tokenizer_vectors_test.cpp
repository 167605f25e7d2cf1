// Every line of llama.cpp's vocabulary tests, and the vectors of the Hugging Face tokenizers.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "text/vocabulary_support.hpp"

namespace orrery::text {
namespace {

using test::load_gguf;
using test::load_json;
using test::shared_data;
using testing::ElementsAreArray;

std::vector<std::string> split_texts(const std::string& all) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  std::size_t start = 0;
  for (std::size_t at = all.find(kSeparator); at != std::string::npos;
       at = all.find(kSeparator, start)) {
    texts.push_back(all.substr(start, at - start));
    start = at + kSeparator.size();
  }
  if (start < all.size()) texts.push_back(all.substr(start));  // one file lacks the last separator
  return texts;
}

std::vector<std::vector<TokenId>> read_ids(const std::string& path) {
  std::vector<std::vector<TokenId>> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    lines.emplace_back(std::istream_iterator<TokenId>(words), std::istream_iterator<TokenId>());
  }
  return lines;
}

class VocabularyTest : public testing::TestWithParam<std::string> {};

TEST_P(VocabularyTest, GivesTheRecordedIds) {
  const std::string path = shared_data() + "/tokenizers/ggml-vocab-" + GetParam() + ".gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  const auto tokenizer = load_gguf(path);
  ASSERT_NE(tokenizer, nullptr);
  const auto texts = split_texts(test::read_text(path + ".inp"));
  const auto expected = read_ids(path + ".out");
  ASSERT_EQ(expected.size(), 46U);
  ASSERT_GE(texts.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto ids = tokenizer->encode(texts[i], {});
    EXPECT_THAT(ids, ElementsAreArray(expected[i])) << "text " << i << ": " << texts[i];
    if (tokenizer->model_name() == "bpe" || tokenizer->model_name() == "spm") {
      EXPECT_EQ(tokenizer->decode(ids, true), texts[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, VocabularyTest,
                         testing::Values("bert-bge", "deepseek-coder", "deepseek-llm", "gemma-4",
                                         "gpt-2", "llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2",
                                         "refact", "starcoder"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// A vocabulary (a path below the shared data) and the vectors of the same tokenizer.
struct Case {
  std::string name, vocabulary, vectors;
  bool adds_bos_itself = false;  // the GGUF file adds a token that tokenizer.json alone does not
  TokenId first_missing = std::numeric_limits<TokenId>::max();  // later ids came with a successor
};

class VectorTest : public testing::TestWithParam<Case> {};

TEST_P(VectorTest, EqualsHuggingFace) {
  const Case& c = GetParam();
  const std::string path = shared_data() + "/" + c.vocabulary;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  const auto tokenizer = path.ends_with(".json") ? load_json(path) : load_gguf(path);
  ASSERT_NE(tokenizer, nullptr);
  const auto vectors = test::read_vectors(shared_data() + "/tokvec/" + c.vectors);
  ASSERT_EQ(vectors.size(), 322U);
  std::size_t n_skipped = 0;
  for (const auto& v : vectors) {
    if (std::ranges::any_of(v.ids, [&](TokenId id) { return id >= c.first_missing; })) {
      ++n_skipped;
      continue;
    }
    EXPECT_THAT(tokenizer->encode(v.text, {.parse_special = true}), ElementsAreArray(v.ids))
        << v.text;
    EXPECT_THAT(tokenizer->encode(v.text, {}), ElementsAreArray(v.ids_plain)) << v.text;
    auto with_bos = tokenizer->encode(v.text, {.add_special = true, .parse_special = true});
    if (c.adds_bos_itself) {
      ASSERT_FALSE(with_bos.empty());
      EXPECT_EQ(with_bos.front(), tokenizer->special().bos);
      with_bos.erase(with_bos.begin());
    }
    EXPECT_THAT(with_bos, ElementsAreArray(v.ids_bos)) << v.text;
    EXPECT_EQ(tokenizer->decode(v.ids, true), v.decoded) << v.text;
  }
  EXPECT_LE(n_skipped, 2U);
}

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

INSTANTIATE_TEST_SUITE_P(
    All, VectorTest,
    testing::Values(
        Case{"gguf_qwen2", "tokenizers/ggml-vocab-qwen2.gguf", "qwen2.5.jsonl", false, 151646},
        Case{"gguf_gpt2", "tokenizers/ggml-vocab-gpt-2.gguf", "gpt2.jsonl"},
        Case{"gguf_llama3", "tokenizers/ggml-vocab-llama-bpe.gguf", "llama3.jsonl", true},
        Case{"gguf_bert", "tokenizers/ggml-vocab-bert-bge.gguf", "bert-bge.jsonl"},
        Case{"json_gemma3", "hf_tokenizers/gemma3/tokenizer.json", "gemma3.jsonl"},
        Case{"json_qwen3", "hf_tokenizers/qwen3/tokenizer.json", "qwen3.jsonl"},
        Case{"json_llama3", "hf_tokenizers/llama3/tokenizer.json", "llama3.jsonl"},
        Case{"json_deepseek3", "hf_tokenizers/deepseek_v3/tokenizer.json", "deepseek_v3.jsonl"}),
    [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace orrery::text
