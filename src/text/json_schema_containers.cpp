// Arrays and objects of a schema.
#include <algorithm>
#include <utility>
#include <vector>

#include "text/grammar_regex.hpp"
#include "text/json_schema_flatten.hpp"
#include "text/json_schema_types.hpp"

namespace orrery::text {
namespace {

constexpr std::size_t kMaxKeyBytes = 512;

struct Property {
  std::string name;
  ExprId value = 0;
  bool is_required = false;
};

class ObjectCompiler {
 public:
  ObjectCompiler(const Json& schema, const std::string& path, JsonText& json, const SubSchema& sub)
      : schema_(schema), path_(path), json_(json), rules_(json.rules()), sub_(sub) {}

  Result<ExprId> run() {
    ORRERY_TRY_VOID(read_required());
    ORRERY_TRY_VOID(read_others());
    ORRERY_TRY_VOID(read_properties());
    ORRERY_TRY(const std::uint32_t min, schema_count(schema_, "minProperties", 0, path_));
    ORRERY_TRY(const std::uint32_t max, schema_count(schema_, "maxProperties", kUnbounded, path_));
    if (properties_.empty()) return map(min, max);
    ORRERY_TRY_VOID(check_counts(min, max));
    return rules_.sequence({json_.mark("{"), members(), rules_.literal("}")});
  }

 private:
  Status read_required() {
    const auto found = schema_.find("required");
    if (found == schema_.end() || found->is_boolean()) return {};  // a boolean is draft 3's
    if (!found->is_array()) return schema_error(path_ + ".required", "is not a list of names");
    for (const Json& name : *found) {
      if (!name.is_string()) return schema_error(path_ + ".required", "is not a list of names");
      required_.push_back(name.get<std::string>());
    }
    return {};
  }

  // What other properties may be: absent means any, but none beside listed ones.
  Status read_others() {
    const auto listed = schema_.find("properties");
    const bool is_open = listed == schema_.end() || (listed->is_object() && listed->empty());
    has_patterns_ = schema_.contains("patternProperties") && !schema_["patternProperties"].empty();
    Json others = is_open && !has_patterns_;
    for (const char* key : {"unevaluatedProperties", "additionalProperties"}) {
      if (schema_.contains(key)) others = schema_[key];
    }
    unlisted_ = schema_.contains("additionalProperties") ? others : Json(true);
    if (!has_patterns_) {
      if (others == Json(false)) return {};
      others_are_any_ = others == Json(true) || others == Json::object();
      ORRERY_TRY(others_, sub_(others, path_ + ".additionalProperties"));
      return {};
    }
    const Json& patterns = schema_["patternProperties"];
    const std::string at = path_ + ".patternProperties";
    if (!patterns.is_object() || patterns.size() != 1 || others != Json(false) || !is_open) {
      return schema_error(at, "is supported with one pattern and no other properties only");
    }
    auto key = parse_regex(patterns.begin().key(), rules_, {.search = true, .json_string = true});
    if (!key) return schema_error(at, key.error().message);
    key_ = rules_.sequence({rules_.literal("\""), *key, rules_.literal("\"")});
    ORRERY_TRY(others_, sub_(*patterns.begin(), at));
    return {};
  }

  bool is_required(const std::string& name) const {
    return std::find(required_.begin(), required_.end(), name) != required_.end();
  }

  Status read_properties() {
    if (const auto found = schema_.find("properties"); found != schema_.end()) {
      if (!found->is_object()) return schema_error(path_ + ".properties", "is not an object");
      for (const auto& item : found->items()) {
        const std::string at = path_ + ".properties." + item.key().substr(0, 128);
        ORRERY_TRY_VOID(add(item.key(), item.value(), at));
      }
    }
    for (const std::string& name : required_) {
      const bool is_listed = std::find(names_.begin(), names_.end(), name) != names_.end();
      if (is_listed) continue;
      if (has_patterns_) {
        return schema_error(path_ + ".required", "is not supported beside patternProperties");
      }
      ORRERY_TRY_VOID(add(name, unlisted_, path_ + ".required"));
    }
    return {};
  }

  Status add(const std::string& name, const Json& value, const std::string& at) {
    if (name.size() > kMaxKeyBytes) return fail("E_LIMIT", at + ": the name is above 512 bytes");
    ORRERY_TRY(const ExprId body, sub_(value, at));
    names_.push_back(name);
    if (body == rules_.never()) {
      if (is_required(name)) return schema_error(at, "is required, but no value fits");
      return {};
    }
    properties_.push_back({name, body, is_required(name)});
    return {};
  }

  Status check_counts(std::uint32_t min, std::uint32_t max) const {
    const auto n = static_cast<std::size_t>(std::count_if(
        properties_.begin(), properties_.end(), [](const Property& p) { return p.is_required; }));
    if (min > n) {
      return schema_error(path_ + ".minProperties",
                          "above the number of required properties is not supported");
    }
    if (max < properties_.size() || (others_ && max != kUnbounded)) {
      return schema_error(path_ + ".maxProperties", "below what is listed is not supported");
    }
    return {};
  }

  ExprId member(ExprId key, ExprId value) {
    return rules_.sequence({key, json_.space(), json_.mark(":"), value, json_.space()});
  }

