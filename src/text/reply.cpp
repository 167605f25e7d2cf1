#include "text/reply.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "text/marks.hpp"
#include "text/reply_harmony.hpp"
#include "text/tool_call_reader.hpp"
#include "text/tool_format.hpp"

namespace orrery::text {
namespace {

constexpr std::size_t kMaxName = 256;

using Shape = ToolFormat::Shape;

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
    if (state_ == State::call) give_up(out);
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
        return has_name_first() && !is_bare_ ? name(out) : object(out);
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
    using Keys = ToolCallReader::Keys;
    const bool is_keyed = format_.name_key.empty() && !is_bare;
    reader_.emplace(calls_, is_bare ? Keys::known : is_keyed ? Keys::name : Keys::any);
  }

  bool is_list() const { return format_.shape == Shape::list && !is_bare_; }
  bool has_name_first() const {
    return format_.shape == Shape::named || format_.shape == Shape::tagged ||
           format_.shape == Shape::quoted;
  }

  bool content(std::vector<ReplyPart>& out) {
    std::vector<std::string_view> marks;
    // Reasoning comes before all else.
    const std::string_view begun =
        std::string_view(held_).substr(std::min(held_.find_first_not_of(kBlanks), held_.size()));
    const bool thinks = options_.reasoning && !has_content_ && calls_ == 0 &&
                        (begun.starts_with(format_.reasoning_open) ||
                         std::string_view(format_.reasoning_open).starts_with(begun));
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

  // What stands before the arguments. False as long as it is not all there.
  bool name(std::vector<ReplyPart>& out) {
    std::size_t begin = 0;
    if (!format_.name_open.empty()) {
      begin = std::min(held_.find_first_not_of(kBlanks), held_.size());
      const std::string& mark = format_.name_open;
      const std::string_view there = std::string_view(held_).substr(begin, mark.size());
      if (there.size() < mark.size() && mark.starts_with(there)) return false;
      if (there != mark) return give_up(out);
      begin += mark.size();
    }
    const std::string& separator = format_.separator;
    const std::size_t at =
        separator.empty() ? held_.find_first_of("<\n", begin) : held_.find(separator, begin);
    std::string_view found = std::string_view(held_).substr(begin, at - begin);
    if (found.size() > kMaxName || found.contains('{')) return give_up(out);
    if (at == std::string::npos) return false;
    if (!format_.id_open.empty()) found = found.substr(0, found.find(format_.id_open));
    found = trimmed(found);
    if (found.empty()) return give_up(out);
    const std::string tool(found);
    held_.erase(0, at + separator.size());
    reader_->begin_named(tool, make_argument_reader(format_, tool, options_.texts), out);
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
      const bool is_list_mark = is_list() && c == '[' && trimmed(consumed_) == format_.open;
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
    closers_.clear();
    if (is_list()) closers_.emplace_back("]");
    if (!is_bare_) closers_.emplace_back(trimmed(format_.close));
  }

  // What was taken for a call is content; of one that has begun, what is left.
  bool give_up(std::vector<ReplyPart>& out) {
    const bool has_begun = reader_->has_begun();
    reader_.reset();
    state_ = State::content;
    if (has_begun) {
      ++calls_;
      return true;
    }
    emit(ReplyPart::Kind::content, std::exchange(consumed_, {}), out);
    return true;
  }

  // Another call of a list or block, or the marks that close it.
  bool after_call() {
    const std::string_view blanks = is_list() ? " \t\r\n," : kBlanks;
    held_.erase(0, std::min(held_.find_first_not_of(blanks), held_.size()));
    if (held_.empty()) return false;
    if ((is_list() || format_.is_block) && !is_bare_) {
      const std::string_view next = has_name_first() ? format_.name_open : std::string_view("{");
      if (held_.starts_with(next)) {
        begin_call(format_.open, false);
        return true;
      }
      if (next.starts_with(held_)) return false;
    }
    while (!closers_.empty()) {
      const std::string close = closers_.front();
      if (held_.starts_with(close)) {
        held_.erase(0, close.size());
      } else if (close.starts_with(held_)) {
        return false;
      }
      closers_.pop_front();
      held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
      if (held_.empty() && !closers_.empty()) return false;
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
  std::deque<std::string> closers_;  // behind the last call, what may still come
};

}  // namespace

std::unique_ptr<ReplyParser> make_reply_parser(const ToolFormat& format,
                                               const ReplyOptions& options) {
  if (format.shape == Shape::harmony) return make_harmony_parser(options);
  return std::make_unique<Parser>(format, options);
}

}  // namespace orrery::text
