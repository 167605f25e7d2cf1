// Vocabularies that are wrong are refused with one sentence, odd ones work.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "text/bpe.hpp"
#include "text/vocabulary_support.hpp"

namespace orrery::text {
namespace {

using storage::MetaArray;
using storage::Metadata;
using storage::MetaValue;
using testing::ElementsAre;
using testing::HasSubstr;

// A small byte-pair vocabulary as GGUF metadata, whose keys a test replaces or drops.
class Gguf {
 public:
  Gguf() {
    set("tokenizer.ggml.model", std::string_view("gpt2"));
    set("tokenizer.ggml.pre", std::string_view("gpt-2"));
    set("tokenizer.ggml.tokens", test::meta_strings({"a", "b", "c", "ab", "abc", "<|end|>"}));
    set("tokenizer.ggml.token_type", test::meta_integers({1, 1, 1, 1, 1, 3}));
    set("tokenizer.ggml.merges", test::meta_strings({"a b", "ab c"}));
    set("tokenizer.ggml.eos_token_id", std::uint64_t{5});
  }
  // SentencePiece BPE with all byte tokens.
  static Gguf spm() {
    Gguf gguf;
    static const std::vector<std::string> kBytes = [] {
      std::vector<std::string> texts;
      for (int byte = 0; byte < 256; ++byte) {
        std::string text = "<0x00>";
        text[3] = "0123456789ABCDEF"[byte >> 4];
        text[4] = "0123456789ABCDEF"[byte & 15];
        texts.push_back(text);
      }
      return texts;
    }();
    std::vector<std::string_view> tokens = {"<unk>", "<s>", "</s>", "a", "b", "ab"};
    std::vector<std::int64_t> types = {2, 3, 3, 1, 1, 1};
    std::vector<float> scores = {0, 0, 0, -1, -2, -3};
    for (const std::string& text : kBytes) {
      tokens.emplace_back(text);
      types.push_back(6);
      scores.push_back(0);
    }
    gguf.set("tokenizer.ggml.model", std::string_view("llama"));
    gguf.set("tokenizer.ggml.tokens", test::meta_strings(tokens));
    gguf.set("tokenizer.ggml.token_type", test::meta_integers(types));
    gguf.set("tokenizer.ggml.scores", test::meta_floats(scores));
    gguf.drop("tokenizer.ggml.merges");
    gguf.drop("tokenizer.ggml.eos_token_id");
    return gguf;
  }

  Gguf& set(const std::string& key, MetaValue value) {
    values_.insert_or_assign(key, std::move(value));
    return *this;
  }
  Gguf& drop(const std::string& key) {
    values_.erase(key);
    return *this;
  }
  template <class Edit>
  Gguf& edit(const std::string& key, Edit change) {
    change(std::get<MetaArray>(values_.at(key)));
    return *this;
  }

  Result<std::shared_ptr<const Tokenizer>> load() const {
    Metadata metadata;
    for (const auto& [key, value] : values_) metadata.insert(key, value);
    auto spec = spec_from_gguf(metadata);
    if (!spec) return std::unexpected(spec.error());
    return build_tokenizer(std::move(*spec));
  }
  // Expects a refusal of one line that holds `part`.
  void expect_refused(std::string_view kind, const std::string& part) const {
    const auto tokenizer = load();
    ASSERT_FALSE(tokenizer) << part;
    EXPECT_EQ(tokenizer.error().kind, kind) << tokenizer.error().message;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(part));
    EXPECT_EQ(tokenizer.error().message.find('\n'), std::string::npos);
    EXPECT_LE(tokenizer.error().message.size(), 1024U);
  }

