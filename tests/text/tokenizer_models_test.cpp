// Tokenizers of whole model folders and of a real model.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "text/unicode.hpp"
#include "text/vocabulary_support.hpp"

namespace orrery::text {
namespace {

using testing::ElementsAreArray;

// The toy tokenizers beside the golden models: tokenizer.json and GGUF are the same tokenizer.
TEST(GoldenFolders, JsonEqualsGguf) {
  const std::string folder = test::shared_data() + "/golden";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const auto vectors = test::read_vectors(test::shared_data() + "/tokvec/gpt2.jsonl");
  for (const std::string name : {"llama", "gemma3", "gpt2", "qwen2", "phi3"}) {
    const std::string path = folder + "/" + name;
    const auto gguf = test::load_gguf(path + "/" + name + "-f16.gguf");
    const auto json = test::load_gguf(path);
    ASSERT_TRUE(gguf && json);
    EXPECT_EQ(gguf->vocab_size(), json->vocab_size());
    EXPECT_EQ(gguf->special().bos, json->special().bos);
    EXPECT_EQ(gguf->special().eos, json->special().eos);
    EXPECT_EQ(gguf->special().end_of_generation, json->special().end_of_generation);
    for (const auto& v : vectors) {
      // The GGUF file names Qwen's pre-tokenizer, which composes characters; the JSON one does not.
      if (normalize(v.text, NormalForm::nfc) != v.text) continue;
      const EncodeOptions all{.add_special = true, .parse_special = true};
      const auto ids = gguf->encode(v.text, all);
      ASSERT_THAT(json->encode(v.text, all), ElementsAreArray(ids)) << name << ": " << v.text;
      EXPECT_EQ(json->decode(ids, true), gguf->decode(ids, true));
    }
  }
}

std::string cached_model(const std::string& file) {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/orrery/" + file;
  }
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + "/.cache/orrery/" + file;
}

// A real model's file and the vectors of its tokenizer.
struct RealModel {
  std::string name, file, vectors;
  std::string turn_end;               // ends a turn and is hidden from the user
  bool is_converted_by_type = false;  // types come from SentencePiece, not from tokenizer.json
};

std::ostream& operator<<(std::ostream& out, const RealModel& model) {
  return out << model.name;
}

class RealModelTest : public testing::TestWithParam<RealModel> {};

TEST_P(RealModelTest, EqualsHuggingFace) {
  const std::string path = cached_model(GetParam().file);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  const std::string file = test::shared_data() + "/tokvec/" + GetParam().vectors;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not here";
  const auto tokenizer = test::load_gguf(path);
  ASSERT_NE(tokenizer, nullptr);
  for (const auto& v : test::read_vectors(file)) {
    // A GGUF vocabulary cannot tell the character U+2581 from a space.
    if (tokenizer->model_name() == "spm" && v.text.find("\xE2\x96\x81") != std::string::npos) {
      continue;
    }
    EXPECT_THAT(tokenizer->encode(v.text, {.parse_special = true}), ElementsAreArray(v.ids))
        << v.text;
    const auto with_special =
        tokenizer->encode(v.text, {.add_special = true, .parse_special = true});
    EXPECT_THAT(with_special, ElementsAreArray(v.ids_bos)) << v.text;
    EXPECT_EQ(tokenizer->decode(v.ids, true), v.decoded);
    // Where the two disagree about what is special, plain text follows the file.
    const bool is_disputed =
        GetParam().is_converted_by_type &&
        std::ranges::any_of(v.ids, [&](TokenId id) { return tokenizer->token_text(id)[0] == '<'; });
    if (!is_disputed) {
      EXPECT_THAT(tokenizer->encode(v.text, {}), ElementsAreArray(v.ids_plain)) << v.text;
    }
  }
  const TokenId end = tokenizer->find(GetParam().turn_end);
  EXPECT_THAT(tokenizer->special().end_of_generation, testing::Contains(end));
  EXPECT_TRUE(tokenizer->is_special(end));
  const auto ids = tokenizer->encode("a" + GetParam().turn_end, {.parse_special = true});
  EXPECT_EQ(ids.back(), end);
  EXPECT_EQ(tokenizer->decode(ids, false), "a");
}

INSTANTIATE_TEST_SUITE_P(All, RealModelTest,
                         testing::Values(RealModel{"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf",
                                                   "smollm2.jsonl", "<|im_end|>"},
                                         RealModel{"qwen2_5",
                                                   "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                                                   "qwen2.5.jsonl", "<|im_end|>"},
                                         RealModel{"gemma3", "gemma-3-270m-q4_k_m.gguf",
                                                   "gemma3.jsonl", "<end_of_turn>", true}),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace orrery::text
