#include "text/tool_argument_rules.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/json_schema.hpp"

namespace orrery::text {
namespace {

const Json* member(const Json& value, const char* key) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(key);
  return found == value.end() ? nullptr : &*found;
}

// The texts that a schema gives a choice of, or nothing.
std::vector<std::string> text_choices(const Json& schema) {
  std::vector<std::string> out;
  const Json* list = member(schema, "enum");
  const Json* one = member(schema, "const");
  const Json values = list != nullptr ? *list : one != nullptr ? Json::array({*one}) : Json();
  for (const Json& value : values) {
    if (!value.is_string()) return {};
    out.push_back(value.get<std::string>());
  }
  return out;
}

bool is_text(const Json& schema) {
  const Json* type = member(schema, "type");
  return type != nullptr ? *type == "string" : !text_choices(schema).empty();
}

bool is_required(const Json& parameters, const std::string& name) {
  const Json* required = member(parameters, "required");
  return required != nullptr && required->is_array() &&
         std::find(required->begin(), required->end(), name) != required->end();
}

class ArgumentRules {
 public:
  ArgumentRules(const ToolFormat& format, const Json& parameters, JsonText& json, MarkRules& marks)
      : format_(format),
        parameters_(parameters),
        json_(json),
        rules_(json.rules()),
        marks_(marks) {}

  ExprId tagged(bool holds) {
    const Json* properties = holds ? member(parameters_, "properties") : nullptr;
    std::vector<ExprId> parts;
    if (properties == nullptr || !properties->is_object() || properties->empty()) {
      parts.push_back(rules_.repeat(any_tag(), 0, kUnbounded));
    } else {
      for (const auto& item : properties->items()) {
        const ExprId one = tag(item.key(), item.value());
        parts.push_back(is_required(parameters_, item.key()) ? one : rules_.optional(one));
      }
    }
    parts.insert(parts.end(), {json_.space(), marks_.mark(format_.tags.end)});
    return rules_.sequence(parts);
  }

  ExprId quoted(bool holds) {
    if (!holds) return rules_.sequence({any_members(), rules_.literal("}")});
    return quoted_members(parameters_, 0);
  }

 private:
  ExprId tag(const std::string& key, const Json& schema) {
    const bool text = is_text(schema);
    const std::string type = text ? "\" string=\"true" : "\" string=\"false";
    const ExprId name = rules_.literal(key + (format_.tags.is_typed ? type : ""));
    const std::vector<std::string> choices =
        text ? text_choices(schema) : std::vector<std::string>();
    if (text && choices.empty()) return tag_of(name, until_close());
    std::vector<ExprId> values;
    for (const std::string& choice : choices) values.push_back(rules_.literal(choice));
    const ExprId value = text ? rules_.choice(values) : json_value(schema);
    const ExprId line = rules_.literal(format_.tags.on_lines ? "\n" : "");
    return tag_of(name,
                  rules_.sequence({line, value, line, marks_.mark(format_.tags.value_close)}));
  }

