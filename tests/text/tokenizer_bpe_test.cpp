#include <gmock/gmock.h>

#include <random>

#include "support/cpu_clock.hpp"
#include "support/sanitized.hpp"
#include "text/bpe.hpp"
#include "text/token_map.hpp"
#include "text/vocabulary_support.hpp"

namespace orrery::text {
namespace {

// The definition, word for word: the lowest rank, leftmost, until there is none.
std::vector<TokenId> merge_naively(const PairMap& pairs, std::vector<TokenId> symbols) {
  while (true) {
    PairMap::Value best;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto value = pairs.find(symbols[i], symbols[i + 1]);
      if (value.rank < best.rank) {
        best = value;
        at = i;
      }
    }
    if (best.rank == PairMap::kNoRank) return symbols;
    symbols[at] = best.result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(MergeSymbols, EqualsTheDefinitionForAnyTable) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    PairMap pairs(40);
    for (std::uint32_t rank = 0; rank < 40; ++rank) {
      const auto id = [&] { return static_cast<TokenId>(random() % 12); };
      const TokenId left = id(), right = id();
      // Results may equal a part: a merge shortens the list all the same, so that it ends.
      pairs.insert(left, right, {rank, id()});
    }
    std::vector<TokenId> symbols(random() % 120);
    for (TokenId& symbol : symbols) symbol = static_cast<TokenId>(random() % 12);
    auto merged = symbols;
    merge_symbols(pairs, merged);
    ASSERT_EQ(merged, merge_naively(pairs, symbols));
  }
}

TEST(TokenMap, FindsEveryTextAndTheLowestOfEqualIds) {
  std::vector<std::string> texts;
  for (int i = 0; i < 5000; ++i) texts.push_back(std::to_string(i * 7919 % 10007));
  texts.push_back(texts[17]);
  std::vector<std::string_view> views(texts.begin(), texts.end());
  views.push_back("");
  const TokenMap map(views);
  for (std::size_t i = 0; i < 5000; ++i) ASSERT_EQ(map.find(texts[i]), static_cast<TokenId>(i));
  EXPECT_EQ(map.find(texts.back()), 17);
  EXPECT_EQ(map.find(""), kNoToken);
  EXPECT_EQ(map.find("t"), kNoToken);
  EXPECT_EQ(TokenMap().find("1"), kNoToken);
}

TEST(ByteTrie, WalksToTheIdsOfPrefixes) {
  ByteTrie trie;
  trie.insert("ab", 1);
  trie.insert("abc", 2);
  trie.insert("ab", 3);
  std::uint32_t node = trie.child(ByteTrie::kRoot, 'a');
  ASSERT_NE(node, ByteTrie::kNone);
  EXPECT_EQ(trie.value(node), kNoToken);
  node = trie.child(node, 'b');
  EXPECT_EQ(trie.value(node), 1);
  EXPECT_EQ(trie.value(trie.child(node, 'c')), 2);
  EXPECT_EQ(trie.child(node, 'd'), ByteTrie::kNone);
}

// Cut texts give the tokens of whole ones: merges never need what lies on both sides of a cut.
TEST(SpaceCuts, ChangeNoToken) {
  const std::string space = "\xE2\x96\x81";
  std::mt19937 random(13);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> texts = {"a", "b", space};
    while (texts.size() < 14) {
      texts.push_back(texts[random() % texts.size()] + texts[random() % texts.size()]);
    }
    TokenizerSpec spec;
    spec.tokens.assign(texts.begin(), texts.end());
    spec.types.assign(texts.size(), TokenType::normal);
    const Vocabulary vocabulary(spec);
    PairMap pairs(200);
    for (std::uint32_t rank = 0; rank < 200; ++rank) {
      const TokenId left = vocabulary.find(texts[random() % texts.size()]);  // the lowest of equals
      const TokenId right = vocabulary.find(texts[random() % texts.size()]);
      const TokenId joined = vocabulary.find(texts[left] + texts[right]);
      if (joined == kNoToken) continue;
      pairs.insert(left, right, {rank, joined});
      spec.merges.push_back({spec.tokens[left], spec.tokens[right]});
    }
    const BpeModel model(vocabulary);
    std::string text;
    std::vector<TokenId> whole, cut;
    for (int i = 0; i < 60; ++i) {
      whole.push_back(static_cast<TokenId>(random() % 3));
      text += texts[whole.back()];
    }
    model.encode(text, cut);
    // The model takes the first of equal pairs and so does the table.
    ASSERT_EQ(cut, merge_naively(pairs, whole)) << text;
  }
}

// A megabyte of one character is the worst word there is.
TEST(Encoding, TakesRepeatedCharactersInItsStride) {
  for (const std::string name : {"gpt-2", "qwen2", "llama-spm", "gemma-4"}) {
    const std::string path = test::shared_data() + "/tokenizers/ggml-vocab-" + name + ".gguf";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
    const auto tokenizer = test::load_gguf(path);
    ASSERT_NE(tokenizer, nullptr);
    for (const char c : {'a', ' ', '1'}) {
      const std::string text(::orrery::test::kSanitized ? 200'000 : 1'000'000, c);
      const ::orrery::test::CpuClock clock;  // linear or quadratic, whatever else the machine does
      const auto ids = tokenizer->encode(text, {});
      const double milliseconds = clock.milliseconds();
      EXPECT_EQ(tokenizer->decode(ids, true), text) << name;
      EXPECT_LT(milliseconds, 10'000) << name << " '" << c << "'";
    }
  }
}

TEST(Encoding, GivesBackAnyBytes) {
  std::mt19937 random(11);
  for (const std::string name : {"gpt-2", "llama-bpe"}) {
    const std::string path = test::shared_data() + "/tokenizers/ggml-vocab-" + name + ".gguf";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
    const auto tokenizer = test::load_gguf(path);
    ASSERT_NE(tokenizer, nullptr);
    for (int i = 0; i < 500; ++i) {
      std::string text(random() % 60, ' ');
      for (char& c : text) c = static_cast<char>(random() % (i % 2 == 0 ? 256 : 128));
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text, {}), true), text) << name;
    }
  }
}

}  // namespace
}  // namespace orrery::text
