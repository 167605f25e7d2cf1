// Tokenizers of whole model folders and of a real model.
#include <gmock/gmock.h>

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

TEST(RealModel, SmolLm2EqualsHuggingFace) {
  const std::string path = cached_model("SmolLM2-135M-Instruct.Q4_1.gguf");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  const std::string file = test::shared_data() + "/tokvec/smollm2.jsonl";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not here";
  const auto tokenizer = test::load_gguf(path);
  ASSERT_NE(tokenizer, nullptr);
  for (const auto& v : test::read_vectors(file)) {
    EXPECT_THAT(tokenizer->encode(v.text, {.parse_special = true}), ElementsAreArray(v.ids));
    EXPECT_THAT(tokenizer->encode(v.text, {}), ElementsAreArray(v.ids_plain)) << v.text;
    EXPECT_THAT(tokenizer->encode(v.text, {.add_special = true, .parse_special = true}),
                ElementsAreArray(v.ids_bos));
    EXPECT_EQ(tokenizer->decode(v.ids, true), v.decoded);
  }
  EXPECT_EQ(tokenizer->special().eos, tokenizer->find("<|im_end|>"));
  EXPECT_THAT(tokenizer->special().end_of_generation,
              testing::Contains(tokenizer->find("<|im_end|>")));
  EXPECT_TRUE(tokenizer->is_special(tokenizer->find("<|im_start|>")));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("<|im_start|>a", {.parse_special = true}), false),
            "a");
}

}  // namespace
}  // namespace orrery::text
