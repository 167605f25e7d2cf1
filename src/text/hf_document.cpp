#include "text/hf_document.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "storage/config_json.hpp"

namespace orrery::text {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxDepth = 64;

// Texts in large blocks that never move.
class Arena {
 public:
  std::string_view add(std::string_view text) {
    if (text.size() > capacity_ - used_) {
      capacity_ = std::max(kBlock, text.size());
      blocks_.push_back(std::make_unique<char[]>(capacity_));
      used_ = 0;
    }
    char* start = blocks_.empty() ? nullptr : blocks_.back().get() + used_;
    std::ranges::copy(text, start);
    used_ += text.size();
    return {start, text.size()};
  }

 private:
  static constexpr std::size_t kBlock = 1U << 20;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

class Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(HfDocument& document, Arena& arena) : document_(document), arena_(arena) {}
  const std::string& error() const { return error_; }

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(std::int64_t value) override { return number(value, double(value)); }
  bool number_unsigned(std::uint64_t value) override {
    return number(value, static_cast<double>(value));
  }
  bool number_float(double value, const std::string& /*text*/) override {
    return number(value, value);
  }
  bool binary(Json::binary_t& /*value*/) override { return refuse("binary data"); }

  bool string(std::string& value) override {
    switch (mode_) {
      case Mode::tree:
        return scalar(std::move(value));
      case Mode::ids:
        return refuse("a text where model.vocab needs an id");
      case Mode::scores:
        if (level_ != 2 || parts_ != 0) return refuse("model.vocab is no list of pairs");
        entry_.token = arena_.add(value);
        ++parts_;
        return true;
      case Mode::merges:
        return merge_text(value);
    }
    return true;
  }

  bool key(std::string& value) override {
    if (mode_ == Mode::ids) {
      entry_.token = arena_.add(value);
      return true;
    }
    if (mode_ != Mode::tree) return refuse("an object inside a list of the model");
    key_ = std::move(value);
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    if (mode_ != Mode::tree) return refuse("an object inside a list of the model");
    if (is_model_key("vocab")) {
      mode_ = Mode::ids;
      return true;
    }
    return open(Json::object());
  }
  bool end_object() override {
    if (mode_ == Mode::ids) {
      mode_ = Mode::tree;
    } else {
      stack_.pop_back();
    }
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (mode_ == Mode::ids) return refuse("a list inside model.vocab");
    if (mode_ != Mode::tree) {
      parts_ = 0;
      return ++level_ == 2 || refuse("a list too deep inside the model");
    }
    if (is_model_key("vocab") || is_model_key("merges")) {
      mode_ = key_ == "vocab" ? Mode::scores : Mode::merges;
      document_.has_scores = document_.has_scores || mode_ == Mode::scores;
      level_ = 1;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (mode_ == Mode::tree) {
      stack_.pop_back();
      return true;
    }
    if (level_-- == 1) {
      mode_ = Mode::tree;
      return true;
    }
    if (parts_ != 2) return refuse("a list of the model holds something that is no pair");
    return mode_ == Mode::scores ? add_entry() : add_merge(merge_);
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*exception*/) override {
    error_ = "no JSON at byte " + std::to_string(position);
    return false;
  }

 private:
  enum class Mode { tree, ids, scores, merges };

  bool refuse(std::string message) {
    error_ = std::move(message);
    return false;
  }

  bool is_model_key(std::string_view name) const {
    return stack_.size() == 2 && stack_[0]->is_object() && key_ == name && stack_[1]->is_object() &&
           document_.rest.contains("model") && stack_[1] == &document_.rest["model"];
  }

  template <class T>
  Json* add(T&& value) {
    if (stack_.empty()) return &(document_.rest = std::forward<T>(value));
    Json& parent = *stack_.back();
    if (parent.is_object()) return &(parent[key_] = std::forward<T>(value));
    parent.push_back(std::forward<T>(value));
    return &parent.back();
  }
  bool open(Json container) {
    if (stack_.size() >= kMaxDepth) return refuse("more than 64 levels");
    stack_.push_back(add(std::move(container)));
    return count();
  }
  // What is kept as a tree; the vocabulary has limits of its own.
  bool count() {
    return ++values_ <= storage::kMaxJsonValues ||
           refuse("more than 100000 values beside the vocabulary");
  }
  template <class T>
  bool scalar(T&& value) {
    if (mode_ != Mode::tree) return refuse("a value of a wrong type in a list of the model");
    add(std::forward<T>(value));
    return count();
  }

  template <class T>
  bool number(T value, double real) {
    if (mode_ == Mode::ids) {
      const bool in_range = real >= 0 && real < static_cast<double>(kMaxVocabulary);
      entry_.id = in_range ? static_cast<std::int64_t>(real) : -1;
      const bool is_id = in_range && static_cast<double>(entry_.id) == real;
      return is_id ? add_entry() : refuse("an id in model.vocab is not from 0 to 1048575");
    }
    if (mode_ == Mode::scores) {
      if (level_ != 2 || parts_ != 1) return refuse("model.vocab is no list of pairs");
      entry_.score = real;
      entry_.id = static_cast<std::int64_t>(document_.vocabulary.size());
      ++parts_;
      return true;
    }
    return scalar(value);
  }

  bool add_entry() {
    if (document_.vocabulary.size() >= kMaxVocabulary) return refuse("more than 1048576 tokens");
    document_.vocabulary.push_back(entry_);
    return true;
  }
  bool add_merge(Merge merge) {
    if (document_.merges.size() >= kMaxVocabulary) return refuse("more than 1048576 merges");
    document_.merges.push_back(merge);
    return true;
  }
  // "left right", or one half of ["left", "right"].
  bool merge_text(std::string_view value) {
    const std::string_view text = arena_.add(value);
    if (level_ == 2) {
      if (parts_ >= 2) return refuse("a merge has more than two parts");
      (parts_ == 0 ? merge_.left : merge_.right) = text;
      ++parts_;
      return true;
    }
    const std::size_t space = text.find(' ', 1);
    if (space == std::string_view::npos) {
      return refuse("merge " + std::to_string(document_.merges.size()) +
                    " has no space between two parts");
    }
    return add_merge({text.substr(0, space), text.substr(space + 1)});
  }

  HfDocument& document_;
  Arena& arena_;
  Mode mode_ = Mode::tree;
  std::vector<Json*> stack_;  // open containers of the tree; a parent never grows under its child
  std::uint64_t values_ = 0;  // in the tree
  std::string key_;
  std::size_t level_ = 0;  // open lists inside model.vocab or model.merges
  std::size_t parts_ = 0;  // of the inner list
  HfDocument::Entry entry_;
  Merge merge_;
  std::string error_;
};

}  // namespace

Result<HfDocument> parse_hf_document(std::string_view text) {
  HfDocument document;
  // A token and a merge take six bytes of the file at least. Reserved pages that stay empty cost
  // nothing; growing by copies would touch them twice.
  const std::size_t at_most = std::min<std::size_t>(text.size() / 6, kMaxVocabulary);
  document.vocabulary.reserve(at_most);
  document.merges.reserve(at_most);
  auto arena = std::make_shared<Arena>();
  Reader reader(document, *arena);
  if (!Json::sax_parse(text, &reader)) {
    return fail("E_TOKENIZER", "tokenizer.json: " + reader.error());
  }
  if (!document.rest.is_object()) {
    return fail("E_TOKENIZER", "tokenizer.json is not an object");
  }
  document.owner = std::move(arena);
  return document;
}

}  // namespace orrery::text
