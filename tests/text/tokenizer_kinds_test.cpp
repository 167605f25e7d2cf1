// Small tokenizers of every kind against what Hugging Face's library and SentencePiece gave for
// them (make_tokenizers.py).
#include <gmock/gmock.h>

#include "support/paths.hpp"
#include "text/vocabulary_support.hpp"

namespace orrery::text {
namespace {

using nlohmann::json;
using storage::MetaArray;
using storage::Metadata;
using testing::ElementsAreArray;

json load_case(const std::string& name) {
  return json::parse(
      test::read_text(orrery::test::source_dir() + "/tests/text/tokenizers/" + name + ".json"));
}

class HuggingFaceKindTest : public testing::TestWithParam<std::string> {};

TEST_P(HuggingFaceKindTest, EqualsTheLibrary) {
  const json document = load_case(GetParam());
  auto spec = spec_from_json(document.at("tokenizer").dump(), "", "");
  ASSERT_TRUE(spec) << spec.error().message;
  const bool has_decoder = !document.at("tokenizer").at("decoder").is_null();
  const auto tokenizer = build_tokenizer(std::move(*spec));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  for (const json& v : document.at("vectors")) {
    const std::string text = v.at("text");
    const std::vector<TokenId> ids = v.at("ids"), plain = v.at("ids_plain"), bos = v.at("ids_bos");
    EXPECT_THAT((*tokenizer)->encode(text, {.parse_special = true}), ElementsAreArray(ids)) << text;
    // The library's Unigram makes control tokens out of content; that must not happen here.
    if (GetParam() != "unigram" || text.find("s>") == std::string::npos) {
      EXPECT_THAT((*tokenizer)->encode(text, {}), ElementsAreArray(plain)) << text;
    } else {
      EXPECT_THAT((*tokenizer)->encode(text, {}),
                  testing::Each(testing::Not(testing::AnyOf(1, 2))));
    }
    EXPECT_THAT((*tokenizer)->encode(text, {.add_special = true, .parse_special = true}),
                ElementsAreArray(bos))
        << text;
    if (has_decoder) {
      EXPECT_EQ((*tokenizer)->decode(ids, true), v.at("decoded").get<std::string>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HuggingFaceKindTest,
                         testing::Values("wordpiece", "llama", "roberta", "steps", "words",
                                         "unigram"),
                         [](const auto& param_info) { return param_info.param; });

TEST(PairTest, StandsAsThePostProcessorSays) {
  const auto between = [](json tokenizer, const json& post_processor) {
    if (!post_processor.is_null()) tokenizer["post_processor"] = post_processor;
    auto spec = spec_from_json(tokenizer.dump(), "", "");
    EXPECT_TRUE(spec) << spec.error().message;
    const auto built = build_tokenizer(std::move(*spec));
    EXPECT_TRUE(built) << built.error().message;
    const auto ids = (*built)->pair().between;
    return std::vector<TokenId>(ids.begin(), ids.end());
  };
  const json roberta = load_case("roberta").at("tokenizer");
  EXPECT_THAT(between(roberta, nullptr), testing::ElementsAre(2, 2));
  json bert = roberta.at("post_processor");
  bert["type"] = "BertProcessing";
  EXPECT_THAT(between(roberta, bert), testing::ElementsAre(2));
  const auto piece = [](const char* kind, const char* id) {
    return json{{kind, {{"id", id}, {"type_id", 0}}}};
  };
  const json one = {piece("SpecialToken", "<s>"), piece("Sequence", "A"),
                    piece("SpecialToken", "</s>")};
  json two = one;
  two.push_back(piece("SpecialToken", "<s>"));
  two.push_back(piece("Sequence", "B"));
  json processor = {{"type", "TemplateProcessing"},
                    {"single", one},
                    {"pair", two},
                    {"special_tokens", {{"<s>", {{"ids", {0}}}}, {"</s>", {{"ids", {2}}}}}}};
  EXPECT_THAT(between(roberta, processor), testing::ElementsAre(2, 0));
  processor["pair"] = one;  // of one text: as around it
  EXPECT_THAT(between(roberta, processor), testing::ElementsAre(2));
}

int base64_value(char c) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return static_cast<int>(kDigits.find(c));
}

std::vector<std::int64_t> decode_base64(const std::string& text) {
  std::vector<std::int64_t> bytes;
  std::uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6U) | static_cast<std::uint32_t>(base64_value(c));
    n += 6;
    if (n >= 8) bytes.push_back((bits >> (n -= 8)) & 0xFFU);
  }
  return bytes;
}

// The GGUF metadata that a converter would write for a SentencePiece model.
void fill_metadata(const json& document, const std::string& model,
                   const std::vector<std::string>& tokens, Metadata& metadata) {
  MetaArray texts = test::meta_strings({});
  texts.strings.assign(tokens.begin(), tokens.end());
  MetaArray scores = test::meta_floats(document.at("scores"));
  MetaArray types = test::meta_integers(document.at("types"));
  MetaArray map = test::meta_integers(decode_base64(document.at("charsmap")));
  metadata.insert("tokenizer.ggml.model", std::string_view(model));
  metadata.insert("tokenizer.ggml.tokens", std::move(texts));
  metadata.insert("tokenizer.ggml.scores", std::move(scores));
  metadata.insert("tokenizer.ggml.token_type", std::move(types));
  metadata.insert("tokenizer.ggml.precompiled_charsmap", std::move(map));
  for (const std::string key : {"add_space_prefix", "remove_extra_whitespaces"}) {
    metadata.insert("tokenizer.ggml." + key, document.at(key).get<bool>());
  }
}

struct SentencePieceCase {
  std::string name, model;
};

class SentencePieceTest : public testing::TestWithParam<SentencePieceCase> {};

TEST_P(SentencePieceTest, EqualsTheLibrary) {
  const json document = load_case(GetParam().name);
  const std::vector<std::string> tokens = document.at("tokens");
  Metadata metadata;
  fill_metadata(document, GetParam().model, tokens, metadata);
  auto spec = spec_from_gguf(metadata);
  ASSERT_TRUE(spec) << spec.error().message;
  const auto tokenizer = build_tokenizer(std::move(*spec));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  for (const json& v : document.at("vectors")) {
    const std::string text = v.at("text");
    const std::vector<TokenId> ids = v.at("ids");
    EXPECT_THAT((*tokenizer)->encode(text, {}), ElementsAreArray(ids)) << '"' << text << '"';
  }
}

INSTANTIATE_TEST_SUITE_P(All, SentencePieceTest,
                         testing::Values(SentencePieceCase{"sp_unigram", "t5"},
                                         SentencePieceCase{"sp_bpe", "llama"}),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace orrery::text
