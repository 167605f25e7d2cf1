// Replies of the families, cut everywhere: the parts are the same however the text comes.
#include "text/reply.hpp"

#include <gtest/gtest.h>

#include "text/tool_format.hpp"
#include "text/vocabulary_support.hpp"

namespace orrery::text {
namespace {

using Kind = ReplyPart::Kind;

// Parts of one kind and call joined: "content|...", "think|...", "call0|NAME|ARGUMENTS|end".
std::string read(const ToolFormat& format, const ReplyOptions& options, std::string_view text,
                 std::size_t step) {
  const auto parser = make_reply_parser(format, options);
  std::vector<ReplyPart> parts;
  for (std::size_t i = 0; i < text.size(); i += step) {
    parser->push(text.substr(i, step), parts);
  }
  parser->finish(parts);
  std::string out;
  Kind last = Kind::tool_end;
  for (const ReplyPart& part : parts) {
    EXPECT_EQ(part.text.empty(), part.kind == Kind::tool_end);
    const bool goes_on = part.kind == last && last != Kind::tool_end && last != Kind::tool_begin;
    if (part.kind == Kind::content && !goes_on) out += "content|";
    if (part.kind == Kind::reasoning && !goes_on) out += "think|";
    if (part.kind == Kind::tool_begin) out += "call" + std::to_string(part.tool) + "|";
    if (part.kind == Kind::tool_arguments && !goes_on) out += "|";
    out += part.kind == Kind::tool_end ? "|end " : part.text;
    last = part.kind;
  }
  return out;
}

void check(const ToolFormat& format, const ReplyOptions& options, std::string_view text,
           const std::string& parts) {
  for (std::size_t step = 1; step <= text.size(); step += step < 4 ? 1 : 17) {
    EXPECT_EQ(read(format, options, text, step), parts) << text << " by " << step;
  }
  EXPECT_EQ(read(format, options, text, text.size() + 1), parts) << text;
}

ToolFormat format_of(const char* name) {
  const std::string source = test::read_text(test::shared_data() + "/templates/" + name + ".jinja");
  EXPECT_FALSE(source.empty()) << name;
  return find_tool_format(source);
}

const ReplyOptions kTools = {.tools = true};

TEST(Reply, HermesAndQwen) {
  const ToolFormat format = format_of("Qwen-Qwen3-0.6B");
  check(format, kTools, "Hello < you", "content|Hello < you");
  check(format, kTools,
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"\"}}\n</tool_call>",
        "call0|f|{\"a\": \"}\\\"\"}|end ");
  check(format, kTools,
        "I call.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
        "<tool_call>{\"arguments\":{\"b\":[1]},\"name\":\"g\"}</tool_call>",
        "content|I call.call0|f|{}|end call1|g|{\"b\":[1]}|end ");
  check(format, kTools, "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>",
        "call0|f|{\"a\":1}|end ");
  check(format, kTools, "<think>\nhm\n</think>\n\nYes", "think|hmcontent|Yes");
  check(format, {.tools = true, .starts_in_reasoning = true}, "hm </th\n</think>\nYes",
        "think|hm </thcontent|Yes");
  check(format, kTools, "So <think>hm</think>Yes", "content|So <think>hm</think>Yes");
  check(format, {.reasoning = false}, "<think>hm</think>Yes", "content|<think>hm</think>Yes");
}

TEST(Reply, WhatIsNoCallIsContent) {
  const ToolFormat format = format_of("Qwen-Qwen2.5-7B-Instruct");
  check(format, {}, "<tool_call>{\"name\":\"f\"}</tool_call>",
        "content|<tool_call>{\"name\":\"f\"}</tool_call>");
  check(format, kTools, "<tool_call>none</tool_call> x", "content|<tool_call>none</tool_call> x");
  check(format, kTools, "<tool_call>{\"name\":", "content|<tool_call>{\"name\":");
  check(format, kTools, "<tool_call>{\"nom\":\"f\"}</tool_call>",
        "content|<tool_call>{\"nom\":\"f\"}</tool_call>");
  check(format, kTools, "{\"answer\": 42}", "content|{\"answer\": 42}");
  check(format, kTools, "{\"name\": \"f\", \"arguments\": {\"x\": 1}}", "call0|f|{\"x\": 1}|end ");
  // Begun and cut off: no end.
  check(format, kTools, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", "call0|f|{\"a\":");
}

TEST(Reply, Llama3) {
  const ToolFormat format = format_of("meta-llama-Llama-3.1-8B-Instruct");
  check(format, kTools, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "call0|f|{\"a\": 1}|end ");
  check(format, kTools, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "call0|f|{}|end ");
  check(format, kTools, "No {\"name\": \"f\"}", "content|No {\"name\": \"f\"}");
}

TEST(Reply, Mistral) {
  const ToolFormat list = format_of("mistralai-Mistral-Nemo-Instruct-2407");
  check(list, kTools,
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", "
        "\"arguments\": {}}]",
        "call0|f|{\"a\": 1}|end call1|g|{}|end ");
  const ToolFormat named = format_of("Mistral-Small-3.2-24B-Instruct-2506");
  check(named, kTools, "Sure.[TOOL_CALLS]f[CALL_ID]abc[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}",
        "content|Sure.call0|f|{\"a\": 1}|end call1|g|{}|end ");
  check(named, kTools, "[TOOL_CALLS]{}", "content|[TOOL_CALLS]{}");
}

TEST(Reply, DeepSeek) {
  const ToolFormat v3 = format_of("deepseek-ai-DeepSeek-V3.1");
  const auto mark = [](const std::string& words) {
    std::string out = "<\xEF\xBD\x9C";
    for (const char c : words) out += c == '_' ? std::string("\xE2\x96\x81") : std::string(1, c);
    return out + "\xEF\xBD\x9C>";
  };
  check(v3, kTools,
        mark("tool_calls_begin") + mark("tool_call_begin") + "f" + mark("tool_sep") + "{\"a\":1}" +
            mark("tool_call_end") + mark("tool_call_begin") + "g" + mark("tool_sep") + "{}" +
            mark("tool_call_end") + mark("tool_calls_end"),
        "call0|f|{\"a\":1}|end call1|g|{}|end ");
  const ToolFormat r1 = format_of("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B");
  check(r1, {.tools = true, .starts_in_reasoning = true},
        "so\n</think>\n\n" + mark("tool_calls_begin") + mark("tool_call_begin") + "function" +
            mark("tool_sep") + "f\n```json\n{\"a\": 1}\n```" + mark("tool_call_end") +
            mark("tool_calls_end"),
        "think|socall0|f|{\"a\": 1}|end ");
}

}  // namespace
}  // namespace orrery::text
