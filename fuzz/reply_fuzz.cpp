// Replies in the notations of all families: the first byte says which, what follows is what a model
// wrote. However it is cut the parts are the same, and a call that ends has a JSON object.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_format.hpp"

namespace {

using namespace orrery::text;

// What find_tool_format() knows the families by.
constexpr std::string_view kTemplates[] = {"",
                                           "<tool_call> </think>",
                                           "\"parameters\": <|start_header_id|>",
                                           "[TOOL_CALLS] [/THINK]",
                                           "[TOOL_CALLS][ARGS]",
                                           "<|channel|> functions.",
                                           "<|tool_call>call:",
                                           "<|tool_call_argument_begin|>",
                                           "\xEF\xBD\x9C"
                                           "DSML\xEF\xBD\x9C",
                                           "<|START_ACTION|>",
                                           "<|tools_prefix|>",
                                           "<seed:tool_call>",
                                           "<param name=\"",
                                           "<parameter=",
                                           "<arg_key>",
                                           "<function=",
                                           "<tool_calls>"};

// Parts of one kind that follow one another are one.
std::vector<ReplyPart> read(const ToolFormat& format, std::string_view text, std::size_t step) {
  const auto parser = make_reply_parser(format, {.tools = true, .texts = {{"f", "a"}}});
  std::vector<ReplyPart> parts;
  for (std::size_t i = 0; i < text.size(); i += step) parser->push(text.substr(i, step), parts);
  parser->finish(parts);
  std::vector<ReplyPart> joined;
  for (ReplyPart& part : parts) {
    const bool goes_on =
        !joined.empty() && joined.back().kind == part.kind && joined.back().tool == part.tool &&
        part.kind != ReplyPart::Kind::tool_begin && part.kind != ReplyPart::Kind::tool_end;
    if (goes_on) {
      joined.back().text += part.text;
    } else {
      joined.push_back(std::move(part));
    }
  }
  return joined;
}

bool are_equal(const std::vector<ReplyPart>& a, const std::vector<ReplyPart>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ReplyPart& x, const ReplyPart& y) {
                      return x.kind == y.kind && x.text == y.text && x.tool == y.tool;
                    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ToolFormat format = find_tool_format(kTemplates[data[0] % std::size(kTemplates)]);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<ReplyPart> whole = read(format, text, size);
  for (const std::size_t step : {1U, 3U}) {
    if (!are_equal(read(format, text, step), whole)) abort();
  }
  std::string arguments;
  for (const ReplyPart& part : whole) {
    if (part.kind == ReplyPart::Kind::tool_begin) arguments.clear();
    if (part.kind == ReplyPart::Kind::tool_arguments) arguments += part.text;
    if (part.kind != ReplyPart::Kind::tool_end) continue;
    // Bytes that are no UTF-8 never come: what makes texts of tokens sees to that.
    const auto json = nlohmann::json::parse(arguments, nullptr, false);
    const bool is_text =
        arguments.find_first_not_of(
            "\t\n\r !\"#$%&'()*+,-./0123456789:;<=>?@[\\]^_`{|}~"
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == std::string::npos;
    if (is_text && !json.is_object()) abort();
  }
  return 0;
}
