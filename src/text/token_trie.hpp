// The bytes of all tokens as one tree, so that what many tokens begin with is looked at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.hpp"

namespace orrery::text {

// A tree over byte strings, laid out depth first: a subtree is a range.
class TokenTree {
 public:
  struct Node {
    std::uint32_t end = 0;    // of the subtree
    std::uint32_t first = 0;  // of tokens(), those that end here
    std::uint32_t count = 0;
    std::uint16_t depth = 0;  // bytes from the root
    std::uint8_t byte = 0;
  };
  struct Entry {
    std::string_view text;
    TokenId id = kNoToken;
  };
  static constexpr std::size_t kMaxDepth = 1024;

  // Node 0 is the root. Texts of more than kMaxDepth bytes are left out.
  TokenTree() : nodes_(1, Node{.end = 1}) {}
  explicit TokenTree(std::vector<Entry> entries);

  const std::vector<Node>& nodes() const { return nodes_; }
  std::span<const TokenId> tokens(const Node& node) const {
    return std::span(tokens_).subspan(node.first, node.count);
  }
  // Those of a whole subtree: they lie beside each other too.
  std::span<const TokenId> tokens_under(std::uint32_t node) const;
  bool empty() const { return tokens_.empty(); }
  std::size_t memory_bytes() const {
    return nodes_.size() * sizeof(Node) + tokens_.size() * sizeof(TokenId);
  }

 private:
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
};

// A vocabulary as grammars see it.
class TokenTrie {
 public:
  explicit TokenTrie(std::shared_ptr<const Tokenizer> owner);

  const TokenTree& tree() const { return tree_; }
  // A token's bytes; a special one has kSpecialByte before its text. Empty: never allowed.
  std::string_view text(TokenId id) const { return texts_[static_cast<std::size_t>(id)]; }
  bool is_end(TokenId id) const;
  std::span<const TokenId> ends() const { return ends_; }
  std::size_t size() const { return texts_.size(); }
  std::size_t words() const { return (texts_.size() + 31) / 32; }
  std::size_t longest() const { return longest_; }  // bytes

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;  // owns the texts of the others
  std::string special_;                         // the bytes of all special tokens
  std::vector<std::string_view> texts_;
  std::vector<TokenId> ends_;  // ascending
  TokenTree tree_;
  std::size_t longest_ = 0;
};

}  // namespace orrery::text
