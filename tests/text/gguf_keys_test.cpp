// tokenizer.json written as GGUF keys tokenizes as before.
#include "text/gguf_keys.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
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

using nlohmann::json;

// A case of make_tokenizers.py.
json load_case(const std::string& name) {
  return json::parse(read(test::source_dir() + "/tests/text/tokenizers/" + name + ".json"));
}

std::shared_ptr<const Tokenizer> built(Result<TokenizerSpec> spec) {
  if (!spec) {
    ADD_FAILURE() << spec.error().message;
    return nullptr;
  }
  auto tokenizer = build_tokenizer(std::move(*spec));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return tokenizer ? *tokenizer : nullptr;
}

// Every text of the case gives the tokens that tokenizer.json gives for it. Spaces at the ends of
// texts are left out, and SentencePiece's mark of a space where a text begins with it.
void expect_alike(const json& tokenizer, const json& vectors) {
  const auto keys = tokenizer_keys(tokenizer.dump(), "", "", 0);
  ASSERT_TRUE(keys) << keys.error().message;
  const auto original = built(spec_from_json(tokenizer.dump(), "", ""));
  const auto copy = built(spec_from_gguf(keys->metadata));
  ASSERT_TRUE(original && copy);
  int texts = 0;
  for (const json& vector : vectors) {
    std::string text = vector.at("text");
    while (!text.empty() && std::string_view(" \r\n").contains(text.back())) text.pop_back();
    if (text.empty() || text.starts_with("\xE2\x96\x81")) continue;
    ++texts;
    EXPECT_EQ(copy->encode(text, {.add_special = true}),
              original->encode(text, {.add_special = true}))
        << text;
  }
  EXPECT_GE(texts, 40);
  const auto between = [](const Tokenizer& of) {
    return std::vector<TokenId>(of.pair().between.begin(), of.pair().between.end());
  };
  EXPECT_EQ(between(*copy), between(*original));
}

std::string refusal_of(const json& tokenizer) {
  const auto keys = tokenizer_keys(tokenizer.dump(), "", "", 0);
  if (keys) return "";
  EXPECT_EQ(keys.error().kind, "E_TOKENIZER");
  return keys.error().message;
}

json bert() {
  json document = load_case("wordpiece");
  document["tokenizer"]["model"]["max_input_chars_per_word"] = 100;
  return document;
}

TEST(GgufKeysOfWordPiece, TokenizeAlike) {
  json document = bert();
  expect_alike(document.at("tokenizer"), document.at("vectors"));
  for (const bool lower : {false, true}) {
    for (const bool strip : {false, true}) {
      json& normalizer = document["tokenizer"]["normalizer"];
      normalizer["lowercase"] = lower;
      normalizer["strip_accents"] = strip;
      expect_alike(document.at("tokenizer"), document.at("vectors"));
    }
  }
}

TEST(GgufKeysOfWordPiece, HaveMarkedWordsAndBareContinuations) {
  const auto keys = tokenizer_keys(bert().at("tokenizer").dump(), "", "", 1000);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->metadata.string("tokenizer.ggml.model").value_or(""), "bert");
  const auto tokens =
      keys->metadata.array("tokenizer.ggml.tokens", storage::MetaArray::Kind::strings);
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->strings.size(), 1000U);
  EXPECT_EQ(tokens->strings[2], "[CLS]");
  EXPECT_EQ(keys->metadata.u32("tokenizer.ggml.cls_token_id").value_or(0), 2U);
  EXPECT_EQ(keys->metadata.u32("tokenizer.ggml.seperator_token_id").value_or(0), 3U);
  EXPECT_EQ(keys->metadata.u32("tokenizer.ggml.mask_token_id").value_or(0), 4U);
  for (const std::string_view token : tokens->strings) EXPECT_FALSE(token.starts_with("##"));
}

TEST(GgufKeysOfWordPiece, RefuseOtherSteps) {
  const json tokenizer = bert().at("tokenizer");
  json other = tokenizer;
  other["model"]["max_input_chars_per_word"] = 30;
  EXPECT_NE(refusal_of(other).find("in another way than BERT's"), std::string::npos);
  other = tokenizer;
  other["normalizer"]["handle_chinese_chars"] = false;
  EXPECT_NE(refusal_of(other).find("in another way than BERT's"), std::string::npos);
  other = tokenizer;
  other["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  EXPECT_NE(refusal_of(other).find("in another way than BERT's"), std::string::npos);
  other = tokenizer;
  other["post_processor"]["pair"][2]["SpecialToken"]["id"] = "[CLS]";
  EXPECT_NE(refusal_of(other).find("between two texts"), std::string::npos);
  other = tokenizer;
  other["model"]["vocab"]["##\xE2\x96\x81the"] = 900;  // as the word is spelled in GGUF
  EXPECT_NE(refusal_of(other).find("would both be"), std::string::npos);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : bytes) {
    bits = bits << 8U | static_cast<std::uint8_t>(c);
    for (n_bits += 8; n_bits >= 6; n_bits -= 6) out += kDigits[bits >> (n_bits - 6) & 63U];
  }
  if (n_bits > 0) out += kDigits[bits << (6 - n_bits) & 63U];
  return out;
}

