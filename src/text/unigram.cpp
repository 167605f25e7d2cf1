#include "text/unigram.hpp"

#include <algorithm>
#include <limits>

#include "text/unicode.hpp"

namespace orrery::text {
namespace {
constexpr double kUnknownPenalty = 10.0;
}

UnigramModel::UnigramModel(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), byte_ids_(vocabulary.byte_tokens()) {
  const TokenizerSpec& spec = vocabulary.spec();
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    lowest = std::min(lowest, double{spec.scores[i]});
    const auto id = static_cast<TokenId>(i);
    if (!spec.tokens[i].empty() && vocabulary.is_textual(id)) trie_.insert(spec.tokens[i], id);
  }
  unknown_score_ = lowest - kUnknownPenalty;
}

void UnigramModel::reach(Node& node, double score, std::size_t from, TokenId id) const {
  if (node.is_reached && node.score >= score) return;
  node = {score, from, id, true};
}

void UnigramModel::emit_unknown(std::string_view text, std::vector<TokenId>& out) const {
  const TokenizerSpec& spec = vocabulary_.spec();
  const bool has_bytes = spec.byte_fallback && std::ranges::all_of(text, [&](char c) {
                           return byte_ids_[static_cast<std::uint8_t>(c)] != kNoToken;
                         });
  if (has_bytes) {
    for (const char c : text) out.push_back(byte_ids_[static_cast<std::uint8_t>(c)]);
  } else if (spec.unknown != kNoToken) {
    out.push_back(spec.unknown);
  }
}

void UnigramModel::encode(std::string_view word, std::vector<TokenId>& out) const {
  std::vector<Node> nodes(word.size() + 1);
  nodes[0].is_reached = true;
  for (std::size_t start = 0; start < word.size();) {
    const std::size_t length = decode_utf8(word, start).length;
    const double score = nodes[start].score;
    bool has_single = false;
    std::uint32_t state = ByteTrie::kRoot;
    for (std::size_t end = start; end < word.size();) {
      state = trie_.child(state, static_cast<std::uint8_t>(word[end++]));
      if (state == ByteTrie::kNone) break;
      const TokenId id = trie_.value(state);
      if (id == kNoToken) continue;
      const double gain = vocabulary_.spec().scores[static_cast<std::size_t>(id)];
      reach(nodes[end], score + gain, start, id);
      has_single = has_single || end == start + length;
    }
    if (!has_single) reach(nodes[start + length], score + unknown_score_, start, kNoToken);
    start += length;
  }
  struct Piece {
    std::size_t start, end;
  };
  std::vector<Piece> path;
  for (std::size_t end = word.size(); end > 0; end = nodes[end].from) {
    path.push_back({nodes[end].from, end});
  }
  std::ranges::reverse(path);
  for (std::size_t i = 0; i < path.size();) {
    const TokenId id = nodes[path[i].end].id;
    if (id != kNoToken) {
      out.push_back(id);
      ++i;
      continue;
    }
    std::size_t last = i;  // neighbouring unknown characters are one piece when fused
    while (vocabulary_.spec().fuse_unknown && last + 1 < path.size() &&
           nodes[path[last + 1].end].id == kNoToken) {
      ++last;
    }
    emit_unknown(word.substr(path[i].start, path[last].end - path[i].start), out);
    i = last + 1;
  }
}

}  // namespace orrery::text
