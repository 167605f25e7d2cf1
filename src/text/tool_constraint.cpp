#include "text/tool_constraint.hpp"

#include <algorithm>
#include <utility>

#include "text/grammar_program.hpp"
#include "text/json_schema.hpp"
#include "text/json_text.hpp"

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
      : rules_(rules), json_(rules), tokenizer_(tokenizer), format_(format) {}

  Result<RuleId> run(const std::vector<Tool>& tools, const std::vector<bool>& holds,
                     const ToolRules& options) {
    std::vector<ExprId> calls;
    for (std::size_t i = 0; i < tools.size(); ++i) {
      ExprId arguments = json_.object();
      if (holds[i]) {
        ORRERY_TRY(arguments, schema_value(tools[i].parameters, json_));
      }
      calls.push_back(call(tools[i].name, arguments));
    }
    const ExprId behind = behind_open(rules_.rule("call", rules_.choice(calls)), options.parallel);
    const RuleId root = rules_.declare("reply");
    rules_.define(root, options.choice == ToolRules::Choice::required ? required(behind, options)
                                                                      : automatic(behind, options));
    return root;
  }

 private:
  using Shape = ToolFormat::Shape;

  // Marks may be special tokens, or several beside each other.
  ExprId mark(std::string_view text) {
    std::vector<ExprId> parts;
    while (!text.empty()) {
      std::size_t length = text.size();
      while (length > 0 && !is_special(text.substr(0, length))) --length;
      if (length > 0) {
        parts.push_back(rules_.special(text.substr(0, length)));
        text.remove_prefix(length);
        continue;
      }
      std::size_t plain = 1;  // up to where the next special one begins
      while (plain < text.size() && !begins_special(text.substr(plain))) ++plain;
      parts.push_back(rules_.literal(text.substr(0, plain)));
      text.remove_prefix(plain);
    }
    return rules_.sequence(parts);
  }

  bool is_special(std::string_view text) const {
    const TokenId id = tokenizer_.find(text);
    return id != kNoToken && tokenizer_.is_special(id);
  }

  bool begins_special(std::string_view text) const {
    for (std::size_t n = 3; n <= text.size(); ++n) {
      if (is_special(text.substr(0, n))) return true;
    }
    return false;
  }

  ExprId call(const std::string& name, ExprId arguments) {
    if (format_.shape == Shape::named) {
      return rules_.sequence({rules_.literal(name), mark(format_.separator), arguments});
    }
    const auto key = [&](const std::string& text) {
      return rules_.sequence({rules_.literal('"' + text + '"'), json_.space(), json_.mark(":")});
    };
    return rules_.sequence({json_.mark("{"), key("name"), rules_.literal('"' + name + '"'),
                            json_.space(), json_.mark(","), key(format_.arguments_key), arguments,
                            json_.space(), rules_.literal("}")});
  }

  // All that follows the first opening mark.
  ExprId behind_open(ExprId one, bool parallel) {
    const std::uint32_t most = parallel ? kUnbounded : 0;
    if (format_.shape == Shape::list) {
      const ExprId more = rules_.sequence({json_.space(), json_.mark(","), one});
      return rules_.sequence(
          {json_.mark("["), one, rules_.repeat(more, 0, most), json_.space(), rules_.literal("]")});
    }
    const bool is_tight = format_.shape == Shape::named;
    const ExprId space = is_tight ? rules_.empty() : json_.space();
    const ExprId whole = rules_.sequence({space, one, space, mark(format_.close)});
    if (format_.open.empty()) return whole;
    const ExprId more = rules_.sequence({json_.space(), mark(format_.open), whole});
    return rules_.sequence({whole, rules_.repeat(more, 0, most)});
  }

  ExprId decorated(ExprId calls) {
    if (format_.shape != Shape::named || format_.decoration.size() != 2) return calls;
    return rules_.sequence({rules_.optional(mark(format_.decoration[0])), calls,
                            rules_.optional(mark(format_.decoration[1]))});
  }

  ExprId required(ExprId behind, const ToolRules& options) {
    const ExprId calls = decorated(rules_.sequence({mark(format_.open), behind}));
    if (format_.reasoning_close.empty()) return calls;
    const ExprId reasoned =
        text_until(format_.reasoning_close, rules_.sequence({json_.space(), calls}), false);
    if (options.starts_in_reasoning) return reasoned;
    return rules_.choice({calls, rules_.sequence({mark(format_.reasoning_open), reasoned})});
  }

  // Without an opening mark a call is known by its brace alone.
  ExprId automatic(ExprId behind, const ToolRules&) {
    if (!format_.open.empty()) return text_until(format_.open, behind, true);
    const ExprId other = rules_.choice({rules_.byte(0, '{' - 1), rules_.byte('{' + 1, 0xFE)});
    const ExprId any = rules_.repeat(rules_.byte(0, 0xFE), 0, kUnbounded);
    return rules_.choice({rules_.empty(), behind, rules_.sequence({other, any})});
  }

  // Any text up to the first `stop`, and then what has to follow; or to the end, if it may end
  // without. Special tokens of the format may stand in it.
  ExprId text_until(const std::string& stop, ExprId then, bool may_end) {
    if (is_special(stop)) {
      const ExprId any = rules_.repeat(free_token(stop), 0, kUnbounded);
      const ExprId rest = rules_.sequence({rules_.special(stop), then});
      return rules_.sequence({any, may_end ? rules_.optional(rest) : rest});
    }
    // One rule for each number of bytes of `stop` that the text ends with.
    std::vector<RuleId> states;
    for (std::size_t i = 0; i < stop.size(); ++i) states.push_back(rules_.declare("text"));
    const auto after = [&](std::size_t matched, char byte) {
      std::string tail = stop.substr(0, matched) + byte;
      while (!tail.empty() && !stop.starts_with(tail)) tail.erase(0, 1);
      return tail.size();
    };
    for (std::size_t i = 0; i < stop.size(); ++i) {
      std::string known = stop;
      std::sort(known.begin(), known.end(), [](char a, char b) {
        return static_cast<std::uint8_t>(a) < static_cast<std::uint8_t>(b);
      });
      known.erase(std::unique(known.begin(), known.end()), known.end());
      std::vector<ExprId> choices;
      if (may_end) choices.push_back(rules_.empty());
      int next = 0;
      for (const char c : known) {
        const int byte = static_cast<std::uint8_t>(c);
        if (byte > next) choices.push_back(plain(next, byte - 1, states[0]));
        next = byte + 1;
        const std::size_t to = after(i, c);
        const ExprId rest = to == stop.size() ? then : rules_.call(states[to]);
        choices.push_back(rules_.sequence({rules_.literal(std::string_view(&c, 1)), rest}));
      }
      if (next < 0xFF) choices.push_back(plain(next, 0xFE, states[0]));
      for (const std::string& text : format_specials(stop)) {
        choices.push_back(rules_.sequence({rules_.special(text), rules_.call(states[0])}));
      }
      rules_.define(states[i], rules_.choice(choices));
    }
    return rules_.call(states[0]);
  }

  ExprId plain(int first, int last, RuleId then) {
    return rules_.sequence(
        {rules_.byte(static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)),
         rules_.call(then)});
  }

  std::vector<std::string> format_specials(const std::string& but) const {
    std::vector<std::string> out;
    for (const std::string& text : {format_.reasoning_open, format_.reasoning_close}) {
      if (!text.empty() && text != but && is_special(text)) out.push_back(text);
    }
    for (const std::string& text : format_.decoration) {
      if (is_special(text)) out.push_back(text);
    }
    return out;
  }

  ExprId free_token(const std::string& but) {
    std::vector<ExprId> choices = {rules_.byte(0, 0xFE)};
    for (const std::string& text : format_specials(but)) choices.push_back(rules_.special(text));
    return rules_.choice(choices);
  }

  GrammarRules& rules_;
  JsonText json_;
  const Tokenizer& tokenizer_;
  const ToolFormat& format_;
};

}  // namespace

Result<ToolConstraint> tool_constraint(Grammars& grammars, const ToolFormat& format,
                                       const Json& tools, const ToolRules& rules) {
  ORRERY_TRY(const std::vector<Tool> known, read_tools(tools, rules.only));
  ToolConstraint out;
  std::vector<bool> holds;
  std::string key = "tools:" + format.open + '\n' + format.separator + '\n' + format.close + '\n' +
                    format.arguments_key + '\n' + format.reasoning_close +
                    std::to_string(static_cast<int>(format.shape)) +
                    std::to_string(static_cast<int>(rules.choice)) + (rules.parallel ? "p" : "s") +
                    (rules.starts_in_reasoning ? "r" : "n");
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
