// What people send and what templates expect differ: OpenAI's clients send the arguments of tool
// calls as strings, no content beside tool calls, and texts in parts; templates are written for
// what transformers hands them. Here the first form that a template accepts is found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/chat_template.hpp"

namespace orrery::text {

// Renders `variables` (an object). First with the arguments of tool calls as objects, and with
// `tools` and `documents` null where they are absent, as transformers does it. If the template
// fails, or prints parts as Python would: with the arguments as they came (some templates join them
// as text, where there is no content), then as objects with empty content for none, then with texts
// for parts that are all text, then with the system message before the first user's, then with the
// arguments as they came again. The error is that of the first try.
Result<std::vector<RenderedPiece>> render_conversation(const ChatTemplate& chat, Json variables,
                                                       const RenderLimits& limits = {});

// The steps, each on the array of messages; true if it changed anything.
using Originals =
    std::vector<std::optional<std::string>>;  // of every tool call, if it was a string
bool parse_arguments(Json& messages, Originals& originals);
bool restore_arguments(Json& messages, const Originals& originals);
bool fill_content(Json& messages);
bool join_text_parts(Json& messages);
bool merge_system(Json& messages);

}  // namespace orrery::text
