#include "text/token_trie.hpp"

#include <algorithm>
#include <utility>

#include "text/grammar_rules.hpp"

namespace orrery::text {
namespace {

// Characters of the longest token of a tree.
constexpr std::uint32_t kLengths[] = {16, 32, TokenTree::kMaxDepth};
// Sets of classes that are kept: grammars need few.
constexpr std::size_t kMaxClassTexts = 64;

ClassTexts find_texts(const TokenTree& tree, ByteClasses classes, std::size_t words) {
  const auto nodes = tree.nodes();
  ClassTexts found;
  std::vector<std::uint32_t> bits(words);
  std::vector<std::uint32_t> open;  // indices of others whose subtrees go on
  const auto close = [&](std::size_t node) {
    for (; !open.empty() && nodes[found.others[open.back()]].end <= node; open.pop_back()) {
      found.ends[open.back()] = static_cast<std::uint32_t>(found.others.size());
    }
  };
  for (std::uint32_t i = 0; i < nodes.size();) {
    if (i > 0 && (tree.whole_classes(i) & ~classes) == 0) {
      for (const TokenId id : tree.tokens_under(i)) set_token(bits, id);
      i = nodes[i].end;
      continue;
    }
    close(i);
    open.push_back(static_cast<std::uint32_t>(found.others.size()));
    found.others.push_back(i++);
    found.ends.push_back(0);
  }
  close(nodes.size());
  found.tokens = TokenSet(bits, tree.tokens_under(0));
  return found;
}

}  // namespace

TokenTree::TokenTree(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& entry) { return entry.text.size() > kMaxDepth; });
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    const int order = a.text.compare(b.text);
    return order != 0 ? order < 0 : a.id < b.id;
  });
  nodes_.push_back({});
  std::vector<std::uint32_t> path = {0};  // nodes from the root to the last text
  std::vector<TextClasses> behind(kMaxDepth + 1);
  std::string_view last;
  const auto close = [&](std::size_t depth) {
    while (path.size() > depth + 1) {
      nodes_[path.back()].end = static_cast<std::uint32_t>(nodes_.size());
      path.pop_back();
    }
  };
  for (const Entry& entry : entries) {
    const auto common = static_cast<std::size_t>(
        std::mismatch(last.begin(), last.end(), entry.text.begin(), entry.text.end()).first -
        last.begin());
    close(common);
    for (std::size_t i = common; i < entry.text.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({.first = static_cast<std::uint32_t>(tokens_.size()),
                        .depth = static_cast<std::uint16_t>(i + 1),
                        .byte = static_cast<std::uint8_t>(entry.text[i])});
    }
    whole_.resize(nodes_.size());
    classify(entry.text, behind);
    longest_ = std::max(longest_, behind[0].characters);
    for (std::size_t i = 0; i < path.size(); ++i) {
      Node& node = nodes_[path[i]];
      node.classes |= behind[i].classes;
      whole_[path[i]] |= behind[0].classes;
      node.characters = static_cast<std::uint8_t>(
          std::clamp<std::uint32_t>(behind[i].characters, node.characters, kMany));
    }
    tokens_.push_back(entry.id);
    last = entry.text;
  }
  close(0);
  nodes_[0].end = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({.first = static_cast<std::uint32_t>(tokens_.size())});
}

TokenTrie::TokenTrie(std::shared_ptr<const Tokenizer> owner)
    : tokenizer_(std::move(owner)),
      ends_(tokenizer_->special().end_of_generation),
      trees_(make_trees()) {}

std::vector<TokenTree> TokenTrie::make_trees() {
  const Tokenizer& tokenizer = *tokenizer_;
  texts_.resize(static_cast<std::size_t>(std::max(0, tokenizer.vocab_size())));
  std::sort(ends_.begin(), ends_.end());
  std::erase_if(ends_, [&](TokenId id) { return id < 0 || id >= tokenizer.vocab_size(); });
  std::vector<std::pair<std::size_t, TokenId>> specials;  // where their bytes begin
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (is_end(id)) continue;
    if (tokenizer.is_special(id)) {
      specials.emplace_back(special_.size(), id);
      special_ += kSpecialByte;
      special_ += tokenizer.token_text(id);
    } else if (tokenizer.piece(id).find(kSpecialByte) == std::string_view::npos) {
      texts_[static_cast<std::size_t>(id)] = tokenizer.piece(id);
    }
  }
  for (std::size_t i = 0; i < specials.size(); ++i) {
    const std::size_t end = i + 1 < specials.size() ? specials[i + 1].first : special_.size();
    texts_[static_cast<std::size_t>(specials[i].second)] =
        std::string_view(special_).substr(specials[i].first, end - specials[i].first);
  }
  std::vector<TextClasses> behind(TokenTree::kMaxDepth + 1);
  std::vector<TokenTree::Entry> entries[std::size(kLengths)];
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i].size() > TokenTree::kMaxDepth) texts_[i] = {};
    if (texts_[i].empty()) continue;
    classify(texts_[i], behind);
    const auto tree = std::ranges::lower_bound(kLengths, behind[0].characters) - kLengths;
    entries[tree].push_back({texts_[i], static_cast<TokenId>(i)});
  }
  std::vector<TokenTree> trees;
  for (auto& of_length : entries) {
    if (!of_length.empty()) trees.emplace_back(std::move(of_length));
  }
  return trees;
}

std::shared_ptr<const ClassTexts> TokenTrie::texts_of(std::size_t tree, ByteClasses classes) const {
  const std::lock_guard lock(mutex_);
  const std::pair key(tree, classes);
  if (const auto known = class_texts_.find(key); known != class_texts_.end()) return known->second;
  if (class_texts_.size() >= kMaxClassTexts) class_texts_.clear();
  auto texts = std::make_shared<const ClassTexts>(find_texts(trees_[tree], classes, words()));
  return class_texts_.emplace(key, std::move(texts)).first->second;
}

bool TokenTrie::is_end(TokenId id) const {
  return std::binary_search(ends_.begin(), ends_.end(), id);
}

}  // namespace orrery::text
