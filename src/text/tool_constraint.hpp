// Holds a model to the tools that it was offered: their names, and their schemas.
#pragma once

#include <string>
#include <vector>

#include "text/grammar.hpp"
#include "text/tool_format.hpp"

namespace orrery::text {

struct ToolRules {
  enum class Choice : std::uint8_t {
    automatic,  // any text; what begins like a call becomes one
    required,   // nothing but calls
  };
  Choice choice = Choice::automatic;
  std::string only = {};  // required: this tool alone
  bool parallel = false;  // more than one call
  // As ReplyOptions: the text goes on in reasoning. Before required calls a model may reason
  // where its format has marks for it.
  bool starts_in_reasoning = false;
};

struct ToolConstraint {
  Grammars::Source source;
  // Tools whose parameters cannot be held ("NAME: E_SCHEMA's sentence"): any object is let through.
  std::vector<std::string> notes;
};

// `tools` as OpenAI has them: [{"type": "function", "function": {"name", "parameters"}}, ...], up
// to 128 of them. E_TOOLS for a list, a name (1 to 64 of A-Z a-z 0-9 _ - .) or a choice that cannot
// be; E_LIMIT.
Result<ToolConstraint> tool_constraint(Grammars& grammars, const ToolFormat& format,
                                       const Json& tools, const ToolRules& rules);

}  // namespace orrery::text
