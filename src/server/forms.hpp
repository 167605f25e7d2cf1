// What an answer is held to, and how it is read: schemas and grammars, tools, reasoning.
#pragma once

#include <cstdint>
#include <string>

#include "server/fields.hpp"
#include "server/generation.hpp"
#include "text/tool_constraint.hpp"

namespace orrery::server {

// A request asks for one of them at most.
struct AnswerForm {
  enum class Kind : std::uint8_t { text, json_object, schema, grammar, tools };
  Kind kind = Kind::text;
  Json schema;                 // kind schema
  std::string grammar;         // kind grammar: GBNF
  Json tools = Json::array();  // kind tools, in OpenAI's form
  text::ToolRules rules = {};  // kind tools
  std::string param;           // the field that asks for it, for errors
};

// OpenAI's response_format, tools, tool_choice and parallel_tool_calls (false where absent);
// llama.cpp's json_schema and grammar. 400 for what is no such thing, and for two at once.
ApiResult<AnswerForm> parse_form(const Json& body);
// Ollama's format ("json" or a schema) and tools.
ApiResult<AnswerForm> parse_ollama_form(const Json& body);
// Anthropic's tools and tool_choice.
ApiResult<AnswerForm> parse_anthropic_form(const Json& body);

// Holds the answers to the form. 400 with what is wrong with it, and where.
ApiStatus hold_to(const AnswerForm& form, Prompt& prompt);
// The same for a chat: its replies are split into content, reasoning and calls, too. After the
// prompt has its tokens.
ApiStatus read_chat(const AnswerForm& form, Prompt& prompt);

}  // namespace orrery::server
