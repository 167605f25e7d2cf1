#include "text/reply.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/tool_call_reader.hpp"
#include "text/tool_format.hpp"

namespace orrery::text {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::size_t kMaxName = 256;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// How many bytes at the end of `text` could be the beginning of `mark`.
std::size_t overlap(std::string_view text, std::string_view mark) {
  for (std::size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n) {
    if (text.ends_with(mark.substr(0, n))) return n;
  }
  return 0;
}

class Parser final : public ReplyParser {
 public:
  Parser(const ToolFormat& format, const ReplyOptions& options)
      : format_(format), options_(options) {
    options_.reasoning = options.reasoning && !format.reasoning_close.empty();
    if (options_.reasoning && options.starts_in_reasoning) state_ = State::reasoning;
    skip_blanks_ = options_.reasoning || options_.tools;
  }

  void push(std::string_view text, std::vector<ReplyPart>& out) override {
    held_ += text;
    while (step(out)) {
    }
    if (reader_) reader_->flush(out);
  }

  void finish(std::vector<ReplyPart>& out) override {
    while (step(out)) {
    }
    if (state_ == State::call) return give_up(out);
    if (state_ == State::after_call || state_ == State::after_name) return;
    emit(state_ == State::reasoning ? ReplyPart::Kind::reasoning : ReplyPart::Kind::content,
         std::exchange(held_, {}), out);
  }

 private:
  // after_name: the arguments of a named call; after_call: before its closing mark.
  enum class State : std::uint8_t { start, content, reasoning, call, after_name, after_call };

  // False when more text is needed.
  bool step(std::vector<ReplyPart>& out) {
    switch (state_) {
      case State::start:
        return start();
      case State::content:
        return content(out);
      case State::reasoning:
        return reasoning(out);
      case State::call:
        return format_.shape == ToolFormat::Shape::named && !is_bare_ ? name(out) : object(out);
      case State::after_name:
        return arguments(out);
      case State::after_call:
        return after_call();
    }
    std::unreachable();
  }

  void emit(ReplyPart::Kind kind, std::string text, std::vector<ReplyPart>& out) {
    if (skip_blanks_) text.erase(0, std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) return;
    skip_blanks_ = false;
    if (kind == ReplyPart::Kind::content) has_content_ = true;
    out.push_back({kind, std::move(text), 0});
  }

  // A model that writes a call without its marks writes nothing else.
  bool start() {
    const std::size_t first = held_.find_first_not_of(kBlanks);
    if (first == std::string::npos) return false;
    state_ = State::content;
    if (options_.tools && held_[first] == '{') begin_call(held_.substr(0, first), true);
    return true;
  }

  void begin_call(std::string mark, bool is_bare) {
    state_ = State::call;
    is_bare_ = is_bare;
    held_.erase(0, is_bare ? mark.size() : 0);
    consumed_ = std::move(mark);
    reader_.emplace(calls_, is_bare);
  }

  bool content(std::vector<ReplyPart>& out) {
    std::vector<std::string_view> marks;
    const bool thinks = options_.reasoning && !has_content_ && calls_ == 0;
    if (thinks) marks.push_back(format_.reasoning_open);
    if (options_.tools) {
      marks.push_back(format_.open);
      marks.insert(marks.end(), format_.decoration.begin(), format_.decoration.end());
    }
    std::size_t at = std::string::npos;
    std::string_view found;
    std::size_t keep = 0;
    for (const std::string_view mark : marks) {
      if (mark.empty()) continue;
      if (const std::size_t place = held_.find(mark); place < at) {
        at = place;
        found = mark;
      }
      keep = std::max(keep, overlap(held_, mark));
    }
    if (at == std::string::npos) {
      hold(keep, !marks.empty(), ReplyPart::Kind::content, out);
      return false;
    }
    std::string before = held_.substr(0, at);
    before.erase(before.find_last_not_of(kBlanks) + 1);
    held_.erase(0, at + found.size());
    emit(ReplyPart::Kind::content, std::move(before), out);
    if (thinks && found == format_.reasoning_open) {
      state_ = State::reasoning;
      skip_blanks_ = true;
    } else if (found == format_.open) {
      begin_call(std::string(found), false);
    } else {
      state_ = State::start;  // a decoration: what follows it may be a call without a mark
      skip_blanks_ = true;
    }
    return true;
  }

  // Gives out what cannot belong to a mark: all but `keep` bytes and the blanks before them.
  void hold(std::size_t keep, bool blanks, ReplyPart::Kind kind, std::vector<ReplyPart>& out) {
    std::size_t end = held_.size() - keep;
    if (blanks) end = std::string_view(held_).substr(0, end).find_last_not_of(kBlanks) + 1;
    emit(kind, held_.substr(0, end), out);
    held_.erase(0, end);
  }