 private:
  std::map<std::string, MetaValue> values_;
};

const std::string kTokens = "tokenizer.ggml.tokens";
const std::string kTypes = "tokenizer.ggml.token_type";
const std::string kScores = "tokenizer.ggml.scores";
const std::string kMerges = "tokenizer.ggml.merges";

TEST(HostileVocabulary, TheSmallOnesWork) {
  const auto bpe = Gguf().load();
  ASSERT_TRUE(bpe) << bpe.error().message;
  EXPECT_THAT((*bpe)->encode("abcab", {}), ElementsAre(4, 3));
  EXPECT_THAT((*bpe)->encode("<|end|>", {.parse_special = true}), ElementsAre(5));
  EXPECT_THAT((*bpe)->special().end_of_generation, ElementsAre(5));
  const auto spm = Gguf::spm().load();
  ASSERT_TRUE(spm) << spm.error().message;
  EXPECT_THAT((*spm)->encode("z", {}), ElementsAre(6 + 0xE2, 6 + 0x96, 6 + 0x81, 6 + 'z'));
  EXPECT_THAT((*spm)->encode("a", {.add_special = true}).front(), 1);
}

TEST(HostileVocabulary, NumberOfTokens) {
  Gguf().drop(kTokens).expect_refused("E_META", "tokenizer.ggml.tokens");
  Gguf().set(kTokens, test::meta_integers({1, 2})).expect_refused("E_META", kTokens);
  Gguf()
      .set(kTokens, test::meta_strings({}))
      .drop(kTypes)
      .drop("tokenizer.ggml.eos_token_id")
      .expect_refused("E_TOKENIZER", "0 tokens");
  Gguf()
      .set(kTokens, test::meta_strings({"a"}))
      .drop(kTypes)
      .drop("tokenizer.ggml.eos_token_id")
      .expect_refused("E_TOKENIZER", "1 tokens");
  Gguf()
      .set(kTokens, test::meta_strings(std::vector<std::string_view>((1U << 20) + 1, "a")))
      .drop(kTypes)
      .expect_refused("E_TOKENIZER", "1048576");
}

TEST(HostileVocabulary, LengthsThatDiffer) {
  Gguf()
      .edit(kTypes, [](MetaArray& a) { a.integers.pop_back(); })
      .expect_refused("E_TOKENIZER", "token_type has 5");
  Gguf::spm()
      .edit(kScores, [](MetaArray& a) { a.floats.push_back(0); })
      .expect_refused("E_TOKENIZER", "scores has 263");
  Gguf::spm().drop(kScores).expect_refused("E_TOKENIZER", "0 scores");
  Gguf()
      .edit(kTypes, [](MetaArray& a) { a.integers[1] = 7; })
      .expect_refused("E_TOKENIZER", "type 7");
}

TEST(HostileVocabulary, EqualTextsAreTheLowestId) {
  const auto tokenizer =
      Gguf().set(kTokens, test::meta_strings({"a", "b", "a", "ab", "ab", "<|end|>"})).load();
  ASSERT_TRUE(tokenizer);
  EXPECT_THAT((*tokenizer)->encode("ab", {}), ElementsAre(3));
  EXPECT_EQ((*tokenizer)->find("a"), 0);
}

TEST(HostileVocabulary, OddTexts) {
  const std::string huge((64U << 10) + 1, 'x');
  Gguf()
      .edit(kTokens, [&](MetaArray& a) { a.strings[2] = huge; })
      .expect_refused("E_TOKENIZER", "token 2 has 65537 bytes");
  const auto tokenizer = Gguf()
                             .edit(kTokens,
                                   [&](MetaArray& a) {
                                     a.strings[1] = std::string_view("\0", 1);
                                     a.strings[2] = "\xFF\xC0";
                                     a.strings[4] = "";
                                     a.strings[3] = std::string_view(huge).substr(1);
                                   })
                             .load();
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->piece(2), "\xFF\xC0");
  EXPECT_EQ((*tokenizer)->piece(4), "");
  EXPECT_THAT((*tokenizer)->encode("a", {}), ElementsAre(0));
}

TEST(HostileVocabulary, ByteTokens) {
  for (const std::string_view text : {"<0x-1>", "<0xZZ>", "<0x1>", "<0x100>", "<0x0a>", ""}) {
    Gguf::spm()
        .edit(kTokens, [&](MetaArray& a) { a.strings[10] = text; })
        .expect_refused("E_TOKENIZER", "token 10 is marked as a byte");
  }
  Gguf::spm()
      .edit(kTypes, [](MetaArray& a) { a.integers.back() = 1; })
      .expect_refused("E_TOKENIZER", "255 byte tokens");
  Gguf::spm()
      .edit(kTokens, [](MetaArray& a) { a.strings[10] = a.strings[11]; })
      .expect_refused("E_TOKENIZER", "token 11 is the second");
}

