#include "text/tool_constraint.hpp"

#include <algorithm>
#include <utility>

#include "text/grammar_program.hpp"
#include "text/json_schema.hpp"
#include "text/json_text.hpp"
#include "text/tool_argument_rules.hpp"
#include "text/tool_marks.hpp"

namespace orrery::text {
namespace {

constexpr std::size_t kMaxTools = 128;
constexpr std::size_t kMaxName = 64;

struct Tool {
  std::string name;
  Json parameters;
};

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

Result<std::vector<Tool>> read_tools(const Json& tools, const std::string& only) {
  if (!tools.is_array() || tools.empty() || tools.size() > kMaxTools) {
    return fail("E_TOOLS", "tools: is not a list of 1 to " + std::to_string(kMaxTools) + " tools");
  }
  std::vector<Tool> out;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string at = "tools[" + std::to_string(i) + "]";
    const bool has_function = tools[i].is_object() && tools[i].contains("function");
    const Json& function = has_function ? tools[i]["function"] : tools[i];
    const bool has_name =
        function.is_object() && function.contains("name") && function["name"].is_string();
    if (!has_name) return fail("E_TOOLS", at + ": has no name");
    Tool tool{.name = function["name"].get<std::string>(), .parameters = Json()};
    if (!is_name(tool.name)) {
      return fail("E_TOOLS", at + ".name: is not 1 to 64 letters, digits, _, - and dots");
    }
    const bool is_known = std::any_of(out.begin(), out.end(),
                                      [&](const Tool& other) { return other.name == tool.name; });
    if (is_known)
      return fail("E_TOOLS", at + ".name: another tool is called " + tool.name + " too");
    if (function.contains("parameters")) tool.parameters = function["parameters"];
    const bool is_open = tool.parameters.is_object() && !tool.parameters.contains("type");
    if (is_open) tool.parameters["type"] = "object";  // arguments are never anything else
    out.push_back(std::move(tool));
  }
  if (only.empty()) return out;
  std::erase_if(out, [&](const Tool& tool) { return tool.name != only; });
  if (out.empty()) return fail("E_TOOLS", "tool_choice: no tool has the name that it asks for");
  return out;
}

// The rules that this schema alone would need: so that a bad one costs the others nothing.
Status try_schema(const Json& schema) {
  if (schema.is_object() && schema["type"] != "object") {
    return fail("E_SCHEMA", "$.type: the parameters of a tool are an object");
  }
  GrammarRules rules;
  ORRERY_TRY(const RuleId root, schema_rules(schema, rules));
  ORRERY_TRY(const GrammarProgram program, compile_rules(rules, root));
  static_cast<void>(program);
  return {};
}

class ToolCompiler {
 public:
  ToolCompiler(GrammarRules& rules, const Tokenizer& tokenizer, const ToolFormat& format)
      : rules_(rules), json_(rules), marks_(rules, tokenizer, format), format_(format) {}

  Result<RuleId> run(const std::vector<Tool>& tools, const std::vector<bool>& holds,
                     const ToolRules& options) {
    std::vector<ExprId> calls;
    for (std::size_t i = 0; i < tools.size(); ++i) {
      ORRERY_TRY(const ExprId inner, arguments(tools[i], holds[i]));
      calls.push_back(call(tools[i].name, inner));
    }
    const ExprId one = rules_.rule("call", rules_.choice(calls));
    const bool is_required = options.choice == ToolRules::Choice::required;
    const RuleId root = rules_.declare("reply");
    if (format_.shape == Shape::harmony) {
      rules_.define(root, harmony(one, is_required));
      return root;
    }
    const ExprId behind = behind_open(one, options.parallel);
    rules_.define(root, is_required ? required(behind, options) : automatic(behind));
    return root;
  }

 private:
  using Shape = ToolFormat::Shape;

  ExprId mark(std::string_view text) { return marks_.mark(text); }

