// Masks against what they stand for: every token of a vocabulary tried byte by byte.
#include "text/token_mask.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <ranges>
#include <set>

#include "text/grammar_gbnf.hpp"
#include "text/grammar_regex.hpp"
#include "text/grammar_support.hpp"
#include "text/json_schema.hpp"

namespace orrery::text {
namespace {

// All bytes and thousands of pieces, so that the tree has large subtrees of each kind: words,
// characters of two to four bytes, whole and cut, blanks, digits, punctuation.
std::shared_ptr<const Tokenizer> wide_tokenizer() {
  std::mt19937 random(5);
  const std::vector<std::string> parts = {"a",
                                          "b",
                                          "c",
                                          "x",
                                          "e",
                                          "E",
                                          "1",
                                          "2",
                                          "0",
                                          " ",
                                          "  ",
                                          "\"",
                                          "\\",
                                          "\n",
                                          "{",
                                          "}",
                                          ",",
                                          ":",
                                          "-",
                                          ".",
                                          "<",
                                          "\xC3\xA9",
                                          "_",
                                          "\t",
                                          "\x7F",
                                          "/",
                                          "\xC3",
                                          "n",
                                          "\xA9",
                                          "[",
                                          "]",
                                          "\xE4\xB8\xAD",
                                          "u0",
                                          "\x01",
                                          "(",
                                          ")",
                                          "\xF0\x9F\x98\x80",
                                          "\xE4\xB8",
                                          "\xED\x9F\xBF",
                                          "\xEE\x80\x80"};
  std::set<std::string> pieces;
  for (int length = 2; length <= 12; ++length) {
    for (int i = 0; i < 150; ++i) {
      // Mostly words, as a vocabulary has them.
      const std::size_t kinds = random() % 3 == 0 ? parts.size() : 4 + random() % 8;
      std::string piece;
      for (int k = 0; k < length; ++k) piece += parts[random() % kinds];
      pieces.insert(piece);
    }
  }
  pieces.insert(std::string(300, 'a'));
  pieces.insert(std::string(260, ' '));
  return std::make_shared<const test::PieceTokenizer>(
      std::vector<std::string>(pieces.begin(), pieces.end()));
}

GrammarProgram compiled(char kind, std::string_view source) {
  GrammarRules rules;
  Result<RuleId> root = fail("E_TEST", "");
  if (kind == 'g') root = parse_gbnf(source, rules);
  if (kind == 's') root = schema_rules(Json::parse(source), rules);
  if (kind == 'r') {
    root = rules.declare("r");
    rules.define(*root, parse_regex(source, rules, {}).value());
  }
  EXPECT_TRUE(root) << source;
  return compile_rules(rules, *root).value();
}

struct Case {
  char kind;
  const char* source;
};

constexpr Case kCases[] = {
    {'s', R"({"type":"object"})"},
    {'s', R"({"type":"array","items":{"type":"string","minLength":4,"maxLength":9}})"},
    {'s', R"({"type":"string","maxLength":270})"},
    {'s', R"({"type":"string","minLength":305,"maxLength":310})"},
    {'s', R"({"type":"string","minLength":3})"},
    {'s', R"({"type":"string","minLength":10,"maxLength":120})"},
    {'s', R"({"type":"string","minLength":7,"maxLength":8})"},
    {'s', R"({"type":"object","properties":{"ab":{"type":"string","pattern":"^[a-c ]{2,7}$"},
        "c":{"type":"number"}},"additionalProperties":{"type":"integer"}})"},
    {'r', "[a-cx ]*"},
    {'r', "[^b]{0,12}b"},
    {'r', "([a-c]+ ){2,5}x"},
    {'r', "([a-c]* ?){3,6}[x\\d]*"},
    {'r', "(\\w{2,4}|[a-c]{1,9})+"},
    {'r', ".{3,5}"},
    {'r', "(a|aa|[ab]{3})*c"},
    {'g', "root ::= word (\" \" word)*\nword ::= [a-cx]+ | \"(\" root \")\""},
    {'g', "root ::= [a-c]{2,6} tail | [a-x]{4} \"1\"\ntail ::= [ a-c]* \"\\n\""},
    {'g', "root ::= .* \"<\" [^<]*"},
    {'g', "root ::= (\"a\"? [bc]{0,3}){4} \"x\""},
    {'g', "root ::= pair{1,3}\npair ::= [ab]{2,8} | \"a\" pair"}};

// Asked with every text of a few characters: each length that a bound can cut.
constexpr Case kBounds[] = {{'s', R"({"type":"string","minLength":3,"maxLength":9})"},
                            {'s', R"({"type":"string","minLength":7})"},
                            {'s', R"({"type":"string","minLength":18,"maxLength":37})"},
                            {'r', "[^\"]{4,7}"},
                            {'r', "[^1]{9}"},
                            {'r', "[^1]{5,21}g?"},
                            {'r', "[a-f]{3}[a-z]*1"},
                            {'r', "[a-z]{2}[a-f]{2,3}[a-z]{0,2}1"},
                            {'r', "[a-z]{2,4}([a-f]{1,3}1)*"},
                            {'r', "([^1]{4,9}|[^g]{3,7}|[a-z]{8,20}1)a"},
                            {'r', "([a-z]{1,3}|1{2,4}){2,3}"},
                            {'r', "[a-z]{4,}\"[^a]{6}a*"},
                            {'g', "root ::= \"1\" item \"1\" item\nitem ::= [^1]{5,12}"},
                            {'g', "root ::= item{2,3} \"g\"\nitem ::= [a-z]{3,6} | [^a]{4}"}};

