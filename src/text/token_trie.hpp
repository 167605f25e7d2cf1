// The bytes of all tokens as one tree, so that what many tokens begin with is looked at once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/byte_classes.hpp"
#include "text/token_set.hpp"
#include "text/tokenizer.hpp"

namespace orrery::text {

// A tree over byte strings, laid out depth first: a subtree is a range, and so are its tokens.
class TokenTree {
 public:
  struct Node {
    std::uint32_t end = 0;        // of the subtree
    std::uint32_t first = 0;      // of tokens(): those that end here, then those further down
    ByteClasses classes = 0;      // what stands behind this node in the subtree's texts
    std::uint16_t depth = 0;      // bytes from the root
    std::uint8_t byte = 0;        // that leads here
    std::uint8_t characters = 0;  // behind this node, in the longest text, at most kMany
  };
  struct Entry {
    std::string_view text;
    TokenId id = kNoToken;
  };
  static constexpr std::size_t kMaxDepth = 1024;
  static constexpr std::uint8_t kMany = 255;  // characters, or more

  // Node 0 is the root. Texts of more than kMaxDepth bytes are left out.
  explicit TokenTree(std::vector<Entry> entries);

  // Without the mark behind the last one.
  std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
  // Those that end at a node.
  std::span<const TokenId> tokens(std::uint32_t node) const { return range(node, node + 1); }
  // Those of a whole subtree.
  std::span<const TokenId> tokens_under(std::uint32_t node) const {
    return range(node, nodes_[node].end);
  }
  // What stands in a subtree's texts from their beginning.
  ByteClasses whole_classes(std::uint32_t node) const { return whole_[node]; }
  std::uint32_t longest() const { return longest_; }  // characters

 private:
  std::span<const TokenId> range(std::uint32_t from, std::uint32_t to) const {
    return std::span(tokens_).subspan(nodes_[from].first, nodes_[to].first - nodes_[from].first);
  }

  std::vector<Node> nodes_;         // and one behind them
  std::vector<ByteClasses> whole_;  // of nodes_
  std::vector<TokenId> tokens_;
  std::uint32_t longest_ = 0;
};

// The tokens of a tree in subtrees that hold texts of some classes alone.
struct ClassTexts {
  TokenSet tokens;
  // The other nodes, ascending, and for each the index of the first one behind its subtree.
  std::vector<std::uint32_t> others, ends;
};

// A vocabulary as grammars see it.
class TokenTrie {
 public:
  explicit TokenTrie(std::shared_ptr<const Tokenizer> owner);

  // Of the tokens of up to 16 characters, of up to 32, and of the longer ones. What is allowed of
  // short ones is the same in more states: those that count notice a bound later.
  std::span<const TokenTree> trees() const { return trees_; }
  // Of trees()[tree]. Any thread may ask; what was found is kept for all grammars.
  std::shared_ptr<const ClassTexts> texts_of(std::size_t tree, ByteClasses classes) const;
  // A token's bytes; a special one has kSpecialByte before its text. Empty: never allowed.
  std::string_view text(TokenId id) const { return texts_[static_cast<std::size_t>(id)]; }
  bool is_end(TokenId id) const;
  std::span<const TokenId> ends() const { return ends_; }
  std::size_t size() const { return texts_.size(); }
  std::size_t words() const { return (texts_.size() + 31) / 32; }

 private:
  std::vector<TokenTree> make_trees();

  std::shared_ptr<const Tokenizer> tokenizer_;  // owns the texts of the others
  std::string special_;                         // the bytes of all special tokens
  std::vector<std::string_view> texts_;
  std::vector<TokenId> ends_;  // ascending
  std::vector<TokenTree> trees_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::size_t, ByteClasses>, std::shared_ptr<const ClassTexts>>
      class_texts_;  // guarded by mutex_
};

}  // namespace orrery::text
