// A tokenizer over single bytes: token i is the i-th character of a small alphabet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.hpp"

namespace orrery::engine::fake {

class Tokenizer final : public text::Tokenizer {
 public:
  // Token ids are indices into `pieces`; the last one ends the turn. The last `n_special` are
  // special.
  explicit Tokenizer(std::vector<std::string> pieces, text::TokenId n_special = 1)
      : pieces_(std::move(pieces)), n_special_(n_special) {
    special_.eos = static_cast<text::TokenId>(pieces_.size()) - 1;
    special_.bos = special_.eos;
    special_.end_of_generation = {special_.eos};
  }

  std::vector<text::TokenId> encode(std::string_view text,
                                    text::EncodeOptions options) const override {
    std::vector<text::TokenId> ids;
    if (options.add_special) ids.push_back(special_.bos);
    for (const char c : text) {
      for (std::size_t i = 0; i < pieces_.size(); ++i) {
        if (pieces_[i] == std::string_view(&c, 1)) ids.push_back(static_cast<text::TokenId>(i));
      }
    }
    return ids;
  }
  std::string decode(std::span<const text::TokenId> ids, bool) const override {
    std::string text;
    for (const text::TokenId id : ids) text += piece(id);
    return text;
  }
  std::string_view piece(text::TokenId id) const override {
    return pieces_[static_cast<std::size_t>(id)];
  }
  bool is_special(text::TokenId id) const override { return id >= vocab_size() - n_special_; }
  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(pieces_.size()); }
  const text::SpecialTokens& special() const override { return special_; }
  text::TokenId find(std::string_view) const override { return text::kNoToken; }
  std::string_view token_text(text::TokenId id) const override { return piece(id); }
  std::string_view model_name() const override { return "fake"; }

 private:
  std::vector<std::string> pieces_;
  text::TokenId n_special_;
  text::SpecialTokens special_;
};

}  // namespace orrery::engine::fake
