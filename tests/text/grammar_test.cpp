// Grammars and patterns: which texts they let through, and what hostile ones cost.
#include "text/grammar.hpp"

#include <gtest/gtest.h>

#include "text/grammar_support.hpp"

namespace orrery::text {
namespace {

using test::accepts;

Grammars& grammars() {
  static Grammars kGrammars(test::piece_tokenizer());
  return kGrammars;
}

bool gbnf_accepts(std::string_view grammar, std::string_view text) {
  const auto source = grammars().gbnf(grammar);
  EXPECT_TRUE(source) << grammar << ": " << (source ? "" : source.error().message);
  return source && accepts(**source, text);
}

std::string gbnf_error(std::string_view grammar) {
  const auto source = grammars().gbnf(grammar);
  return source ? "" : std::string(source.error().kind) + " " + source.error().message;
}

bool regex_accepts(std::string_view pattern, std::string_view text) {
  const auto source = grammars().regex(pattern);
  EXPECT_TRUE(source) << pattern << ": " << (source ? "" : source.error().message);
  return source && accepts(**source, text);
}

TEST(Gbnf, SequencesChoicesAndRules) {
  const char* const kGrammar =
      "root ::= greeting \", \" name # a comment\n"
      "greeting ::= \"hello\" |\n  \"bye\"\n"
      "name ::= [A-Z] [a-z]*\n";
  EXPECT_TRUE(gbnf_accepts(kGrammar, "hello, Ab"));
  EXPECT_TRUE(gbnf_accepts(kGrammar, "bye, X"));
  EXPECT_FALSE(gbnf_accepts(kGrammar, "bye, x"));
  EXPECT_FALSE(gbnf_accepts(kGrammar, "bye, "));
}

TEST(Gbnf, RepetitionsAreCounted) {
  EXPECT_TRUE(gbnf_accepts("root ::= \"a\"{3}", "aaa"));
  EXPECT_FALSE(gbnf_accepts("root ::= \"a\"{3}", "aa"));
  EXPECT_FALSE(gbnf_accepts("root ::= \"a\"{3}", "aaaa"));
  EXPECT_TRUE(gbnf_accepts("root ::= \"a\"{2,}", "aaaaaaaaa"));
  EXPECT_FALSE(gbnf_accepts("root ::= \"a\"{2,}", "a"));
  EXPECT_TRUE(gbnf_accepts("root ::= (\"a\" | \"b\"){0,2} \"c\"", "bac"));
  EXPECT_FALSE(gbnf_accepts("root ::= (\"a\" | \"b\"){0,2} \"c\"", "babc"));
  // Counted within counted: each has its own count.
  EXPECT_TRUE(gbnf_accepts("root ::= (\"a\"{2,3} \"b\"){2}", "aabaaab"));
  EXPECT_FALSE(gbnf_accepts("root ::= (\"a\"{2,3} \"b\"){2}", "aabab"));
  EXPECT_FALSE(gbnf_accepts("root ::= (\"a\"{2,3} \"b\"){2}", "aab"));
}

TEST(Gbnf, WhatStandsBehindACountIsNoBeginning) {
  EXPECT_TRUE(gbnf_accepts("root ::= [bc]{2,4} root | \"a\"", "bcbcba"));
  EXPECT_FALSE(gbnf_accepts("root ::= [bc]{2,4} root | \"a\"", "ba"));
  EXPECT_NE(gbnf_error("root ::= [bc]{0,4} root | \"a\""), "");
}

TEST(Gbnf, ATokenMayCrossManyCounts) {
  const std::string many(1000, 'a');
  EXPECT_TRUE(gbnf_accepts("root ::= \"a\"{1000}", many));
  EXPECT_FALSE(gbnf_accepts("root ::= \"a\"{1001}", many));
  EXPECT_FALSE(gbnf_accepts("root ::= \"a\"{0,999}", many));
  EXPECT_TRUE(gbnf_accepts("root ::= \"a\"{1000000} | \"b\"", "b"));
}

TEST(Gbnf, CharactersAreUtf8) {
  EXPECT_TRUE(gbnf_accepts("root ::= [\\u00e0-\\u00ff]+", "\xC3\xA9\xC3\xA8"));
  EXPECT_FALSE(gbnf_accepts("root ::= [\\u00e0-\\u00ff]+", "\xC3"));
  EXPECT_TRUE(gbnf_accepts("root ::= .", "\xF0\x9F\x98\x80"));
  EXPECT_FALSE(gbnf_accepts("root ::= [^a]", "a"));
  EXPECT_TRUE(gbnf_accepts("root ::= [^a]", "\xE4\xB8\xAD"));
  EXPECT_TRUE(gbnf_accepts("root ::= \"\\x41\\U0001F600\"", "A\xF0\x9F\x98\x80"));
  EXPECT_FALSE(gbnf_accepts("root ::= .", "\xED\xA0\x80"));  // a surrogate
}

TEST(Gbnf, RecursionAndAmbiguity) {
  const char* const kNested = "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"";
  std::string deep = std::string(300, 'a');
  for (int i = 0; i < 300; ++i) deep += i % 3 == 0 ? 'b' : 'c';
  EXPECT_TRUE(gbnf_accepts(kNested, deep));
  EXPECT_FALSE(gbnf_accepts(kNested, deep + 'b'));
  EXPECT_FALSE(gbnf_accepts(kNested, deep.substr(0, deep.size() - 1)));
  EXPECT_TRUE(gbnf_accepts("root ::= \"a\" root | \"a\"", std::string(5000, 'a')));
}

TEST(Gbnf, RepetitionsOfNothing) {
  for (const char* grammar :
       {"root ::= (\"a\"*)*", "root ::= (\"\" | \"a\")*", "root ::= (\"a\"*){0,1000000}",
        "root ::= (\"a\"*){3,7}", "root ::= e* \"\"\ne ::= (\"a\" | \"\")+"}) {
    EXPECT_TRUE(gbnf_accepts(grammar, "")) << grammar;
    EXPECT_TRUE(gbnf_accepts(grammar, "aaaaa")) << grammar;
    EXPECT_FALSE(gbnf_accepts(grammar, "aab")) << grammar;
  }
  EXPECT_FALSE(gbnf_accepts("root ::= (\"a\"?){2}", "aaa"));
  EXPECT_TRUE(gbnf_accepts("root ::= (\"a\"? x){2}\nx ::= \"b\"?", "ba"));
  EXPECT_FALSE(gbnf_accepts("root ::= (\"a\"? x){2}\nx ::= \"b\"?",
                            "bab"
                            "b"));
}

TEST(Gbnf, WrongGrammarsSayWhere) {
  const auto has = [](const std::string& error, const char* part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  has(gbnf_error("root ::= a\n"), "E_GRAMMAR line 1: rule \"a\" is used but not defined");
  has(gbnf_error("a ::= \"x\"\n"), "no rule named root");
  has(gbnf_error("root ::= \"x\"\nroot ::= \"y\"\n"), "line 2: \"root\" is defined twice");
  has(gbnf_error("root ::= \"x"), "not closed");
  has(gbnf_error("root ::= [a"), "not closed");
  has(gbnf_error("root ::= [z-a]"), "backwards");
  has(gbnf_error("root ::= [^\\x{110000}]"), "hexadecimal");
  has(gbnf_error("root ::= \"a\"{5,2}"), "minimum above its maximum");
  has(gbnf_error("root ::= \"a\"{-1}"), "repetition");
  has(gbnf_error("root ::= \"a\"{99999999999999}"), "repetition");
  has(gbnf_error("root ::= (\"a\""), "parenthesis");
  has(gbnf_error("root ::= \"a\" )"), "belongs to no rule");
  has(gbnf_error("root := \"a\""), "::=");
  has(gbnf_error(""), "no rule named root");
  has(gbnf_error("root ::= root \"a\" | \"a\""), "\"root\" begins with itself");
  has(gbnf_error("root ::= a\na ::= b\nb ::= a \"x\" | \"y\""), "begins with itself");
  has(gbnf_error("root ::= e root \"a\" | \"b\"\ne ::= \"\" | \"x\""), "begins with itself");
  has(gbnf_error("root ::= (root){2,3} | \"b\""), "begins with itself");
}

TEST(Gbnf, HostileGrammarsAreRefusedOrCheap) {
  EXPECT_TRUE(gbnf_error("root ::= " + std::string(60000, '(')).starts_with("E_LIMIT"));
  EXPECT_TRUE(gbnf_error("root ::= " + std::string(300000, 'a')).starts_with("E_LIMIT"));
  std::string chain;
  const auto chain_of = [](int n) {
    std::string text = "root ::= r0\n";
    for (int i = 0; i < n; ++i) {
      text += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
    }
    return text + "r" + std::to_string(n) + " ::= \"x\"\n";
  };
  EXPECT_TRUE(gbnf_accepts(chain_of(4000), "x"));
  EXPECT_TRUE(gbnf_error(chain_of(5000)).starts_with("E_LIMIT"));
  EXPECT_TRUE(gbnf_error("root ::= \"" + std::string(70000, 'x') + "\"").starts_with("E_LIMIT"));
}

TEST(Gbnf, DeadEndsAllowNothing) {
  const auto source =
      grammars().gbnf("root ::= \"a\" n | \"b\" x\nn ::= \"d\" e\ne ::= []\nx ::= \"c\" x");
  ASSERT_TRUE(source);
  const auto constraint = (*source)->start();
  ASSERT_TRUE(constraint->accept('a'));
  for (const std::uint32_t word : constraint->allowed()) EXPECT_EQ(word, 0U);
  EXPECT_FALSE(constraint->is_finished());
  // What never ends is no dead end.
  EXPECT_FALSE(accepts(**source, "bccc"));
}

TEST(Constraint, EndsOnce) {
  const auto source = grammars().gbnf("root ::= \"ab\"");
  ASSERT_TRUE(source);
  const auto constraint = (*source)->start();
  const auto& tokenizer = *test::piece_tokenizer();
  EXPECT_FALSE(constraint->accept(tokenizer.special().eos));
  EXPECT_FALSE(constraint->accept(-1));
  EXPECT_FALSE(constraint->accept(1 << 20));
  EXPECT_FALSE(constraint->accept(tokenizer.find("<s>")));
  EXPECT_TRUE(constraint->accept(tokenizer.find("ab")));
  EXPECT_TRUE(constraint->is_finished());
  EXPECT_TRUE(constraint->accept(tokenizer.special().eos));
  EXPECT_TRUE(constraint->is_finished());
  EXPECT_FALSE(constraint->accept(tokenizer.special().eos));
  for (const std::uint32_t word : constraint->allowed()) EXPECT_EQ(word, 0U);
}

TEST(Constraint, TextsOfOneSourceDoNotMeet) {
  const auto source = grammars().gbnf("root ::= \"a\"{2} \"b\"");
  ASSERT_TRUE(source);
  const auto one = (*source)->start();
  const auto two = (*source)->start();
  ASSERT_TRUE(one->accept('a'));
  ASSERT_TRUE(one->accept('a'));
  EXPECT_TRUE(test::allows(one->allowed(), 'b'));
  EXPECT_FALSE(test::allows(two->allowed(), 'b'));
}

TEST(Constraint, LongTextsStartTheirStatesOver) {
  // A stack a level: more states than a source keeps.
  const auto source = grammars().gbnf("root ::= \"(\" root \")\" root | [a-z]*");
  ASSERT_TRUE(source);
  const auto constraint = (*source)->start();
  for (int i = 0; i < 60000; ++i) ASSERT_TRUE(constraint->accept('('));
  for (int i = 0; i < 60000; ++i) ASSERT_TRUE(constraint->accept(')')) << i;
  EXPECT_FALSE(test::allows(constraint->allowed(), ')'));
  EXPECT_TRUE(test::allows(constraint->allowed(), test::piece_tokenizer()->special().eos));
}

TEST(Regex, MatchesTheWholeText) {
  EXPECT_TRUE(regex_accepts("[a-c]+\\d{2,3}", "abc123"));
  EXPECT_FALSE(regex_accepts("[a-c]+\\d{2,3}", "abc1"));
  EXPECT_TRUE(regex_accepts("^(?:foo|ba(r|z))$", "baz"));
  EXPECT_TRUE(regex_accepts("\\u00e9\\x41.",
                            "\xC3\xA9"
                            "A!"));
  EXPECT_FALSE(regex_accepts(".", "\n"));
  EXPECT_TRUE(regex_accepts("(?<year>\\d{4})-\\w*?", "2024-ab"));
  EXPECT_TRUE(regex_accepts("[\\w-]+", "a-b"));
  EXPECT_TRUE(regex_accepts("(a+)+", std::string(200, 'a')));
  EXPECT_FALSE(regex_accepts("(a+)+", std::string(200, 'a') + "b"));
  EXPECT_TRUE(regex_accepts("\\ud83d\\ude00", "\xF0\x9F\x98\x80"));
}

TEST(Regex, WhatIsNotSupportedIsRefused) {
  for (const char* pattern : {"^+[a-z]$", "^{2}x$", "(?<=x)*", "(?=a)",   "\\1",     "\\bx", "a**",
                              "a{2}{3}",  "(a",     "a)",      "[a",      "[z-a]",   "\\",   "a$b",
                              "b^",       "\\p{L}", "(?i)a",   "\\ud800", "[\\d-z]", "\xFF"}) {
    const auto source = grammars().regex(pattern);
    ASSERT_FALSE(source) << pattern;
    EXPECT_EQ(source.error().kind, "E_GRAMMAR") << pattern;
  }
  EXPECT_EQ(grammars().regex(std::string(5000, '(')).error().kind, "E_LIMIT");
}

TEST(Grammars, KeepsWhatItCompiledAndNotAll) {
  const auto first = grammars().gbnf("root ::= \"kept\"");
  EXPECT_EQ(*first, *grammars().gbnf("root ::= \"kept\""));
  std::weak_ptr<const ConstraintSource> watched = *grammars().gbnf("root ::= \"watched\"");
  EXPECT_FALSE(watched.expired());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(grammars().gbnf("root ::= \"" + std::to_string(i) + "\""));
  }
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace orrery::text
