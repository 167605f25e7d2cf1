#include "text/tool_call_reader.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/marks.hpp"

namespace orrery::text {
namespace {

using State = JsonScan::State;

constexpr std::size_t kMaxName = 256;

bool are_arguments(const std::string& key) {
  return key == "arguments" || key == "parameters";
}

// The text of a JSON string, or nothing.
std::string unquoted(const std::string& json) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace

void ToolCallReader::begin_named(std::string name, std::unique_ptr<ArgumentReader> arguments,
                                 std::vector<ReplyPart>& out) {
  is_named_ = true;
  name_ = std::move(name);
  reader_ = std::move(arguments);
  begin(out);
}

void ToolCallReader::begin(std::vector<ReplyPart>& out) {
  out.push_back({ReplyPart::Kind::tool_begin, name_, tool_});
  has_begun_ = true;
}

void ToolCallReader::flush(std::vector<ReplyPart>& out) {
  if (!piece_.empty()) {
    out.push_back({ReplyPart::Kind::tool_arguments, std::exchange(piece_, {}), tool_});
  }
}

ToolCallReader::Result ToolCallReader::push_named(char c, std::vector<ReplyPart>& out) {
  if (reader_) {
    const ArgumentReader::Result result = reader_->push(c, piece_);
    if (result == ArgumentReader::Result::bad) return Result::bad;
    if (result == ArgumentReader::Result::more) return Result::more;
  } else {
    if (scan_.depth() == 0 && is_blank(c)) return Result::more;
    if ((scan_.depth() == 0 && c != '{') || !scan_.push(c)) return Result::bad;
    piece_ += c;
    if (!scan_.is_done()) return Result::more;
  }
  flush(out);
  out.push_back({ReplyPart::Kind::tool_end, {}, tool_});
  return Result::done;
}

ToolCallReader::Result ToolCallReader::push(char c, std::vector<ReplyPart>& out) {
  if (is_named_) return push_named(c, out);
  if (raw_.empty() && is_blank(c)) return Result::more;
  if (raw_.empty() && c != '{') return Result::bad;
  const State before = scan_.state();
  const std::size_t depth = scan_.depth();
  if (depth == 1 && (before == State::first_key || before == State::key) && c == '"') {
    key_begin_ = raw_.size() + 1;
  }
  if (depth == 1 && before == State::value && !is_blank(c)) {
    value_begin_ = raw_.size();
    const bool is_name = keys_ == Keys::name && name_.empty() && key_.size() <= kMaxName;
    if (is_name) name_ = unquoted('"' + key_ + '"');
    if ((is_name || are_arguments(key_)) && c == '{' && !name_.empty() && !has_begun_) {
      begin(out);
      is_streaming_ = true;
    }
  }
  if (!scan_.push(c)) return Result::bad;
  raw_ += c;
  if (is_streaming_) piece_ += c;
  if (scan_.is_done()) return end(out);
  if (scan_.depth() != 1) return Result::more;
  if (before == State::text && scan_.state() == State::colon && !end_key()) return Result::bad;
  const bool was_value = before == State::text || depth == 2;
  if (was_value && scan_.state() == State::after) end_value();
  return Result::more;
}

bool ToolCallReader::end_key() {
  key_ = raw_.substr(key_begin_, raw_.size() - 1 - key_begin_);
  constexpr std::string_view kOthers[] = {"name", "type", "id", "tool_name", "tool_call_id"};
  return keys_ != Keys::known || are_arguments(key_) ||
         std::ranges::find(kOthers, key_) != std::end(kOthers);
}

void ToolCallReader::end_value() {
  const std::string value = raw_.substr(value_begin_);
  if (is_streaming_) {
    is_streaming_ = false;
  } else if ((key_ == "name" || key_ == "tool_name") && name_.empty()) {
    name_ = unquoted(value);
  } else if (are_arguments(key_)) {
    arguments_ = value;
  }
}

// Arguments that came before the name, as a text, or not at all.
ToolCallReader::Result ToolCallReader::end(std::vector<ReplyPart>& out) {
  if (!has_begun_) {
    if (name_.empty() || name_.size() > kMaxName) return Result::bad;
    if (arguments_.starts_with('"')) arguments_ = unquoted(arguments_);
    if (arguments_.empty()) arguments_ = "{}";
    if (!nlohmann::json::parse(arguments_, nullptr, false).is_object()) return Result::bad;
    begin(out);
    piece_ = arguments_;
  }
  flush(out);
  out.push_back({ReplyPart::Kind::tool_end, {}, tool_});
  return Result::done;
}

}  // namespace orrery::text