  Result<ExprId> map(std::uint32_t min, std::uint32_t max) {
    // Equal names count once for a reader of JSON.
    if (min > 1) return schema_error(path_ + ".minProperties", "above 1 is not supported");
    if (min > max || (min > 0 && !others_)) {
      return schema_error(path_ + ".minProperties", "is above what is allowed");
    }
    if (!others_) return rules_.sequence({json_.mark("{"), rules_.literal("}")});
    if (others_are_any_ && min == 0 && max == kUnbounded && names_.empty()) return json_.object();
    const ExprId key = key_ ? *key_ : names_.empty() ? json_.string() : json_.string_except(names_);
    const ExprId one = member(key, *others_);
    ExprId all = rules_.empty();
    if (max > 0) {
      const std::uint32_t more = max == kUnbounded ? kUnbounded : max - 1;
      const ExprId rest = rules_.repeat(rules_.sequence({json_.mark(","), one}), 0, more);
      all = rules_.sequence({one, rest});
      if (min == 0) all = rules_.optional(all);
    }
    return rules_.sequence({json_.mark("{"), all, rules_.literal("}")});
  }

  // From behind: what may follow when the properties from i on are left, nothing or something
  // being written already.
  ExprId members() {
    ExprId rest[2] = {rules_.empty(), rules_.empty()};
    if (others_) {
      const ExprId one = rules_.rule(path_, member(json_.string_except(names_), *others_));
      const ExprId more = rules_.repeat(rules_.sequence({json_.mark(","), one}), 0, kUnbounded);
      rest[1] = rules_.rule(path_, more);
      rest[0] = rules_.optional(rules_.sequence({one, rest[1]}));
    }
    for (std::size_t i = properties_.size(); i-- > 0;) {
      const Property& p = properties_[i];
      const std::string key = Json(p.name).dump(-1, ' ', false, Json::error_handler_t::replace);
      const ExprId one =
          rules_.rule(path_, rules_.sequence({member(rules_.literal(key), p.value), rest[1]}));
      const ExprId first = one;
      const ExprId later = rules_.sequence({json_.mark(","), one});
      rest[0] = rules_.rule(path_, p.is_required ? first : rules_.choice({first, rest[0]}));
      rest[1] = rules_.rule(path_, p.is_required ? later : rules_.choice({later, rest[1]}));
    }
    return rest[0];
  }

  const Json& schema_;
  const std::string& path_;
  JsonText& json_;
  GrammarRules& rules_;
  const SubSchema& sub_;
  std::vector<std::string> required_;
  std::vector<std::string> names_;  // listed or required, allowed or not
  std::vector<Property> properties_;
  std::optional<ExprId> others_;  // the value of other properties, if there may be any
  std::optional<ExprId> key_;     // their names, where a pattern says
  Json unlisted_;                 // the schema of what is required and not listed
  bool others_are_any_ = false;
  bool has_patterns_ = false;
};

}  // namespace

Result<ExprId> object_schema(const Json& schema, const std::string& path, JsonText& json,
                             const SubSchema& sub) {
  return ObjectCompiler(schema, path, json, sub).run();
}

Result<ExprId> array_schema(const Json& schema, const std::string& path, JsonText& json,
                            const SubSchema& sub) {
  GrammarRules& rules = json.rules();
  ORRERY_TRY(const std::uint32_t min, schema_count(schema, "minItems", 0, path));
  ORRERY_TRY(const std::uint32_t max, schema_count(schema, "maxItems", kUnbounded, path));
  if (min > max) return schema_error(path + ".minItems", "is above maxItems");
  // Before draft 2020-12 a list of schemas was `items`, and what follows it `additionalItems`.
  const bool is_old = schema.contains("items") && schema["items"].is_array();
  const char* const first_key = is_old ? "items" : "prefixItems";
  const char* const rest_key = is_old ? "additionalItems" : "items";
  const Json first = schema.contains(first_key) ? schema[first_key] : Json::array();
  if (!first.is_array()) return schema_error(path + "." + first_key, "is not a list of schemas");
  const Json others = schema.contains(rest_key) ? schema[rest_key] : Json(first.empty());
  const auto item = [&](ExprId value) { return rules.sequence({value, json.space()}); };
  const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(first.size(), max));

  ExprId rest = rules.empty();  // behind the first n
  if (others != Json(false) && max > n) {
    ORRERY_TRY(const ExprId value, sub(others, path + "." + rest_key));
    const ExprId one = value == rules.never() ? value : rules.rule(path, item(value));
    const ExprId next = rules.sequence({json.mark(","), one});
    const std::uint32_t low = min > n ? min - n : 0;
    const std::uint32_t high = max == kUnbounded ? kUnbounded : max - n;
    rest = rules.repeat(next, low, high);
    if (n == 0) {
      const std::uint32_t more = high == kUnbounded ? high : high - 1;
      rest = rules.sequence({one, rules.repeat(next, low > 0 ? low - 1 : 0, more)});
      if (low == 0) rest = rest == rules.never() ? rules.empty() : rules.optional(rest);
    }
  } else if (min > n) {
    return schema_error(path + ".minItems", "is above what the items allow");
  }
  for (std::uint32_t i = n; i-- > 0;) {
    const std::string at = path + "." + first_key + "[" + std::to_string(i) + "]";
    ORRERY_TRY(const ExprId value, sub(first[i], at));
    const ExprId separator = i > 0 ? json.mark(",") : rules.empty();
    rest = rules.sequence({separator, item(value), rest});
    rest = rules.rule(path, i >= min ? rules.optional(rest) : rest);
  }
  return rules.sequence({json.mark("["), rest, rules.literal("]")});
}

}  // namespace orrery::text