// A character map as normalizer.hpp says it, that makes U+0020 of other white space, as that of the
// published vocabularies does. Each node of the trie has a block of 256 units for its children, the
// first of which is its leaf.
std::string spaces_of_others() {
  constexpr std::uint32_t kBlock = 256;
  std::vector<std::uint32_t> units(2 * kBlock, 0);
  units[0] = kBlock << 10U;
  for (const std::string_view space :
       {"\t", "\n", "\r", "\xC2\xA0", "\xE2\x80\x83", "\xE2\x80\x8B", "\xE3\x80\x80"}) {
    std::uint32_t children = kBlock, node = 0;
    for (const char c : space) {
      const auto byte = static_cast<std::uint8_t>(c);
      node = children ^ byte;
      if (units[node] == 0) {
        units[node] = (node ^ static_cast<std::uint32_t>(units.size())) << 10U | byte;
        units.resize(units.size() + kBlock, 0);
      }
      children = node ^ units[node] >> 10U;
    }
    units[node] |= 1U << 8U;
  }
  const auto size = static_cast<std::uint32_t>(4 * units.size());
  std::string map(4 + size, '\0');
  std::memcpy(map.data(), &size, 4);
  std::memcpy(map.data() + 4, units.data(), size);
  return map + std::string(" \0", 2);
}

// A vocabulary of SentencePiece in the form of XLM-R's tokenizer.json.
json xlmr() {
  const json source = load_case("sp_unigram");
  json tokenizer = load_case("unigram").at("tokenizer");
  json& vocabulary = tokenizer["model"]["vocab"] = json::array();
  for (std::size_t i = 0; i < source.at("tokens").size(); ++i) {
    vocabulary.push_back({source.at("tokens")[i], source.at("scores")[i]});
  }
  tokenizer["normalizer"] = {{"type", "Precompiled"},
                             {"precompiled_charsmap", base64(spaces_of_others())}};
  tokenizer["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "WhitespaceSplit"}}, {{"type", "Metaspace"}, {"prepend_scheme", "always"}}}}};
  tokenizer["post_processor"] = {
      {"type", "RobertaProcessing"}, {"cls", {"<s>", 1}}, {"sep", {"</s>", 2}}};
  return tokenizer;
}

TEST(GgufKeysOfUnigram, TokenizeAlike) {
  const json vectors = load_case("unigram").at("vectors");
  json tokenizer = xlmr();
  expect_alike(tokenizer, vectors);
  tokenizer["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {tokenizer.at("normalizer"),
        {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}}}};
  tokenizer["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", "always"}};
  expect_alike(tokenizer, vectors);
}

TEST(GgufKeysOfUnigram, HaveTheMapAsBytes) {
  const auto keys = tokenizer_keys(xlmr().dump(), "", "", 0);
  ASSERT_TRUE(keys) << keys.error().message;
  const auto* map = keys->metadata.find("tokenizer.ggml.precompiled_charsmap");
  ASSERT_NE(map, nullptr);
  EXPECT_EQ(std::get<storage::PackedArray>(*map).type, 0U);  // u8, as llama.cpp asks for
}

TEST(GgufKeysOfUnigram, RefuseOtherSteps) {
  EXPECT_NE(refusal_of(load_case("unigram").at("tokenizer")).find("Unigram keys cannot say"),
            std::string::npos);  // NFKC
  json other = xlmr();
  other["model"]["byte_fallback"] = true;
  EXPECT_NE(refusal_of(other).find("Unigram keys cannot say"), std::string::npos);
  other = xlmr();
  other["post_processor"]["type"] = "BertProcessing";
  EXPECT_NE(refusal_of(other).find("between two texts"), std::string::npos);
  other = xlmr();  // a map that leaves line ends, at which tokenizer.json cuts
  other["normalizer"]["precompiled_charsmap"] = load_case("sp_unigram").at("charsmap");
  EXPECT_NE(refusal_of(other).find("into other tokens"), std::string::npos);
}

TEST(GgufKeysOfByteLevel, NameRobertasEnd) {
  json tokenizer = load_case("roberta").at("tokenizer");
  tokenizer["pre_tokenizer"]["add_prefix_space"] = false;
  const auto keys =
      tokenizer_keys(tokenizer.dump(), R"({"bos_token": "<s>", "eos_token": "</s>"})", "", 0);
  ASSERT_TRUE(keys) << keys.error().message;
  const auto copy = built(spec_from_gguf(keys->metadata));
  ASSERT_NE(copy, nullptr);
  const std::vector<TokenId> twice = {2, 2};
  EXPECT_TRUE(std::ranges::equal(copy->pair().between, twice));
}

TEST(GgufKeys, RefuseOtherKinds) {
  EXPECT_NE(refusal_of(load_case("words").at("tokenizer")).find("neither works on bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace orrery::text