  bool has_name_first() const {
    return format_.shape != Shape::object && format_.shape != Shape::list;
  }

  Result<ExprId> arguments(const Tool& tool, bool holds) {
    if (format_.shape == Shape::tagged || format_.shape == Shape::quoted) {
      return argument_rules(format_, tool.parameters, holds, json_, marks_);
    }
    return holds ? schema_value(tool.parameters, json_) : json_.object();
  }

  ExprId call(const std::string& name, ExprId arguments) {
    if (format_.shape == Shape::harmony) return harmony_call(name, arguments);
    if (has_name_first()) {
      const ExprId number = rules_.sequence({mark(format_.id_open), id()});
      return rules_.sequence({mark(format_.name_open), rules_.literal(name),
                              format_.id_open.empty() ? rules_.empty() : rules_.optional(number),
                              mark(format_.separator), arguments});
    }
    const ExprId end = rules_.literal("}");
    if (format_.name_key.empty()) {
      return rules_.sequence({json_.mark("{"), key(name), arguments, json_.space(), end});
    }
    const bool has_id = !format_.id_key.empty();
    const ExprId known_id =
        rules_.sequence({key(format_.id_key), rules_.literal("\""), id(), rules_.literal("\"")});
    const ExprId before = rules_.sequence({known_id, json_.space(), json_.mark(",")});
    const ExprId behind = rules_.sequence({json_.mark(","), known_id, json_.space()});
    return rules_.sequence({json_.mark("{"), has_id ? rules_.optional(before) : rules_.empty(),
                            key(format_.name_key), rules_.literal('"' + name + '"'), json_.space(),
                            json_.mark(","), key(format_.arguments_key), arguments, json_.space(),
                            has_id ? rules_.optional(behind) : rules_.empty(), end});
  }

  ExprId key(const std::string& text) {
    return rules_.sequence({rules_.literal('"' + text + '"'), json_.space(), json_.mark(":")});
  }

  ExprId id() {
    const CharSet letters = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    return rules_.repeat(rules_.chars(letters), 1, 16);
  }

  // All that follows the first opening mark.
  ExprId behind_open(ExprId one, bool parallel) {
    const std::uint32_t most = parallel ? kUnbounded : 0;
    if (format_.shape == Shape::list) {
      const ExprId more = rules_.sequence({json_.space(), json_.mark(","), one});
      return rules_.sequence({json_.space(), json_.mark("["), one, rules_.repeat(more, 0, most),
                              json_.space(), rules_.literal("]"), closing(json_.space())});
    }
    const bool is_loose = format_.shape == Shape::object || format_.shape == Shape::tagged;
    const ExprId space = is_loose ? json_.space() : rules_.empty();
    if (format_.is_block) {
      const ExprId more = rules_.repeat(rules_.sequence({space, one}), 0, most);
      return rules_.sequence({space, one, more, closing(space)});
    }
    const ExprId whole = rules_.sequence({space, one, closing(space)});
    if (format_.open.empty()) return whole;
    const ExprId more = rules_.sequence({json_.space(), mark(format_.open), whole});
    return rules_.sequence({whole, rules_.repeat(more, 0, most)});
  }

  // Without a closing mark a call ends with its last bracket.
  ExprId closing(ExprId space) {
    if (format_.close.empty()) return rules_.empty();
    return rules_.sequence({space, mark(format_.close)});
  }

  // A block around calls that each have marks of their own.
  ExprId decorated(ExprId calls) {
    if (format_.shape != Shape::named || format_.decoration.size() != 2) return calls;
    return rules_.sequence({rules_.optional(mark(format_.decoration[0])), calls,
                            rules_.optional(mark(format_.decoration[1]))});
  }