  ExprId any_tag() {
    const CharSet name = {{'-', '.'}, {'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    const ExprId type =
        rules_.choice({rules_.literal("\" string=\"true"), rules_.literal("\" string=\"false")});
    return tag_of(rules_.sequence({rules_.repeat(rules_.chars(name), 1, 64),
                                   format_.tags.is_typed ? type : rules_.empty()}),
                  until_close());
  }

  // `value` with its closing tag.
  ExprId tag_of(ExprId name, ExprId value) {
    const ToolFormat::Tags& tags = format_.tags;
    const bool is_pair = !tags.value_open.empty();
    return rules_.sequence({json_.space(), marks_.mark(tags.key_open), name,
                            marks_.mark(tags.key_close), is_pair ? json_.space() : rules_.empty(),
                            marks_.mark(tags.value_open), value});
  }

  ExprId until_close() {
    if (!until_close_) {
      until_close_ = rules_.rule(
          "argument", marks_.text_until(format_.tags.value_close, rules_.empty(), false));
    }
    return *until_close_;
  }

  // References lead into the schema of all parameters.
  ExprId json_value(const Json& schema) {
    Json whole = schema;
    for (const char* key : {"$defs", "definitions"}) {
      const Json* defs = member(parameters_, key);
      if (defs != nullptr && whole.is_object() && !whole.contains(key)) whole[key] = *defs;
    }
    const auto made = schema_value(whole, json_);
    return made && *made != rules_.never() ? *made : json_.value();
  }

  // Behind the brace, with the closing one. Names in their order, as templates write them.
  // NOLINTNEXTLINE(misc-no-recursion): bounded by depth
  ExprId quoted_members(const Json& schema, int depth) {
    const Json* properties = member(schema, "properties");
    const bool is_open = properties == nullptr || !properties->is_object() || properties->empty();
    if (is_open) return rules_.sequence({any_members(), rules_.literal("}")});
    std::vector<std::string> names;
    for (const auto& item : properties->items()) names.push_back(item.key());
    std::sort(names.begin(), names.end());
    // As the members of a JSON object: nothing or something stands before them already.
    ExprId rest[2] = {rules_.literal("}"), rules_.literal("}")};
    for (std::size_t i = names.size(); i-- > 0;) {
      const std::string& name = names[i];
      const ExprId one = rules_.rule(
          "argument", rules_.sequence({rules_.literal(name + ":"),
                                       quoted_value((*properties)[name], depth + 1), rest[1]}));
      const ExprId later = rules_.sequence({rules_.literal(","), one});
      const bool required = is_required(schema, name);
      rest[0] = rules_.rule("argument", required ? one : rules_.choice({one, rest[0]}));
      rest[1] = rules_.rule("argument", required ? later : rules_.choice({later, rest[1]}));
    }
    return rest[0];
  }

  // NOLINTNEXTLINE(misc-no-recursion): bounded by depth
  ExprId quoted_value(const Json& schema, int depth) {
    constexpr int kMaxDepth = 32;
    const Json* type = member(schema, "type");
    const std::string name = type != nullptr && type->is_string() ? type->get<std::string>() : "";
    if (is_text(schema)) return quoted_text(text_choices(schema));
    if (name == "integer" || name == "number" || name == "boolean") return json_value(schema);
    if (depth > kMaxDepth) return any_value();
    if (name == "array") {
      const Json* items = member(schema, "items");
      return list_of(items == nullptr ? any_value() : quoted_value(*items, depth + 1));
    }
    if (name == "object" && member(schema, "properties") != nullptr) {
      return rules_.sequence({rules_.literal("{"), quoted_members(schema, depth)});
    }
    return any_value();
  }

  ExprId list_of(ExprId item) {
    const ExprId more = rules_.repeat(rules_.sequence({rules_.literal(","), item}), 0, kUnbounded);
    return rules_.sequence(
        {rules_.literal("["), rules_.optional(rules_.sequence({item, more})), rules_.literal("]")});
  }

  ExprId quoted_text(const std::vector<std::string>& choices) {
    const ExprId quote = marks_.mark(format_.quote);
    if (choices.empty()) {
      if (!text_) {
        text_ = rules_.rule("text", marks_.text_until(format_.quote, rules_.empty(), false));
      }
      return rules_.sequence({quote, *text_});
    }
    std::vector<ExprId> out;
    for (const std::string& choice : choices) out.push_back(rules_.literal(choice));
    return rules_.sequence({quote, rules_.choice(out), quote});
  }

  ExprId any_members() {
    const CharSet name = {{'-', '.'}, {'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    const ExprId one = rules_.sequence(
        {rules_.repeat(rules_.chars(name), 1, 64), rules_.literal(":"), any_value()});
    const ExprId more = rules_.repeat(rules_.sequence({rules_.literal(","), one}), 0, kUnbounded);
    return rules_.optional(rules_.sequence({one, more}));
  }

  // NOLINTNEXTLINE(misc-no-recursion): the rule is declared before its body is made
  ExprId any_value() {
    if (any_) return rules_.call(*any_);
    any_ = rules_.declare("value");
    const ExprId object =
        rules_.sequence({rules_.literal("{"), any_members(), rules_.literal("}")});
    rules_.define(*any_, rules_.choice({quoted_text({}), object, list_of(rules_.call(*any_)),
                                        json_.number(), rules_.literal("true"),
                                        rules_.literal("false"), rules_.literal("null")}));
    return rules_.call(*any_);
  }

  const ToolFormat& format_;
  const Json& parameters_;
  JsonText& json_;
  GrammarRules& rules_;
  MarkRules& marks_;
  std::optional<ExprId> until_close_, text_;
  std::optional<RuleId> any_;
};

}  // namespace

TextArguments text_arguments(const Json& tools) {
  TextArguments out;
  for (const Json& tool : tools) {
    const Json* inner = member(tool, "function");
    const Json& function = inner != nullptr ? *inner : tool;
    const Json* name = member(function, "name");
    const Json* parameters = member(function, "parameters");
    const Json* properties = parameters == nullptr ? nullptr : member(*parameters, "properties");
    if (name == nullptr || !name->is_string() || properties == nullptr) continue;
    if (!properties->is_object()) continue;
    for (const auto& item : properties->items()) {
      if (is_text(item.value())) out.emplace(name->get<std::string>(), item.key());
    }
  }
  return out;
}

ExprId argument_rules(const ToolFormat& format, const Json& parameters, bool holds, JsonText& json,
                      MarkRules& marks) {
  ArgumentRules made(format, parameters, json, marks);
  return format.shape == ToolFormat::Shape::tagged ? made.tagged(holds) : made.quoted(holds);
}

}  // namespace orrery::text
