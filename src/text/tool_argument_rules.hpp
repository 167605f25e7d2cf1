// What the arguments of a call may be where they do not stand there as JSON.
#pragma once

#include "text/json_text.hpp"
#include "text/reply.hpp"
#include "text/tool_marks.hpp"

namespace orrery::text {

// The arguments that are texts, of tools as OpenAI has them; for the reader of replies.
TextArguments text_arguments(const Json& tools);

// Shapes tagged and quoted: what stands behind the separator. Of texts, choices are held and
// patterns and lengths are not. `holds` false: any arguments.
ExprId argument_rules(const ToolFormat& format, const Json& parameters, bool holds, JsonText& json,
                      MarkRules& marks);

}  // namespace orrery::text