void add_texts(std::span<const std::string_view> characters, int length,
               std::set<std::string>& texts) {
  std::vector<std::string> longest{""};
  for (; length > 0; --length) {
    std::vector<std::string> longer;
    for (const std::string& text : longest) {
      for (const std::string_view character : characters)
        longer.emplace_back(text).append(character);
    }
    texts.insert(longer.begin(), longer.end());
    longest = std::move(longer);
  }
}

// Large subtrees of one kind of characters each.
std::shared_ptr<const Tokenizer> dense_tokenizer() {
  constexpr std::string_view kAll[] = {"a", "g", "1", "\"", "\xC3\xA9"};
  constexpr std::string_view kLetters[] = {"a", "g"};
  constexpr std::string_view kWide[] = {"c", "\xC3\xA9"};
  std::set<std::string> texts;
  add_texts(kAll, 2, texts);
  add_texts(kLetters, 9, texts);
  add_texts(kWide, 8, texts);
  for (std::size_t length = 10; length <= 40; ++length) {
    texts.insert(std::string(length, 'a'));
    texts.insert(std::string(length, 'g') + '"');
  }
  return std::make_shared<const test::PieceTokenizer>(
      std::vector<std::string>(texts.begin(), texts.end()));
}

void expect_masks(const std::shared_ptr<const Tokenizer>& tokenizer, std::span<const Case> cases) {
  const auto trie = std::make_shared<const TokenTrie>(tokenizer);
  std::mt19937 random(11);
  for (const Case& test : cases) {
    const auto program = std::make_shared<const GrammarProgram>(compiled(test.kind, test.source));
    TokenMasks masks(program, trie);
    TokenMasks plain(program, trie);  // asked for single tokens only
    std::vector<std::uint32_t> mask(trie->words());
    for (int walk = 0; walk < 3; ++walk) {
      StateId state = masks.machine().start();
      StateId other = plain.machine().start();
      for (int n = 0; n < 8 && state != GrammarMachine::kDead; ++n) {
        masks.allowed(state, mask);
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < tokenizer->vocab_size(); ++id) {
          if (trie->is_end(id)) continue;
          const bool fits = plain.after(other, id) != GrammarMachine::kDead;
          ASSERT_EQ(test::allows(mask, id), fits)
              << test.source << ": " << testing::PrintToString(std::string(trie->text(id)))
              << " after " << n << " tokens of walk " << walk;
          if (fits) allowed.push_back(id);
        }
        if (allowed.empty()) break;
        const TokenId next = allowed[random() % allowed.size()];
        state = masks.after(state, next);
        other = plain.after(other, next);
      }
    }
  }
}

TEST(TokenMask, IsWhatTheTokensAre) {
  expect_masks(wide_tokenizer(), kCases);
}

TEST(TokenMask, CutsAtBounds) {
  expect_masks(dense_tokenizer(), kBounds);
}

TEST(TokenMask, SubtreesKnowWhatTheirTextsHold) {
  const auto trie = TokenTrie(wide_tokenizer());
  std::vector<TextClasses> behind(TokenTree::kMaxDepth + 1);
  std::size_t tokens = 0;
  for (const TokenTree& tree : trie.trees()) {
    std::uint32_t longest = 0;
    for (std::uint32_t node = 0; node < tree.nodes().size(); ++node) {
      ByteClasses classes = 0, whole = 0;
      std::uint32_t characters = 0;
      for (const TokenId id : tree.tokens_under(node)) {
        classify(trie.text(id), behind);
        classes |= behind[tree.nodes()[node].depth].classes;
        whole |= behind[0].classes;
        characters = std::max(characters, behind[tree.nodes()[node].depth].characters);
      }
      EXPECT_EQ(tree.nodes()[node].classes, classes);
      EXPECT_EQ(tree.whole_classes(node), whole);
      EXPECT_EQ(tree.nodes()[node].characters, std::min(characters, 255U));
      longest = std::max(longest, characters);
    }
    EXPECT_EQ(tree.longest(), longest);
    tokens += tree.tokens_under(0).size();
  }
  EXPECT_LE(trie.trees()[0].longest(), 16U);
  EXPECT_EQ(trie.trees().back().longest(), 300U);
  const auto with_text = [&](std::size_t id) {
    return !trie.text(static_cast<TokenId>(id)).empty();
  };
  EXPECT_EQ(tokens, std::ranges::count_if(std::views::iota(0U, trie.size()), with_text));
}

}  // namespace
}  // namespace orrery::text