TEST(HostileVocabulary, MergesThatCannotApply) {
  Gguf().set(kMerges, test::meta_strings({"a b", "abc"})).expect_refused("E_TOKENIZER", "merge 1");
  Gguf().drop(kMerges).expect_refused("E_TOKENIZER", "merges");
  Gguf()
      .set(kMerges, test::meta_strings(std::vector<std::string_view>((1U << 20) + 1, "a b")))
      .expect_refused("E_TOKENIZER", "1048576");
  TokenizerSpec spec;
  spec.tokens = {"a", "b", "ab", "abab"};
  spec.types.assign(4, TokenType::normal);
  spec.byte_level = true;
  // A part or a result that is no token, a pair twice, three parts.
  spec.merges = {{"x", "b"}, {"a", "x"},    {"b", "a"},  {"a", "b"},
                 {"a", "b"}, {"a", "b ab"}, {"ab", "ab"}};
  const Vocabulary vocabulary(spec);
  const BpeModel model(vocabulary);
  EXPECT_EQ(model.ignored_merges(), 5U);
  std::vector<TokenId> ids;
  model.encode("ababab", ids);
  EXPECT_THAT(ids, ElementsAre(3, 2));
}

// An added token that is half of a character leaves the other half to the expressions.
TEST(HostileVocabulary, ATokenThatCutsACharacter) {
  TokenizerSpec spec;
  spec.model = ModelKind::bpe;
  spec.byte_fallback = true;
  spec.tokens = {"a", "b", "\xA9", "\xE2\x82"};
  spec.types.assign(4, TokenType::normal);
  spec.scores.assign(4, 0.0F);
  for (const TokenId id : {2, 3}) {
    spec.added.push_back({.id = id, .content = spec.tokens[static_cast<std::size_t>(id)]});
  }
  PreTokenizerStep split{.kind = PreTokenizerStep::Kind::regex};
  split.behavior = SplitBehavior::isolated;
  split.pattern = R"(\w+a)";
  spec.pre_tokenizer.push_back(split);
  const auto tokenizer = build_tokenizer(std::move(spec));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto ids = (*tokenizer)->encode("a\xC3\xA9 ba\xE2\x82\xAC bab", {.parse_special = true});
  EXPECT_THAT(ids, testing::Contains(2));
  EXPECT_THAT(ids, testing::Contains(3));
}

TEST(HostileVocabulary, MergesInACircleEnd) {
  const auto tokenizer =
      Gguf()
          .set(kTokens, test::meta_strings({"a", "b", "ab", "aba", "bab", "<|end|>"}))
          .set(kMerges, test::meta_strings({"a b", "ab a", "b ab", "ab ab"}))
          .load();
  ASSERT_TRUE(tokenizer);
  const auto ids = (*tokenizer)->encode(std::string(10001, 'a') + std::string(5000, 'b'), {});
  EXPECT_LE(ids.size(), 15001U);
}

TEST(HostileVocabulary, Scores) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    Gguf::spm()
        .edit(kScores, [&](MetaArray& a) { a.floats[4] = bad; })
        .expect_refused("E_TOKENIZER", "score of token 4");
  }
  // All equal: leftmost first.
  const auto tokenizer =
      Gguf::spm().edit(kScores, [](MetaArray& a) { std::ranges::fill(a.floats, 0.0F); }).load();
  ASSERT_TRUE(tokenizer);
  EXPECT_THAT((*tokenizer)->encode("aab", {}), ElementsAre(6 + 0xE2, 6 + 0x96, 6 + 0x81, 3, 5));
}

TEST(HostileVocabulary, SpecialIds) {
  for (const std::string key : {"bos", "eos", "unknown", "padding", "eot"}) {
    const std::string full = "tokenizer.ggml." + key + "_token_id";
    Gguf().set(full, std::uint64_t{6}).expect_refused("E_TOKENIZER", full);
    Gguf().set(full, std::uint64_t{0xFFFFFFFF}).expect_refused("E_TOKENIZER", full);
    Gguf().set(full, std::int64_t{-1}).expect_refused("E_META", full);
    Gguf().set(full, std::string_view("5")).expect_refused("E_META", full);
    Gguf().set(full, 5.0).expect_refused("E_META", full);
  }
  const auto without = Gguf()
                           .drop("tokenizer.ggml.eos_token_id")
                           .edit(kTokens, [](MetaArray& a) { a.strings[5] = "<x>"; })
                           .load();
  ASSERT_TRUE(without);
  EXPECT_EQ((*without)->special().eos, kNoToken);
  EXPECT_TRUE((*without)->special().end_of_generation.empty());
}

