#include "server/forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/tool_argument_rules.hpp"

namespace orrery::server {
namespace {

using Kind = AnswerForm::Kind;

constexpr std::size_t kMaxTools = 128;
constexpr std::size_t kMaxGrammarBytes = 256U << 10;

std::unexpected<ApiError> wrong(std::string_view field, std::string_view what) {
  return refuse(400, fmt::format("{} {}", field, what), std::string(field), "invalid_value");
}

ApiStatus ask_for(AnswerForm& form, Kind kind, std::string_view param) {
  if (form.kind != Kind::text) {
    return wrong(param, fmt::format("cannot be combined with {}", form.param));
  }
  form.kind = kind;
  form.param = param;
  return {};
}

// {"type": "json_schema", "json_schema": {"schema": ...}}; llama.cpp's clients put it directly.
ApiStatus parse_response_format(const Json& body, AnswerForm& form) {
  constexpr std::string_view kField = "response_format";
  const Json* format = find(body, kField);
  if (format == nullptr) return {};
  if (!format->is_object()) return wrong(kField, "must be an object");
  const Json* type = find(*format, "type");
  const std::string name = type != nullptr && type->is_string() ? type->get<std::string>() : "";
  if (name == "text") return {};
  if (name != "json_object" && name != "json_schema") {
    return wrong(kField, "must have the type text, json_object or json_schema");
  }
  const Json* inner = find(*format, "json_schema");
  const Json* schema = find(inner != nullptr && inner->is_object() ? *inner : *format, "schema");
  if (schema == nullptr && name == "json_schema") return wrong(kField, "has no schema");
  ORRERY_TRY_VOID(ask_for(form, schema == nullptr ? Kind::json_object : Kind::schema, kField));
  if (schema != nullptr) form.schema = *schema;
  return {};
}

ApiStatus parse_grammars(const Json& body, AnswerForm& form) {
  if (const Json* schema = find(body, "json_schema")) {
    ORRERY_TRY_VOID(ask_for(form, Kind::schema, "json_schema"));
    form.schema = *schema;
  }
  ORRERY_TRY(const auto grammar, get_string(body, "grammar", kMaxGrammarBytes));
  if (!grammar || grammar->empty()) return {};
  ORRERY_TRY_VOID(ask_for(form, Kind::grammar, "grammar"));
  form.grammar = *grammar;
  return {};
}

// The list itself is checked where it is compiled. False: there are none.
ApiResult<bool> parse_tools(const Json& body, AnswerForm& form) {
  const Json* tools = find(body, "tools");
  if (tools == nullptr || (tools->is_array() && tools->empty())) return false;
  if (!tools->is_array()) return wrong("tools", "must be a list");
  if (tools->size() > kMaxTools) {
    return wrong("tools", fmt::format("has more than {} entries", kMaxTools));
  }
  form.tools = *tools;
  return true;
}

// "auto", "none", "required", or the one tool that has to be called. False: none may be.
ApiResult<bool> parse_choice(const Json& body, text::ToolRules& rules) {
  constexpr std::string_view kField = "tool_choice";
  const Json* choice = find(body, kField);
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice == "none") return false;
  rules.choice = text::ToolRules::Choice::required;
  if (*choice == "required") return true;
  const Json* function = find(*choice, "function");
  const Json* name = find(function != nullptr ? *function : *choice, "name");
  if (name == nullptr || !name->is_string()) {
    return wrong(kField, "must be auto, none, required or a function's name");
  }
  rules.only = name->get<std::string>();
  return true;
}

// The prompt of some templates opens the marks of reasoning already.
bool starts_in_reasoning(const text::ToolFormat& format, const Prompt& prompt) {
  if (format.reasoning_open.empty()) return false;
  constexpr std::size_t kTail = 8;  // tokens: the mark and what may stand behind it
  const auto tail = std::span(prompt.tokens).last(std::min(kTail, prompt.tokens.size()));
  std::string text = prompt.model->model->tokenizer().decode(tail, true);
  text.erase(text.find_last_not_of(" \n") + 1);
  return text.ends_with(format.reasoning_open);
}

Result<text::Grammars::Source> compile(const AnswerForm& form, const ServedModel& model,
                                       text::ToolRules rules) {
  switch (form.kind) {
    case Kind::json_object:
      return model.grammars->json_object();
    case Kind::schema:
      return model.grammars->json_schema(form.schema);
    case Kind::grammar:
      return model.grammars->gbnf(form.grammar);
    case Kind::tools: {
      ORRERY_TRY(auto held, text::tool_constraint(*model.grammars, model.tool_format, form.tools,
                                                  std::move(rules)));
      return std::move(held.source);
    }
    case Kind::text:
      break;
  }
  return nullptr;
}

ApiStatus hold_to(const AnswerForm& form, Prompt& prompt, bool in_reasoning) {
  if (form.kind == Kind::text) return {};
  text::ToolRules rules = form.rules;
  rules.starts_in_reasoning = in_reasoning;
  auto source = compile(form, *prompt.model, std::move(rules));
  if (!source) {
    ApiError error = api_error(source.error());
    error.param = form.param;
    return std::unexpected(std::move(error));
  }
  prompt.constraint = std::move(*source);
  return {};
}

}  // namespace

