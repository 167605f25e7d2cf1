// What a model writes is more than content: reasoning between marks, and calls of tools in its
// family's own notation. A reply parser splits the stream as it comes.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.hpp"

namespace orrery::text {

// A part of a reply in the order in which the model wrote it. Texts are never empty.
struct ReplyPart {
  enum class Kind : std::uint8_t {
    content,
    reasoning,
    tool_begin,      // `text` is the name of the tool
    tool_arguments,  // `text` is the next piece of the JSON text of the arguments
    tool_end,        // the pieces together are one JSON object
  };
  Kind kind = Kind::content;
  std::string text;
  std::uint32_t tool = 0;  // index of the call in this reply
};

// Arguments that are texts whatever they look like, by the schemas of their tools: (tool,
// argument). Some notations do not tell "12" from 12.
using TextArguments = std::set<std::pair<std::string, std::string>>;

struct ReplyOptions {
  bool tools = false;                // tools were offered: look for calls
  bool reasoning = true;             // split it off; else it stays content
  bool starts_in_reasoning = false;  // the prompt ended within an open reasoning mark
  TextArguments texts = {};
};

// Whatever cannot be read as a call is content: nothing that the model wrote is lost.
class ReplyParser {
 public:
  virtual ~ReplyParser() = default;
  virtual void push(std::string_view text, std::vector<ReplyPart>& out) = 0;
  // What is still held back, when the text ends.
  virtual void finish(std::vector<ReplyPart>& out) = 0;
};

}  // namespace orrery::text
