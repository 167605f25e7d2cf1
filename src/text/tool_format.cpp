#include "text/tool_format.hpp"

#include <algorithm>
#include <utility>

namespace orrery::text {
namespace {

using Shape = ToolFormat::Shape;

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
constexpr std::string_view kDsml = ORRERY_BAR_ "DSML" ORRERY_BAR_;
#undef ORRERY_BAR_
#undef ORRERY_LINE_

ToolFormat deepseek(std::string_view source) {
  ToolFormat format{.shape = Shape::named,
                    .open = std::string(kDeepSeekCall),
                    .close = std::string(kDeepSeekCallEnd),
                    .decoration = {std::string(kDeepSeekBlock), std::string(kDeepSeekBlockEnd)},
                    .separator = std::string(kDeepSeekSeparator)};
  if (source.contains("```json")) {  // R1: the kind of tool first, the arguments as a code block
    format.name_open = "function" + format.separator;
    format.separator = "\n```json\n";
    format.close = "\n```" + format.close;
  }
  return format;
}

ToolFormat dsml() {
  const std::string mark(kDsml);
  return {.shape = Shape::tagged,
          .open = "<" + mark + "tool_calls>",
          .close = "</" + mark + "tool_calls>",
          .is_block = true,
          .name_open = "<" + mark + "invoke name=\"",
          .separator = "\">",
          .tags = {.key_open = "<" + mark + "parameter name=\"",
                   .key_close = "\">",
                   .value_close = "</" + mark + "parameter>",
                   .end = "</" + mark + "invoke>",
                   .is_typed = true}};
}

// <function=NAME><parameter=KEY>VALUE</parameter></function> within marks of its own.
ToolFormat functions(const std::string& mark, bool on_lines) {
  return {.shape = Shape::tagged,
          .open = "<" + mark + ">",
          .close = "</" + mark + ">",
          .name_open = "<function=",
          .separator = ">",
          .tags = {.key_open = "<parameter=",
                   .key_close = ">",
                   .value_close = "</parameter>",
                   .end = "</function>",
                   .on_lines = on_lines}};
}

// <tool_call>NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> </tool_call>
ToolFormat argument_pairs() {
  return {.shape = Shape::tagged,
          .close = "",
          .tags = {.key_open = "<arg_key>",
                   .key_close = "</arg_key>",
                   .value_open = "<arg_value>",
                   .value_close = "</arg_value>",
                   .end = "</tool_call>"}};
}

ToolFormat mistral(std::string_view source) {
  const bool is_named = source.contains("[ARGS]");
  return {.shape = is_named ? Shape::named : Shape::list,
          .open = "[TOOL_CALLS]",
          .close = "",
          .id_key = "id",
          .id_open = "[CALL_ID]",
          .separator = is_named ? "[ARGS]" : ""};
}

ToolFormat list(std::string open, std::string close) {
  return {.shape = Shape::list, .open = std::move(open), .close = std::move(close)};
}

ToolFormat kimi() {
  return {.shape = Shape::named,
          .open = "<|tool_call_begin|>",
          .close = "<|tool_call_end|>",
          .decoration = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"},
          .name_open = "functions.",
          .id_open = ":",
          .separator = "<|tool_call_argument_begin|>"};
}

ToolFormat gemma4() {
  return {.shape = Shape::quoted,
          .open = "<|tool_call>",
          .close = "<tool_call|>",
          .name_open = "call:",
          .separator = "{",
          .quote = "<|\"|>",
          .reasoning_open = "<|channel>thought\n",
          .reasoning_close = "<channel|>"};
}

ToolFormat functionary() {
  return {.shape = Shape::named, .open = "<function=", .close = "</function>", .separator = ">"};
}

ToolFormat minicpm() {
  return {.shape = Shape::tagged,
          .open = "<function name=\"",
          .close = "",
          .separator = "\">",
          .tags = {.key_open = "<param name=\"",
                   .key_close = "\">",
                   .value_close = "</param>",
                   .end = "</function>",
                   .raw_open = "<![CDATA[",
                   .raw_close = "]]>"}};
}

ToolFormat command() {
  ToolFormat format = list("<|START_ACTION|>", "<|END_ACTION|>");
  format.name_key = "tool_name";
  format.id_key = "tool_call_id";
  format.arguments_key = "parameters";
  format.decoration = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"};
  format.reasoning_open = "<|START_THINKING|>";
  format.reasoning_close = "<|END_THINKING|>";
  return format;
}

ToolFormat apertus() {
  ToolFormat format = list("<|tools_prefix|>", "<|tools_suffix|>");
  format.name_key.clear();
  return format;
}

ToolFormat llama3() {
  return {.open = "", .close = "", .decoration = {"<|python_tag|>"}, .arguments_key = "parameters"};
}

ToolFormat harmony() {
  return {.shape = Shape::harmony,
          .open = "<|channel|>",
          .close = "<|end|>",
          .decoration = {"<|start|>", "<|message|>", "<|constrain|>"},
          .reasoning_open = "<|channel|>analysis<|message|>",
          .reasoning_close = "<|end|>"};
}

// The rarer a mark, the earlier it is asked for.
ToolFormat calls_of(std::string_view source) {
  const auto has = [&](std::string_view mark) { return source.contains(mark); };
  if (has("<|channel|>") && has("to=functions.")) return harmony();
  if (has("<|channel|>") && has("functions.")) return harmony();
  if (has("<|tool_call>call:")) return gemma4();
  if (has("<|tool_call_argument_begin|>")) return kimi();
  if (has(kDsml)) return dsml();
  if (has(kDeepSeekCall)) return deepseek(source);
  if (has("[TOOL_CALLS]")) return mistral(source);
  if (has("<|START_ACTION|>")) return command();
  if (has("<|tools_prefix|>")) return apertus();
  if (has("<seed:tool_call>")) return functions("seed:tool_call", false);
  if (has("<param name=\"")) return minicpm();
  if (has("<parameter=")) return functions("tool_call", true);
  if (has("<arg_key>")) return argument_pairs();
  if (has("<function=")) return functionary();
  if (has("<TOOLCALL>")) return list("<TOOLCALL>", "</TOOLCALL>");
  if (has("<|tool_call|>")) return list("<|tool_call|>", "");
  if (has("functools[")) return list("functools", "");
  if (has("<tool_calls>[")) return list("<tool_calls>", "</tool_calls>");
  if (has("<tool_calls>")) {
    return {.open = "<tool_calls>", .close = "</tool_calls>", .is_block = true};
  }
  if (has("<|function_call|>")) return {.open = "<|function_call|>", .close = ""};
  const bool is_llama = has("\"parameters\": ") && has("<|start_header_id|>");
  return is_llama && !has("<tool_call>") ? llama3() : ToolFormat{};
}

}  // namespace

ToolFormat find_tool_format(std::string_view template_source) {
  ToolFormat format = calls_of(template_source);
  if (!format.reasoning_close.empty()) return format;
  constexpr std::pair<std::string_view, std::string_view> kReasoning[] = {
      {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}};
  for (const auto& [open, close] : kReasoning) {
    if (!template_source.contains(close)) continue;
    format.reasoning_open = open;
    format.reasoning_close = close;
    break;
  }
  return format;
}

std::vector<TokenId> special_marks(const ToolFormat& format, const Tokenizer& tokenizer,
                                   bool has_tools) {
  // A mark may be several tokens ("<call begin>function<sep>"): every special token that lies in
  // one of them counts.
  const ToolFormat::Tags& tags = format.tags;
  std::vector<std::string_view> marks = {format.reasoning_open, format.reasoning_close};
  if (has_tools || format.shape == Shape::harmony) {
    marks.insert(marks.end(), {format.open, format.close, format.name_open, format.id_open,
                               format.separator, format.quote, tags.key_open, tags.key_close,
                               tags.value_open, tags.value_close, tags.end});
    marks.insert(marks.end(), format.decoration.begin(), format.decoration.end());
  }
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
