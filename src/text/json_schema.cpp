#include "text/json_schema.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "text/json_schema_flatten.hpp"
#include "text/json_schema_number.hpp"
#include "text/json_schema_types.hpp"

namespace orrery::text {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxValues = 200'000;

// What a schema can say and we do not hold: better no answer than one that does not fit.
constexpr std::array kUnsupported = {"not",
                                     "if",
                                     "then",
                                     "else",
                                     "contains",
                                     "minContains",
                                     "maxContains",
                                     "dependentRequired",
                                     "dependentSchemas",
                                     "dependencies",
                                     "propertyNames",
                                     "unevaluatedItems",
                                     "$dynamicRef",
                                     "$recursiveRef"};

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, JsonText& json)
      : root_(root), json_(json), rules_(json.rules()) {}

  Result<ExprId> run() {
    ORRERY_TRY(const ExprId whole, value(root_, "$", 0));
    while (!pending_.empty()) {
      const Pending next = pending_.front();
      pending_.pop_front();
      ORRERY_TRY(const ExprId body, value(*next.schema, next.path, 0));
      rules_.define(next.rule, body);
    }
    return whole;
  }

 private:
  struct Pending {
    RuleId rule;
    const Json* schema;
    std::string path;
  };

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> value(const Json& schema, const std::string& path, std::size_t depth) {
    ORRERY_TRY_VOID(budget_.take(1));
    if (rules_.overflowed()) return fail("E_LIMIT", path + ": the schema says too much");
    if (depth > kMaxDepth) return schema_error(path, "is more than 64 levels deep");
    if (schema.is_boolean()) return schema.get<bool>() ? json_.value() : rules_.never();
    if (!schema.is_object()) return schema_error(path, "is no schema: an object, true or false");
    if (schema.contains("$ref") && only(schema, {"$ref"})) return reference(schema, path);
    if (schema.contains("$ref") || schema.contains("allOf")) {
      ORRERY_TRY(const Json flat, flatten_schema(root_, schema, path, budget_));
      return value(flat, path, depth + 1);
    }
    ORRERY_TRY_VOID(check_keywords(schema, path));
    for (const char* key : {"anyOf", "oneOf"}) {
      if (schema.contains(key)) return choices(schema, key, path, depth);
    }
    ORRERY_TRY(const ExprId plain, typed(schema, path, depth));
    const auto nullable = schema.find("nullable");
    const bool is_nullable = nullable != schema.end() && *nullable == Json(true);
    return is_nullable ? rules_.choice({plain, rules_.literal("null")}) : plain;
  }

  // Whether all keywords but annotations are among these.
  static bool only(const Json& schema, std::initializer_list<std::string_view> keys) {
    const auto items = schema.items();
    return std::all_of(items.begin(), items.end(), [&](const auto& item) {
      return is_annotation(item.key()) ||
             std::find(keys.begin(), keys.end(), item.key()) != keys.end();
    });
  }

  static Status check_keywords(const Json& schema, const std::string& path) {
    for (const char* key : kUnsupported) {
      if (schema.contains(key)) {
        return schema_error(path + "." + key, "is not supported; leave it out");
      }
    }
    const auto unique = schema.find("uniqueItems");
    if (unique != schema.end() && *unique != Json(false)) {
      return schema_error(path + ".uniqueItems", "is not supported; leave it out");
    }
    return {};
  }

  Result<ExprId> reference(const Json& schema, const std::string& path) {
    ORRERY_TRY(const Json* const target, resolve_reference(root_, schema["$ref"], path));
    const auto known = references_.find(target);
    if (known != references_.end()) return rules_.call(known->second);
    const std::string name = "$" + schema["$ref"].get<std::string>().substr(0, 128);
    const RuleId rule = rules_.declare(name);
    references_.emplace(target, rule);
    pending_.push_back({rule, target, name});
    return rules_.call(rule);
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> choices(const Json& schema, const std::string& key, const std::string& path,
                         std::size_t depth) {
    const Json& list = schema[key];
    const std::string at = path + "." + key;
    if (!list.is_array() || list.empty()) return schema_error(at, "is not a list of schemas");
    Json others = schema;
    others.erase(key);
    const bool is_alone = only(others, {"type"}) && !others.contains("type");
    std::vector<ExprId> out;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string place = at + "[" + std::to_string(i) + "]";
      if (is_alone) {
        ORRERY_TRY(out.emplace_back(), value(list[i], place, depth + 1));
        continue;
      }
      ORRERY_TRY(const Json flat, flatten_schema(root_, list[i], place, budget_));
      ORRERY_TRY(const Json merged, merge_schemas(others, flat, place));
      ORRERY_TRY(out.emplace_back(), value(merged, place, depth + 1));
    }
    return rules_.choice(out);
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> typed(const Json& schema, const std::string& path, std::size_t depth) {
    ORRERY_TRY(const std::vector<std::string> types, types_of(schema, path));
    for (const char* key : {"const", "enum"}) {
      if (schema.contains(key)) return given_values(schema, key, types, path);
    }
    if (types.empty()) return json_.value();
    std::vector<ExprId> out;
    for (const std::string& type : types) {
      ORRERY_TRY(out.emplace_back(), of_type(type, schema, path, depth));
    }
    return rules_.choice(out);
  }

  // Where no type is said, that of the first keyword that is meant for one; else none.
  static Result<std::vector<std::string>> types_of(const Json& schema, const std::string& path) {
    constexpr std::array kTypes = {"null",    "boolean", "object", "array",
                                   "integer", "number",  "string"};
    std::vector<std::string> out;
    if (const auto type = schema.find("type"); type != schema.end()) {
      const Json list = type->is_array() ? *type : Json::array({*type});
      for (const Json& name : list) {
        const bool is_known =
            name.is_string() &&
            std::find(kTypes.begin(), kTypes.end(), name.get<std::string>()) != kTypes.end();
        if (!is_known) return schema_error(path + ".type", "names no JSON type");
        out.push_back(name.get<std::string>());
      }
      if (out.empty()) return schema_error(path + ".type", "leaves no type over");
      return out;
    }
    constexpr std::array<std::pair<const char*, const char*>, 18> kMeantFor = {
        {{"properties", "object"},
         {"required", "object"},
         {"additionalProperties", "object"},
         {"patternProperties", "object"},
         {"minProperties", "object"},
         {"maxProperties", "object"},
         {"items", "array"},
         {"prefixItems", "array"},
         {"minItems", "array"},
         {"maxItems", "array"},
         {"pattern", "string"},
         {"minLength", "string"},
         {"maxLength", "string"},
         {"minimum", "number"},
         {"maximum", "number"},
         {"exclusiveMinimum", "number"},
         {"exclusiveMaximum", "number"},
         {"multipleOf", "number"}}};
    for (const auto& [key, type] : kMeantFor) {
      if (schema.contains(key)) return std::vector<std::string>{type};
    }
    return out;
  }

  static bool is_of_type(const Json& value, const std::string& type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "integer") return value.is_number_integer();
    return type == "number" ? value.is_number() : value.is_string();
  }

  Result<ExprId> given_values(const Json& schema, const std::string& key,
                              const std::vector<std::string>& types, const std::string& path) {
    const std::string at = path + "." + key;
    if (!only(schema, {key, "type", "nullable", "format"})) {
      return schema_error(at, "cannot be combined with other conditions on the value");
    }
    const Json& said = schema[key];
    if (key == "enum" && (!said.is_array() || said.empty())) {
      return schema_error(at, "is not a list of values");
    }
    const Json values = key == "enum" ? said : Json::array({said});
    ORRERY_TRY_VOID(budget_.take(values.size()));
    std::vector<ExprId> out;
    for (const Json& value : values) {
      const bool fits =
          types.empty() || std::any_of(types.begin(), types.end(), [&](const std::string& type) {
            return is_of_type(value, type);
          });
      if (fits) out.push_back(json_.literal(value));
    }
    if (out.empty()) return schema_error(at, "has no value of the type");
    return rules_.choice(out);
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> of_type(const std::string& type, const Json& schema, const std::string& path,
                         std::size_t depth) {
    const SubSchema sub = [&, depth](const Json& inner, const std::string& at) {
      return value(inner, at, depth + 1);
    };
    if (type == "object") return object_schema(schema, path, json_, sub);
    if (type == "array") return array_schema(schema, path, json_, sub);
    if (type == "string") return string_schema(schema, path, json_);
    if (type == "null") return rules_.literal("null");
    if (type == "boolean") return rules_.choice({rules_.literal("true"), rules_.literal("false")});
    return number_schema(schema, type == "integer", path, json_);
  }

  const Json& root_;
  JsonText& json_;
  GrammarRules& rules_;
  SchemaBudget budget_;
  std::map<const Json*, RuleId> references_;
  std::deque<Pending> pending_;
};

}  // namespace

Status check_schema_size(const Json& schema) {
  std::vector<std::pair<const Json*, std::size_t>> todo = {{&schema, 0}};
  for (std::size_t n = 0; !todo.empty(); ++n) {
    const auto [value, depth] = todo.back();
    todo.pop_back();
    if (depth > kMaxDepth) return schema_error("$", "is more than 64 levels deep");
    if (n > kMaxValues) return fail("E_LIMIT", "$: the schema has more than 200000 values");
    for (const Json& inner : *value) {
      if (value->is_structured()) todo.emplace_back(&inner, depth + 1);
    }
  }
  return {};
}

Result<ExprId> schema_value(const Json& schema, JsonText& json) {
  ORRERY_TRY_VOID(check_schema_size(schema));
  return SchemaCompiler(schema, json).run();
}

Result<RuleId> schema_rules(const Json& schema, GrammarRules& rules) {
  JsonText json(rules);
  ORRERY_TRY(const ExprId body, schema_value(schema, json));
  const RuleId root = rules.declare("$");
  rules.define(root, body);
  return root;
}

}  // namespace orrery::text
