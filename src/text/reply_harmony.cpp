#include "text/reply_harmony.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "text/marks.hpp"
#include "text/tool_call_reader.hpp"

namespace orrery::text {
namespace {

constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kRecipient = "to=functions.";
// What ends a message; the next header may follow without an end.
constexpr std::array<std::string_view, 4> kEnds = {"<|end|>", "<|call|>", "<|return|>",
                                                   "<|start|>"};
constexpr std::size_t kMaxHeader = 1024;

class HarmonyParser final : public ReplyParser {
 public:
  explicit HarmonyParser(const ReplyOptions& options) : options_(options) {}

  void push(std::string_view text, std::vector<ReplyPart>& out) override {
    held_ += text;
    while (in_header_ ? header(out) : body(out)) {
    }
    if (reader_) reader_->flush(out);
  }

  void finish(std::vector<ReplyPart>& out) override {
    if (!in_header_ || n_messages_ == 0) add(std::exchange(held_, {}), out);
  }

 private:
  enum class Target : std::uint8_t { content, reasoning, call };

  // The prompt ends within the first header.
  bool header(std::vector<ReplyPart>& out) {
    const std::size_t end = held_.find(kMessage);
    if (end == std::string::npos) {
      if (held_.size() <= kMaxHeader) return false;
      in_header_ = false;  // this is no header: a model that has lost its way
      target_ = Target::content;
      return true;
    }
    const std::string text = held_.substr(0, end);
    held_.erase(0, end + kMessage.size());
    in_header_ = false;
    ++n_messages_;
    const std::size_t channel = std::min(text.find(kChannel), text.size());
    const bool thinks = std::string_view(text).substr(channel).starts_with("<|channel|>analysis");
    target_ = thinks && options_.reasoning ? Target::reasoning : Target::content;
    const std::size_t at = text.find(kRecipient);
    if (at == std::string::npos || !options_.tools) return true;
    const std::size_t begin = at + kRecipient.size();
    const std::size_t stop = std::min(text.find_first_of(" \t\n<", begin), text.size());
    if (stop == begin) return true;
    target_ = Target::call;
    reader_.emplace(calls_++, ToolCallReader::Keys::any);
    reader_->begin_named(text.substr(begin, stop - begin), nullptr, out);
    return true;
  }

  bool body(std::vector<ReplyPart>& out) {
    std::size_t at = std::string::npos;
    std::size_t keep = 0;
    for (const std::string_view mark : kEnds) {
      at = std::min(at, held_.find(mark));
      keep = std::max(keep, overlap(held_, mark));
    }
    const bool ends = at != std::string::npos;
    const std::size_t whole = ends ? at : held_.size() - keep;
    add(held_.substr(0, whole), out);
    held_.erase(0, whole);
    if (!ends) return false;
    if (reader_) reader_->flush(out);
    reader_.reset();
    in_header_ = true;
    return true;
  }

  void add(std::string text, std::vector<ReplyPart>& out) {
    if (text.empty()) return;
    if (target_ == Target::content) {
      out.push_back({ReplyPart::Kind::content, std::move(text), 0});
    } else if (target_ == Target::reasoning) {
      out.push_back({ReplyPart::Kind::reasoning, std::move(text), 0});
    } else if (reader_) {
      for (const char c : text) {
        if (reader_->push(c, out) == ToolCallReader::Result::more) continue;
        reader_->flush(out);
        reader_.reset();  // whole, or no JSON: what follows is nothing
        return;
      }
    }
  }

  ReplyOptions options_;
  std::string held_;
  bool in_header_ = true;
  Target target_ = Target::content;
  std::optional<ToolCallReader> reader_;
  std::uint32_t calls_ = 0;
  std::size_t n_messages_ = 0;
};

}  // namespace

std::unique_ptr<ReplyParser> make_harmony_parser(const ReplyOptions& options) {
  return std::make_unique<HarmonyParser>(options);
}

}  // namespace orrery::text