ApiResult<AnswerForm> parse_form(const Json& body) {
  AnswerForm form;
  ORRERY_TRY_VOID(parse_response_format(body, form));
  ORRERY_TRY_VOID(parse_grammars(body, form));
  ORRERY_TRY(const bool offered, parse_tools(body, form));
  ORRERY_TRY(const bool allowed, parse_choice(body, form.rules));
  ORRERY_TRY(form.rules.parallel, get_bool(body, "parallel_tool_calls", false));
  if (offered && allowed) {
    ORRERY_TRY_VOID(ask_for(form, Kind::tools, "tools"));
  } else if (offered) {
    form.tools = Json::array();
  } else if (form.rules.choice == text::ToolRules::Choice::required) {
    return wrong("tool_choice", "asks for a tool, and there are none");
  }
  return form;
}

ApiResult<AnswerForm> parse_ollama_form(const Json& body) {
  AnswerForm form;
  const Json* format = find(body, "format");
  if (format != nullptr && *format != "") {
    const bool any = *format == "json";
    if (!any && !format->is_object()) return wrong("format", "must be \"json\" or a schema");
    ORRERY_TRY_VOID(ask_for(form, any ? Kind::json_object : Kind::schema, "format"));
    form.schema = *format;
  }
  ORRERY_TRY(const bool offered, parse_tools(body, form));
  form.rules.parallel = true;
  if (offered) ORRERY_TRY_VOID(ask_for(form, Kind::tools, "tools"));
  return form;
}

ApiResult<AnswerForm> parse_anthropic_form(const Json& body) {
  AnswerForm form;
  ORRERY_TRY(const bool offered, parse_tools(body, form));
  if (!offered) return form;
  for (Json& tool : form.tools) {
    const Json* name = find(tool, "name");
    if (name == nullptr) return wrong("tools", "has a tool without a name");
    Json function = Json::object();
    function["name"] = *name;
    if (const Json* text = find(tool, "description")) function["description"] = *text;
    if (const Json* schema = find(tool, "input_schema")) function["parameters"] = *schema;
    tool = Json::object();
    tool["type"] = "function";
    tool["function"] = std::move(function);
  }
  form.rules.parallel = true;
  const Json* choice = find(body, "tool_choice");
  const Json* type = choice == nullptr ? nullptr : find(*choice, "type");
  if (choice != nullptr && (type == nullptr || !type->is_string())) {
    return wrong("tool_choice", "must have the type auto, any, tool or none");
  }
  if (type != nullptr && *type == "none") return AnswerForm{};
  if (type != nullptr) {
    // Small models that have to call go on calling: then it is one call, unless more are asked for.
    const bool must = *type != "auto";
    ORRERY_TRY(const bool single, get_bool(*choice, "disable_parallel_tool_use", must));
    form.rules.parallel = !single;
    if (must) form.rules.choice = text::ToolRules::Choice::required;
  }
  if (type != nullptr && *type == "tool") {
    ORRERY_TRY(const auto name, get_string(*choice, "name", 64));
    if (!name) return wrong("tool_choice", "names no tool");
    form.rules.only = *name;
  }
  ORRERY_TRY_VOID(ask_for(form, Kind::tools, "tools"));
  return form;
}

ApiStatus hold_to(const AnswerForm& form, Prompt& prompt) {
  return hold_to(form, prompt, false);
}

ApiStatus read_chat(const AnswerForm& form, Prompt& prompt) {
  const ServedModel& model = *prompt.model;
  const bool in_reasoning = starts_in_reasoning(model.tool_format, prompt);
  ORRERY_TRY_VOID(hold_to(form, prompt, in_reasoning));
  const bool calls = form.kind == Kind::tools;
  const bool reasons =
      (calls || form.kind == Kind::text) && !model.tool_format.reasoning_open.empty();
  if (!calls && !reasons) return {};  // everything is content
  const text::ReplyOptions options{.tools = calls,
                                   .reasoning = reasons,
                                   .starts_in_reasoning = in_reasoning,
                                   .texts = text::text_arguments(form.tools)};
  for (std::uint32_t i = 0; i < prompt.options.n; ++i) {
    prompt.parsers.push_back(text::make_reply_parser(model.tool_format, options));
  }
  prompt.shown = calls ? model.marks : model.reasoning_marks;
  return {};
}

}  // namespace orrery::server