  bool reasoning(std::vector<ReplyPart>& out) {
    const std::size_t at = held_.find(format_.reasoning_close);
    if (at == std::string::npos) {
      hold(overlap(held_, format_.reasoning_close), true, ReplyPart::Kind::reasoning, out);
      return false;
    }
    std::string before = held_.substr(0, at);
    before.erase(before.find_last_not_of(kBlanks) + 1);
    held_.erase(0, at + format_.reasoning_close.size());
    emit(ReplyPart::Kind::reasoning, std::move(before), out);
    state_ = State::start;
    options_.reasoning = false;
    skip_blanks_ = true;
    return true;
  }

  bool name(std::vector<ReplyPart>& out) {
    const std::size_t at = held_.find(format_.separator);
    const std::string_view so_far = std::string_view(held_).substr(0, at);
    if (so_far.size() > kMaxName || so_far.contains('{')) {
      give_up(out);
      return true;
    }
    if (at == std::string::npos) return false;
    // Mistral's may have an id between the name and the arguments.
    const std::string found(trimmed(so_far.substr(0, so_far.find("[CALL_ID]"))));
    if (found.empty()) {
      give_up(out);
      return true;
    }
    held_.erase(0, at + format_.separator.size());
    reader_->begin_named(found, out);
    state_ = State::after_name;
    return true;
  }

  bool arguments(std::vector<ReplyPart>& out) {
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const ToolCallReader::Result result = reader_->push(held_[i], out);
      if (result == ToolCallReader::Result::more) continue;
      held_.erase(0, result == ToolCallReader::Result::done ? i + 1 : i);
      end_call(result == ToolCallReader::Result::done, out);
      return true;
    }
    held_.clear();
    return false;
  }

  bool object(std::vector<ReplyPart>& out) {
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const char c = held_[i];
      const bool is_list_mark = format_.shape == ToolFormat::Shape::list && !is_bare_ &&
                                consumed_ == format_.open && c == '[';
      consumed_ += c;
      if (is_list_mark) continue;
      const ToolCallReader::Result result = reader_->push(c, out);
      if (result == ToolCallReader::Result::more) continue;
      held_.erase(0, i + 1);
      if (result == ToolCallReader::Result::bad && !reader_->has_begun()) {
        give_up(out);
      } else {
        end_call(result == ToolCallReader::Result::done, out);
      }
      return true;
    }
    held_.clear();
    return false;
  }

  void end_call(bool is_whole, std::vector<ReplyPart>& out) {
    reader_->flush(out);
    reader_.reset();
    ++calls_;
    state_ = is_whole ? State::after_call : State::content;
    skip_blanks_ = is_whole;
  }

  // What was taken for a call is content; of one that has begun, what is left.
  void give_up(std::vector<ReplyPart>& out) {
    const bool has_begun = reader_->has_begun();
    reader_.reset();
    state_ = State::content;
    if (has_begun) {
      ++calls_;
      return;
    }
    std::string text = std::exchange(consumed_, {});
    if (format_.shape == ToolFormat::Shape::named && !is_bare_) text += std::exchange(held_, {});
    emit(ReplyPart::Kind::content, std::move(text), out);
  }

  bool after_call() {
    const bool is_list = format_.shape == ToolFormat::Shape::list && !is_bare_;
    held_.erase(0, std::min(held_.find_first_not_of(is_list ? " \t\r\n," : kBlanks), held_.size()));
    if (held_.empty()) return false;
    const std::string_view close = trimmed(is_list ? "]" : std::string_view(format_.close));
    if (is_list && held_[0] == '{') {
      begin_call(format_.open, false);
      return true;
    }
    if (!close.empty() && held_.starts_with(close)) {
      held_.erase(0, close.size());
    } else if (!close.empty() && held_.size() < close.size() && close.starts_with(held_)) {
      return false;
    }
    state_ = is_bare_ ? State::start : State::content;
    return true;
  }

  ToolFormat format_;
  ReplyOptions options_;
  State state_ = State::start;
  std::string held_;
  std::string consumed_;  // of a call that may turn out to be none, with its mark
  std::optional<ToolCallReader> reader_;
  std::uint32_t calls_ = 0;
  bool is_bare_ = false;
  bool has_content_ = false;
  bool skip_blanks_ = false;
};

}  // namespace

std::unique_ptr<ReplyParser> make_reply_parser(const ToolFormat& format,
                                               const ReplyOptions& options) {
  return std::make_unique<Parser>(format, options);
}

}  // namespace orrery::text
