#include "text/tool_arguments.hpp"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "text/marks.hpp"
#include "text/tool_format.hpp"

namespace orrery::text {
namespace {

constexpr std::size_t kMaxKey = 1024;
constexpr std::size_t kMaxDepth = 64;

bool is_json(std::string_view text) {
  return nlohmann::json::accept(text);
}

// Of a JSON string, without its quotes; also pieces of characters.
void add_escaped(std::string_view text, std::string& json) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (const std::size_t at = kShort.find(c); at != std::string_view::npos) {
      json += {'\\', kLetters[at]};
    } else if (byte < 0x20) {
      json += {'\\', 'u', '0', '0', kHex[byte / 16], kHex[byte % 16]};
    } else {
      json += c;
    }
  }
}

void add_quoted(std::string_view text, std::string& json) {
  json += '"';
  add_escaped(text, json);
  json += '"';
}

// What is not a text; models write Python's words too.
void add_value(std::string_view text, std::string& json) {
  const std::string_view value = trimmed(text);
  if (value == "True" || value == "False") {
    json += value == "True" ? "true" : "false";
  } else if (value == "None") {
    json += "null";
  } else if (is_json(value)) {
    json += value;
  } else {
    add_quoted(text, json);
  }
}

// Takes from the front of `held` what cannot belong to `mark` any more.
std::string take_safe(std::string& held, std::string_view mark) {
  const std::size_t keep = overlap(held, mark);
  std::string safe = held.substr(0, held.size() - keep);
  held.erase(0, safe.size());
  return safe;
}

class TaggedReader final : public ArgumentReader {
 public:
  TaggedReader(ToolFormat::Tags tags, std::string tool, const TextArguments& texts)
      : tags_(std::move(tags)), tool_(std::move(tool)), texts_(texts) {}

  Result push(char c, std::string& json) override {
    const bool between = state_ == State::tag || state_ == State::value_tag;
    if (between && held_.empty() && is_blank(c)) return Result::more;
    held_ += c;
    switch (state_) {
      case State::tag:
        return tag(json);
      case State::key:
        return key(json);
      case State::value_tag:
        return value_tag();
      case State::value:
        value(json);
        return Result::more;
    }
    std::unreachable();
  }

 private:
  enum class State : std::uint8_t { tag, key, value_tag, value };

  Result tag(std::string& json) {
    if (held_ == tags_.end) {
      json += count_ == 0 ? "{}" : "}";
      return Result::done;
    }
    if (held_ == tags_.key_open) {
      held_.clear();
      state_ = State::key;
      return Result::more;
    }
    const bool may_be = tags_.key_open.starts_with(held_) || tags_.end.starts_with(held_);
    return may_be ? Result::more : Result::bad;
  }

  Result key(std::string& json) {
    if (!held_.ends_with(tags_.key_close)) {
      return held_.size() > kMaxKey ? Result::bad : Result::more;
    }
    std::string key = held_.substr(0, held_.size() - tags_.key_close.size());
    constexpr std::string_view kType = "\" string=\"";
    const std::size_t type = tags_.is_typed ? key.find(kType) : std::string::npos;
    is_text_ = texts_.contains({tool_, key});
    if (type != std::string::npos) {
      is_text_ = key.substr(type + kType.size()) == "true";
      key.erase(type);
    }
    json += count_++ == 0 ? "{" : ", ";
    add_quoted(key, json);
    json += ": ";
    if (is_text_) json += '"';
    held_.clear();
    state_ = tags_.value_open.empty() ? State::value : State::value_tag;
    is_first_ = true;
    close_ = tags_.value_close;
    return Result::more;
  }

  Result value_tag() {
    if (!tags_.value_open.starts_with(held_)) return Result::bad;
    if (held_ != tags_.value_open) return Result::more;
    held_.clear();
    state_ = State::value;
    return Result::more;
  }

  // What stands before the value itself: a line end, or a mark that makes it raw.
  bool skip_first() {
    if (!is_first_) return false;
    if (tags_.on_lines && held_ == "\n") {
      held_.clear();
    } else if (!tags_.raw_open.empty() && tags_.raw_open.starts_with(held_)) {
      if (held_ != tags_.raw_open) return true;
      held_.clear();
      close_ = tags_.raw_close + close_;
    } else {
      is_first_ = false;
      return false;
    }
    is_first_ = false;
    return true;
  }

