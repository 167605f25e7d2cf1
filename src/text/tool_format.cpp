#include "text/tool_format.hpp"

#include <algorithm>

namespace orrery::text {
namespace {

// The bars and underlines of DeepSeek's marks.
#define ORRERY_BAR_ "\xEF\xBD\x9C"
#define ORRERY_LINE_ "\xE2\x96\x81"
constexpr std::string_view kDeepSeekBlock =
    "<" ORRERY_BAR_ "tool" ORRERY_LINE_ "calls" ORRERY_LINE_ "begin" ORRERY_BAR_ ">";
constexpr std::string_view kDeepSeekBlockEnd =
    "<" ORRERY_BAR_ "tool" ORRERY_LINE_ "calls" ORRERY_LINE_ "end" ORRERY_BAR_ ">";
constexpr std::string_view kDeepSeekCall =
    "<" ORRERY_BAR_ "tool" ORRERY_LINE_ "call" ORRERY_LINE_ "begin" ORRERY_BAR_ ">";
constexpr std::string_view kDeepSeekCallEnd =
    "<" ORRERY_BAR_ "tool" ORRERY_LINE_ "call" ORRERY_LINE_ "end" ORRERY_BAR_ ">";
constexpr std::string_view kDeepSeekSeparator =
    "<" ORRERY_BAR_ "tool" ORRERY_LINE_ "sep" ORRERY_BAR_ ">";
#undef ORRERY_BAR_
#undef ORRERY_LINE_

ToolFormat deepseek(bool is_r1) {
  ToolFormat format;
  format.shape = ToolFormat::Shape::named;
  format.open = kDeepSeekCall;
  format.close = kDeepSeekCallEnd;
  format.separator = kDeepSeekSeparator;
  format.decoration = {std::string(kDeepSeekBlock), std::string(kDeepSeekBlockEnd)};
  if (is_r1) {  // the kind of tool comes first, the arguments stand in a code block
    format.open += "function" + format.separator;
    format.separator = "\n```json\n";
    format.close = "\n```" + format.close;
  }
  return format;
}

ToolFormat calls_of(std::string_view source) {
  ToolFormat format;
  if (source.contains(kDeepSeekCall)) {
    return deepseek(source.contains("```json"));
  }
  if (source.contains("[TOOL_CALLS]")) {
    format.open = "[TOOL_CALLS]";
    format.close.clear();
    const bool is_named = source.contains("[ARGS]");
    format.shape = is_named ? ToolFormat::Shape::named : ToolFormat::Shape::list;
    if (is_named) format.separator = "[ARGS]";
    return format;
  }
  if (source.contains("\"parameters\": ") && source.contains("<|start_header_id|>") &&
      !source.contains("<tool_call>")) {
    format.open.clear();
    format.close.clear();
    format.arguments_key = "parameters";
    format.decoration = {"<|python_tag|>"};
  }
  return format;
}

}  // namespace

ToolFormat find_tool_format(std::string_view template_source) {
  ToolFormat format = calls_of(template_source);
  if (template_source.contains("</think>")) {
    format.reasoning_open = "<think>";
    format.reasoning_close = "</think>";
  } else if (template_source.contains("[/THINK]")) {
    format.reasoning_open = "[THINK]";
    format.reasoning_close = "[/THINK]";
  }
  return format;
}

std::vector<TokenId> special_marks(const ToolFormat& format, const Tokenizer& tokenizer) {
  // A mark may be several tokens ("<call begin>function<sep>"): every special token that lies in
  // one of them counts.
  std::vector<std::string_view> marks = {format.open, format.close, format.separator,
                                         format.reasoning_open, format.reasoning_close};
  marks.insert(marks.end(), format.decoration.begin(), format.decoration.end());
  std::vector<TokenId> out;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view text = tokenizer.token_text(id);
    if (!tokenizer.is_special(id) || text.size() < 3) continue;
    const bool is_part = std::any_of(marks.begin(), marks.end(),
                                     [&](std::string_view mark) { return mark.contains(text); });
    if (is_part) out.push_back(id);
  }
  return out;
}

}  // namespace orrery::text
