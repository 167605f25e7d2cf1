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
    object,   // {"name": ..., "arguments": {...}}
    list,     // a JSON list of such objects
    named,    // name_open, the name, `separator`, the arguments
    tagged,   // the same, each argument between tags
    quoted,   // the same, with bare keys and texts between quotes of their own
    harmony,  // messages on channels, calls among them (gpt-oss)
  };
  Shape shape = Shape::object;
  std::string open = "<tool_call>";    // before a call; empty: the reply is nothing but the call
  std::string close = "</tool_call>";  // behind it
  bool is_block = false;               // between them stand all calls, not one
  std::vector<std::string> decoration = {};  // around calls, without a meaning
  // Of objects; without a name_key they are {"the name": {...}}.
  std::string name_key = "name", arguments_key = "arguments";
  std::string id_key = {};     // of objects: may stand before the name or behind the arguments
  std::string name_open = {};  // of the other shapes
  std::string id_open = {};    // behind the name, before an id that may be there
  std::string separator = {};  // empty: the name ends at a tag or a line end
  // Of tagged ones. Blanks may stand around tags.
  struct Tags {
    std::string key_open = {}, key_close = {}, value_open = {}, value_close = {};
    std::string end = {};                       // behind the last one
    std::string raw_open = {}, raw_close = {};  // may stand around a value
    bool on_lines = false;                      // values stand on lines of their own
    bool is_typed = false;  // the key says whether the value is a text: k" string="true
  };
  Tags tags = {};
  std::string quote = {};  // of quoted ones
  std::string reasoning_open = {}, reasoning_close = {};
};

// Known by what a template's source holds; docs/structured-output.md lists the families. Others,
// and templates without tools, are read as Hermes'.
ToolFormat find_tool_format(std::string_view template_source);

// Those of the format's marks that are special tokens (ascending): a stream of text leaves these
// out, so whoever makes it has to be told to keep them. Without tools those of reasoning are
// enough.
std::vector<TokenId> special_marks(const ToolFormat& format, const Tokenizer& tokenizer,
                                   bool has_tools = true);

// Expects the texts of special_marks() in the stream. Arguments are given out as they come, names
// before them; a call whose tool_end is missing was cut off or is no JSON.
std::unique_ptr<ReplyParser> make_reply_parser(const ToolFormat& format,
                                               const ReplyOptions& options);

}  // namespace orrery::text
