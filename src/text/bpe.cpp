#include "text/bpe.hpp"

#include <algorithm>
#include <functional>
#include <queue>

#include "text/unicode.hpp"

namespace orrery::text {
namespace {

constexpr std::size_t kShortWord = 32;  // symbols up to which looking at every pair is quicker

void merge_short(const PairMap& pairs, std::vector<TokenId>& symbols) {
  std::array<PairMap::Value, kShortWord> values{};  // of the pair that starts at each symbol
  std::size_t n = symbols.size();
  for (std::size_t i = 0; i + 1 < n; ++i) values[i] = pairs.find(symbols[i], symbols[i + 1]);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      if (values[i].rank < values[best].rank) best = i;
    }
    if (values[best].rank == PairMap::kNoRank) break;
    symbols[best] = values[best].result;
    for (std::size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      values[i] = values[i + 1];
    }
    --n;
    if (best > 0) values[best - 1] = pairs.find(symbols[best - 1], symbols[best]);
    if (best + 1 < n) values[best] = pairs.find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(n);
}

// A doubly linked list of symbols in an array, with a heap of the pairs that have a rank. Entries
// go stale when a neighbour merges first; `rank` tells, as a pair's rank names the pair.
class LongMerge {
 public:
  LongMerge(const PairMap& pairs, std::vector<TokenId>& symbols) : pairs_(pairs) {
    nodes_.resize(symbols.size());
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i] = {symbols[i], i - 1, i + 1, {}};  // the first one's `previous` is kNobody
    }
    if (!nodes_.empty()) nodes_.back().next = kNobody;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) look_at(i);
    while (!heap_.empty()) {
      const std::uint64_t top = heap_.top();
      heap_.pop();
      merge_at(static_cast<std::uint32_t>(top), static_cast<std::uint32_t>(top >> 32U));
    }
    symbols.clear();
    for (std::uint32_t i = 0; i != kNobody && !nodes_.empty(); i = nodes_[i].next) {
      symbols.push_back(nodes_[i].id);
    }
  }

 private:
  static constexpr std::uint32_t kNobody = 0xFFFFFFFF;
  struct Node {
    TokenId id = kNoToken;
    std::uint32_t previous = kNobody;
    std::uint32_t next = kNobody;
    PairMap::Value pair;  // with the next one
  };

  void look_at(std::uint32_t i) {
    Node& node = nodes_[i];
    node.pair = {};
    if (node.next == kNobody) return;
    node.pair = pairs_.find(node.id, nodes_[node.next].id);
    if (node.pair.rank != PairMap::kNoRank) heap_.push((std::uint64_t{node.pair.rank} << 32U) | i);
  }

  void merge_at(std::uint32_t i, std::uint32_t rank) {
    Node& node = nodes_[i];
    if (node.pair.rank != rank) return;
    const std::uint32_t gone = node.next;
    node.id = node.pair.result;
    node.next = nodes_[gone].next;
    nodes_[gone].pair = {};
    if (node.next != kNobody) nodes_[node.next].previous = i;
    look_at(i);
    if (node.previous != kNobody) look_at(node.previous);
  }

  const PairMap& pairs_;
  std::vector<Node> nodes_;
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap_;
};

}  // namespace

void merge_symbols(const PairMap& pairs, std::vector<TokenId>& symbols) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kShortWord) {
    merge_short(pairs, symbols);
  } else {
    const LongMerge merge(pairs, symbols);
  }
}

BpeModel::BpeModel(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), spec_(vocabulary.spec()), cuts_(vocabulary) {
  if (!spec_.byte_level) {
    byte_ids_ = vocabulary.byte_tokens();
    return;
  }
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, byte_to_alphabet(static_cast<std::uint8_t>(byte)));
    byte_ids_[byte] = vocabulary.find_textual(text);
  }
}