TEST(HostileVocabulary, UnknownNames) {
  Gguf()
      .set("tokenizer.ggml.pre", std::string_view("no-such"))
      .expect_refused("E_PRETOKENIZER", "\"no-such\"");
  const std::string huge(10240, 'p');
  const auto long_name = Gguf().set("tokenizer.ggml.pre", std::string_view(huge)).load();
  ASSERT_FALSE(long_name);
  EXPECT_LE(long_name.error().message.size(), 1024U);
  Gguf().drop("tokenizer.ggml.pre").expect_refused("E_PRETOKENIZER", "names no pre-tokenizer");
  Gguf()
      .set("tokenizer.ggml.model", std::string_view("rwkv\n"))
      .expect_refused("E_TOKENIZER", "\"rwkv?\"");
  Gguf().drop("tokenizer.ggml.model").expect_refused("E_META", "tokenizer.ggml.model");
}

TEST(HostileVocabulary, ContentNeverBecomesAControlToken) {
  // The control token's text could be put together by merges: they do not count.
  const auto tokenizer = Gguf()
                             .set(kTokens, test::meta_strings({"a", "b", "c", "ab", "abc", "xx"}))
                             .set(kTypes, test::meta_integers({1, 1, 1, 1, 3, 1}))
                             .load();
  ASSERT_TRUE(tokenizer);
  EXPECT_THAT((*tokenizer)->encode("abc", {}), ElementsAre(3, 2));
  EXPECT_THAT((*tokenizer)->encode("abc", {.parse_special = true}), ElementsAre(4));
  EXPECT_EQ((*tokenizer)->decode(std::vector<TokenId>{4, 0, -5, 99}, false), "a");
}

TEST(HostileJson, IsRefusedWithOneSentence) {
  const auto refused = [](std::string_view text, std::string_view kind, const std::string& part) {
    auto spec = spec_from_json(text, "", "");
    Error error{"none", ""};
    if (!spec) {
      error = spec.error();
    } else if (auto tokenizer = build_tokenizer(std::move(*spec)); !tokenizer) {
      error = tokenizer.error();
    }
    EXPECT_EQ(error.kind, kind) << text;
    EXPECT_THAT(error.message, HasSubstr(part));
  };
  refused("", "E_TOKENIZER", "byte");
  refused("[1]", "E_TOKENIZER", "not an object");
  refused("{\"model\": {\"vocab\": {\"a\": 0", "E_TOKENIZER", "byte");
  refused(std::string(100000, '['), "E_TOKENIZER", "64 levels");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": -1}}})", "E_TOKENIZER", "id");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 1048576}}})", "E_TOKENIZER", "id");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 1e300}}})", "E_TOKENIZER", "id");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}}})", "E_TOKENIZER", "two tokens");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": "x"}}})", "E_TOKENIZER", "id");
  refused(R"({"model": {"type": "BPE", "vocab": [["a", 1], ["b"]]}})", "E_TOKENIZER", "pair");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["ab"]}})",
          "E_TOKENIZER", "merge 0");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a"]]}})",
          "E_TOKENIZER", "pair");
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b", "c"]]}})",
          "E_TOKENIZER", "two parts");
  refused(R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})", "E_TOKENIZER", "WordLevel");
  refused(R"({"model": {"type": "Unigram", "unk_id": 9, "vocab": [["a", 0], ["b", 0]]}})",
          "E_TOKENIZER", "unk_id");
  const std::string model = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []})";
  refused(model + R"(, "added_tokens": [{"id": 4000000000, "content": "x"}]})", "E_TOKENIZER",
          "added");
  refused(model + R"(, "normalizer": {"type": "Odd"}})", "E_TOKENIZER", "Odd");
  refused(model + R"(, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "????"}})",
          "E_TOKENIZER", "base64");
  refused(model + R"(, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}})",
          "E_TOKENIZER", "character map");
  refused(model + R"(, "pre_tokenizer": {"type": "UnicodeScripts"}})", "E_PRETOKENIZER", "Unicode");
  refused(model + R"(, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("},
                      "behavior": "Isolated"}})",
          "E_PRETOKENIZER", "compile");
  refused(model + R"(, "post_processor": {"type": "TemplateProcessing",
                      "single": [{"SpecialToken": {"id": "<s>"}}],
                      "special_tokens": {"<s>": {"ids": [7]}}}})",
          "E_TOKENIZER", "token 7");
}

}  // namespace
}  // namespace orrery::text