  void value(std::string& json) {
    if (skip_first()) return;
    if (held_.ends_with(close_)) {
      held_.erase(held_.size() - close_.size());
      if (tags_.on_lines && held_.ends_with('\n')) held_.pop_back();
      if (is_text_) {
        add_escaped(held_, json);
        json += '"';
      } else {
        add_value(held_, json);
      }
      held_.clear();
      state_ = State::tag;
    } else if (is_text_) {
      add_escaped(take_safe(held_, tags_.on_lines ? "\n" + close_ : close_), json);
    }
  }

  ToolFormat::Tags tags_;
  std::string tool_;
  const TextArguments& texts_;
  State state_ = State::tag;
  std::string held_;
  std::string close_;  // of this value
  std::size_t count_ = 0;
  bool is_text_ = false;
  bool is_first_ = false;
};

// {key:<quote>text<quote>,other:{n:[1,true]}}; the first brace was the separator.
class QuotedReader final : public ArgumentReader {
 public:
  explicit QuotedReader(std::string quote) : quote_(std::move(quote)) {}

  Result push(char c, std::string& json) override {
    if (open_.empty()) {  // the beginning
      open_ = "{";
      json += '{';
    }
    if (state_ == State::text || state_ == State::quoted_key) return text(c, json);
    if (held_.empty() && is_blank(c)) return Result::more;
    switch (state_) {
      case State::key:
        return key(c, json);
      case State::colon:
        if (c != ':') return Result::bad;
        json += ": ";
        state_ = State::value;
        return Result::more;
      case State::value:
        return value(c, json);
      default:
        return after(c, json);
    }
  }

 private:
  enum class State : std::uint8_t { key, quoted_key, colon, value, text, after };

  Result text(char c, std::string& json) {
    held_ += c;
    if (held_.ends_with(quote_)) {
      add_escaped(std::string_view(held_).substr(0, held_.size() - quote_.size()), json);
      json += '"';
      held_.clear();
      state_ = state_ == State::text ? State::after : State::colon;
    } else {
      add_escaped(take_safe(held_, quote_), json);
    }
    return Result::more;
  }

  // True once held_ is the quote, or as long as it may become one.
  bool begins_quote(State next, std::string& json) {
    if (!quote_.starts_with(held_)) return false;
    if (held_ != quote_) return true;
    held_.clear();
    json += '"';
    state_ = next;
    return true;
  }

  Result key(char c, std::string& json) {
    if (held_.empty() && c == '}') return is_fresh_ ? after(c, json) : Result::bad;
    if (c == ':' && !held_.empty() && !quote_.starts_with(held_)) {
      add_quoted(trimmed(held_), json);
      held_.clear();
      json += ": ";
      state_ = State::value;
      return Result::more;
    }
    held_ += c;
    if (begins_quote(State::quoted_key, json)) return Result::more;
    return held_.size() > kMaxKey || c == '{' || c == '}' ? Result::bad : Result::more;
  }

  Result value(char c, std::string& json) {
    if (held_.empty() && (c == '{' || c == '[')) {
      if (open_.size() == kMaxDepth) return Result::bad;
      open_ += c;
      json += c;
      state_ = c == '{' ? State::key : State::value;
      is_fresh_ = true;
      return Result::more;
    }
    if (held_.empty() && c == ']') return is_fresh_ ? after(c, json) : Result::bad;
    if (!held_.empty() && (c == ',' || c == '}' || c == ']')) {
      add_value(held_, json);
      held_.clear();
      return after(c, json);
    }
    held_ += c;
    begins_quote(State::text, json);
    return Result::more;
  }

  Result after(char c, std::string& json) {
    if (c == ',') {
      json += ", ";
      is_fresh_ = false;
      state_ = open_.back() == '{' ? State::key : State::value;
      return Result::more;
    }
    if (c != (open_.back() == '{' ? '}' : ']')) return Result::bad;
    json += c;
    open_.pop_back();
    state_ = State::after;
    return open_.empty() ? Result::done : Result::more;
  }

  std::string quote_;
  std::string open_;      // brackets
  bool is_fresh_ = true;  // nothing stands behind the last bracket yet
  State state_ = State::key;
  std::string held_;
};

}  // namespace

std::unique_ptr<ArgumentReader> make_argument_reader(const ToolFormat& format, std::string tool,
                                                     const TextArguments& texts) {
  if (format.shape == ToolFormat::Shape::tagged) {
    return std::make_unique<TaggedReader>(format.tags, std::move(tool), texts);
  }
  if (format.shape == ToolFormat::Shape::quoted) {
    return std::make_unique<QuotedReader>(format.quote);
  }
  return nullptr;
}

}  // namespace orrery::text