  ExprId required(ExprId behind, const ToolRules& options) {
    const ExprId calls = decorated(rules_.sequence({mark(format_.open), behind}));
    if (format_.reasoning_close.empty()) return calls;
    const ExprId reasoned =
        marks_.text_until(format_.reasoning_close, rules_.sequence({json_.space(), calls}), false);
    if (options.starts_in_reasoning) return reasoned;
    return rules_.choice({calls, rules_.sequence({mark(format_.reasoning_open), reasoned})});
  }

  // Without an opening mark a call is known by its brace alone.
  ExprId automatic(ExprId behind) {
    if (!format_.open.empty()) return marks_.text_until(format_.open, behind, true);
    const ExprId other = rules_.choice({rules_.byte(0, '{' - 1), rules_.byte('{' + 1, 0xFE)});
    const ExprId any = rules_.repeat(rules_.byte(0, 0xFE), 0, kUnbounded);
    return rules_.choice({rules_.empty(), behind, rules_.sequence({other, any})});
  }

  ExprId harmony_call(const std::string& name, ExprId arguments) {
    const std::string to = " to=functions." + name;
    return rules_.sequence(
        {rules_.choice({mark(to + "<|channel|>commentary json<|message|>"),
                        mark("<|channel|>commentary" + to + " <|constrain|>json<|message|>")}),
         arguments});
  }

  // Thoughts and remarks, each a message of its own, and then the call or the answer.
  ExprId harmony(ExprId call, bool is_required) {
    const ExprId next = mark("<|start|>assistant");
    const auto message = [&](const char* channel) {
      return rules_.sequence({mark(std::string("<|channel|>") + channel + "<|message|>"),
                              marks_.text_until("<|end|>", next, false)});
    };
    const ExprId before = rules_.choice({message("analysis"), message("commentary")});
    const ExprId text = rules_.repeat(rules_.byte(0, 0xFE), 0, kUnbounded);
    const ExprId answer = rules_.sequence({mark("<|channel|>final<|message|>"), text});
    return rules_.sequence(
        {rules_.repeat(before, 0, kUnbounded), is_required ? call : rules_.choice({call, answer})});
  }

  GrammarRules& rules_;
  JsonText json_;
  MarkRules marks_;
  const ToolFormat& format_;
};

// What the rules depend on, beside the tools.
std::string format_key(const ToolFormat& format, const ToolRules& rules) {
  const ToolFormat::Tags& tags = format.tags;
  std::string key = "tools:";
  for (const std::string& text :
       {format.open, format.close, format.name_key, format.arguments_key, format.name_open,
        format.id_key, format.id_open, format.separator, tags.key_open, tags.key_close,
        tags.value_open, tags.value_close, tags.end, format.quote, format.reasoning_open,
        format.reasoning_close}) {
    key += text + '\n';
  }
  key += std::to_string(static_cast<int>(format.shape));
  for (const bool flag : {format.is_block, tags.is_typed, tags.on_lines, rules.parallel,
                          rules.starts_in_reasoning, rules.choice == ToolRules::Choice::required}) {
    key += flag ? 'y' : 'n';
  }
  return key;
}

}  // namespace

Result<ToolConstraint> tool_constraint(Grammars& grammars, const ToolFormat& format,
                                       const Json& tools, const ToolRules& rules) {
  ORRERY_TRY(const std::vector<Tool> known, read_tools(tools, rules.only));
  ToolConstraint out;
  std::vector<bool> holds;
  std::string key = format_key(format, rules);
  for (const Tool& tool : known) {
    const bool has_schema = !tool.parameters.is_null();
    const Status tried = has_schema ? try_schema(tool.parameters) : Status{};
    holds.push_back(has_schema && tried.has_value());
    if (!tried) out.notes.push_back(tool.name + ": " + tried.error().message);
    key += '\n' + tool.name;
    if (holds.back()) {
      key += tool.parameters.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
  }
  ORRERY_TRY(out.source, grammars.cached(key, [&](GrammarRules& made) {
    return ToolCompiler(made, grammars.tokenizer(), format).run(known, holds, rules);
  }));
  return out;
}

}  // namespace orrery::text
