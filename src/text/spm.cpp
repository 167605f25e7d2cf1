#include "text/spm.hpp"

#include <queue>

#include "text/unicode.hpp"

namespace orrery::text {
namespace {

constexpr std::uint32_t kNobody = 0xFFFFFFFF;

struct Symbol {
  std::size_t start = 0;
  std::size_t size = 0;  // bytes; 0 once it is part of another
  std::uint32_t previous = kNobody;
  std::uint32_t next = kNobody;
};

struct Bigram {
  float score = 0;
  std::uint32_t left = 0;
  std::size_t size = 0;  // bytes of both, which tells a stale entry
  bool operator<(const Bigram& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

class Merger {
 public:
  Merger(const Vocabulary& vocabulary, std::string_view word)
      : vocabulary_(vocabulary), word_(word) {
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t size = decode_utf8(word, at).length;
      const auto index = static_cast<std::uint32_t>(symbols_.size());
      symbols_.push_back({at, size, index - 1, index + 1});
      at += size;
    }
    symbols_.back().next = kNobody;
    for (std::uint32_t i = 0; i < symbols_.size(); ++i) look_at(i);
    while (!heap_.empty()) {
      const Bigram top = heap_.top();
      heap_.pop();
      merge(top);
    }
  }

  template <class Emit>
  void for_each(Emit emit) const {
    for (std::uint32_t i = 0; i != kNobody; i = symbols_[i].next) {
      emit(word_.substr(symbols_[i].start, symbols_[i].size));
    }
  }

 private:
  void look_at(std::uint32_t left) {
    const Symbol& symbol = symbols_[left];
    if (symbol.next == kNobody) return;
    const std::size_t size = symbol.size + symbols_[symbol.next].size;
    if (size > vocabulary_.longest()) return;
    const TokenId id = vocabulary_.find_textual(word_.substr(symbol.start, size));
    if (id == kNoToken) return;
    heap_.push({vocabulary_.spec().scores[static_cast<std::size_t>(id)], left, size});
  }

  void merge(const Bigram& bigram) {
    Symbol& left = symbols_[bigram.left];
    if (left.size == 0 || left.next == kNobody) return;
    Symbol& right = symbols_[left.next];
    if (left.size + right.size != bigram.size) return;
    left.size = bigram.size;
    left.next = right.next;
    right.size = 0;
    if (left.next != kNobody) symbols_[left.next].previous = bigram.left;
    look_at(bigram.left);
    if (left.previous != kNobody) look_at(left.previous);
  }

  const Vocabulary& vocabulary_;
  std::string_view word_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Bigram> heap_;
};

}  // namespace

SpmModel::SpmModel(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), cuts_(vocabulary), byte_ids_(vocabulary.byte_tokens()) {}

void SpmModel::encode(std::string_view word, std::vector<TokenId>& out) const {
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = cuts_.next(word, at);
    encode_part(word.substr(at, end - at), out);
    at = end;
  }
}

void SpmModel::encode_part(std::string_view part, std::vector<TokenId>& out) const {
  const Merger merger(vocabulary_, part);
  merger.for_each([&](std::string_view piece) {
    const TokenId id = vocabulary_.find_textual(piece);
    if (id != kNoToken) {
      out.push_back(id);
      return;
    }
    for (const char c : piece) {
      const TokenId byte_id = byte_ids_[static_cast<std::uint8_t>(c)];
      const TokenId fallback = byte_id != kNoToken ? byte_id : vocabulary_.spec().unknown;
      if (fallback != kNoToken) out.push_back(fallback);
    }
  });
}

}  // namespace orrery::text