void BpeModel::build_pairs() const {
  pairs_ = PairMap(spec_.merges.size());
  std::uint32_t rank = 0;
  TokenId result = kNoToken;
  for (const Merge& merge : spec_.merges) {
    result = result_of(merge, result + 1);
    const TokenId left = vocabulary_.find(merge.left);
    const TokenId right = vocabulary_.find(merge.right);
    const bool is_known = left != kNoToken && right != kNoToken && result != kNoToken;
    if (!is_known || !pairs_.insert(left, right, {rank, result})) ++ignored_merges_;
    ++rank;
  }
}

// Vocabularies list what their merges make in the order of the merges, mostly: `guess` is looked at
// first. Not where a text has several ids, of which the lowest counts.
TokenId BpeModel::result_of(const Merge& merge, TokenId guess) const {
  const bool is_token = static_cast<std::size_t>(guess) < spec_.tokens.size();
  if (is_token && !vocabulary_.has_twins() && vocabulary_.is_textual(guess)) {
    const std::string_view text = spec_.tokens[static_cast<std::size_t>(guess)];
    if (text.size() == merge.left.size() + merge.right.size() && text.starts_with(merge.left) &&
        text.ends_with(merge.right)) {
      return guess;
    }
  }
  std::string joined(merge.left);
  return vocabulary_.find_textual(joined.append(merge.right));
}

std::size_t BpeModel::ignored_merges() const {
  std::call_once(pairs_once_, [this] { build_pairs(); });
  return ignored_merges_;
}

bool BpeModel::encode_whole(std::string_view word, std::vector<TokenId>& out) const {
  const bool is_newlines =
      spec_.newline_words && word.find_first_not_of('\n') == std::string_view::npos;
  if (!spec_.ignore_merges && !is_newlines) return false;
  TokenId id = kNoToken;
  if (spec_.byte_level) {
    std::string text;
    for (const char c : word) append_utf8(text, byte_to_alphabet(static_cast<std::uint8_t>(c)));
    id = vocabulary_.find_textual(text);
  } else {
    id = vocabulary_.find_textual(word);
  }
  if (id == kNoToken) return false;
  out.push_back(id);
  return true;
}

void BpeModel::bytes_to_symbols(std::string_view word, std::vector<TokenId>& symbols) const {
  for (const char c : word) {
    const TokenId id = byte_ids_[static_cast<std::uint8_t>(c)];
    if (id != kNoToken) {
      symbols.push_back(id);
    } else if (spec_.unknown != kNoToken) {
      symbols.push_back(spec_.unknown);
    }
  }
}

void BpeModel::characters_to_symbols(std::string_view word, std::vector<TokenId>& symbols) const {
  bool after_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const std::string_view character = word.substr(at, decode_utf8(word, at).length);
    at += character.size();
    const TokenId id = vocabulary_.find_textual(character);
    if (id != kNoToken) {
      symbols.push_back(id);
      after_unknown = false;
      continue;
    }
    const bool has_bytes = spec_.byte_fallback && std::ranges::all_of(character, [&](char c) {
                             return byte_ids_[static_cast<std::uint8_t>(c)] != kNoToken;
                           });
    if (has_bytes) {
      for (const char c : character) symbols.push_back(byte_ids_[static_cast<std::uint8_t>(c)]);
      after_unknown = false;
    } else if (spec_.unknown != kNoToken && !(after_unknown && spec_.fuse_unknown)) {
      symbols.push_back(spec_.unknown);
      after_unknown = true;
    }
  }
}

void BpeModel::encode_part(std::string_view part, std::vector<TokenId>& out) const {
  std::vector<TokenId> symbols;
  symbols.reserve(part.size());
  if (spec_.byte_level) {
    bytes_to_symbols(part, symbols);
  } else {
    characters_to_symbols(part, symbols);
  }
  merge_symbols(pairs_, symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

void BpeModel::encode(std::string_view word, std::vector<TokenId>& out) const {
  if (encode_whole(word, out)) return;
  std::call_once(pairs_once_, [this] { build_pairs(); });
  if (spec_.byte_level) return encode_part(word, out);
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = cuts_.next(word, at);
    encode_part(word.substr(at, end - at), out);
    at = end;
  }
}

}  // namespace orrery::text
