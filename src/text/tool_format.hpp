// How the families write calls of tools and reasoning, as their chat templates show it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/reply.hpp"
#include "text/tokenizer.hpp"

namespace orrery::text {

struct ToolFormat {
  enum class Shape : std::uint8_t {
    object,  // {"name": ..., "arguments": {...}}
    list,    // a JSON list of such objects
    named,   // the name, `separator`, the arguments
  };
  Shape shape = Shape::object;
  std::string open = "<tool_call>";    // before a call; empty: the reply is nothing but the call
  std::string close = "</tool_call>";  // behind it
  std::string separator;
  std::string arguments_key = "arguments";
  std::vector<std::string> decoration;  // around calls, without a meaning
  std::string reasoning_open, reasoning_close;
};

// Known by what a template's source holds: Hermes and Qwen (also for templates without tools),
// Llama 3, Mistral (both notations), DeepSeek (R1 and V3). Others are read as Hermes'.
ToolFormat find_tool_format(std::string_view template_source);

// Those of the format's marks that are special tokens (ascending): a stream of text leaves these
// out, so whoever makes it has to be told to keep them.
std::vector<TokenId> special_marks(const ToolFormat& format, const Tokenizer& tokenizer);

// Expects the texts of special_marks() in the stream. Arguments are given out as they come, names
// before them; a call whose tool_end is missing was cut off or is no JSON.
std::unique_ptr<ReplyParser> make_reply_parser(const ToolFormat& format,
                                               const ReplyOptions& options);

}  // namespace orrery::text
