// Strings and numbers of a schema.
#include <array>
#include <utility>
#include <vector>

#include "text/grammar_regex.hpp"
#include "text/json_schema_flatten.hpp"
#include "text/json_schema_number.hpp"
#include "text/json_schema_types.hpp"

namespace orrery::text {
namespace {

#define ORRERY_DATE_ R"(\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8]))"
#define ORRERY_TIME_ R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))"

// Formats that are held; others say nothing, as draft 2020-12 has it. Days end at 28, so that
// every date exists.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kFormats = {{
    {"date", "^" ORRERY_DATE_ "$"},
    {"time", "^" ORRERY_TIME_ "$"},
    {"date-time", "^" ORRERY_DATE_ "T" ORRERY_TIME_ "$"},
    {"uuid", R"(^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$)"},
    {"email", R"(^[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$)"},
    {"ipv4", R"(^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$)"},
    {"uri", R"(^[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9.-]+(:\d{1,5})?(/[\w.~/-]*)?(\?[\w.~=&-]*)?$)"},
}};

#undef ORRERY_DATE_
#undef ORRERY_TIME_

// "^X+$" and "^X*$" with one class X: the only patterns that go together with lengths.
std::string_view repeated_class(std::string_view pattern) {
  const bool is_shaped = pattern.size() > 3 && pattern.starts_with('^') &&
                         (pattern.ends_with("+$") || pattern.ends_with("*$"));
  if (!is_shaped) return {};
  const std::string_view inner = pattern.substr(1, pattern.size() - 3);
  const bool is_class = inner.starts_with('[') && inner.find(']') == inner.size() - 1;
  const bool is_one = inner == "." || (inner.size() == 2 && inner[0] == '\\');
  return is_class || is_one ? inner : std::string_view{};
}

Result<ExprId> pattern_text(std::string_view pattern, const std::string& path, JsonText& json) {
  auto body = parse_regex(pattern, json.rules(), {.search = true, .json_string = true});
  if (!body) {
    if (body.error().kind == "E_LIMIT") return body;
    return schema_error(path + ".pattern", body.error().message);
  }
  return body;
}

}  // namespace

Result<std::uint32_t> schema_count(const Json& schema, const std::string& key,
                                   std::uint32_t otherwise, const std::string& path) {
  const auto found = schema.find(key);
  if (found == schema.end()) return otherwise;
  const std::string at = path + "." + key;
  double value = -1;
  if (found->is_number()) value = found->get<double>();
  if (value < 0 || value != static_cast<double>(static_cast<std::int64_t>(std::min(value, 1e15)))) {
    return schema_error(at, "is no number of things");
  }
  // More than any text holds: as good as no bound above, and never reached below.
  return value >= 1e9 ? (key.starts_with("max") ? kUnbounded : 1'000'000'000U)
                      : static_cast<std::uint32_t>(value);
}

Result<ExprId> string_schema(const Json& schema, const std::string& path, JsonText& json) {
  GrammarRules& rules = json.rules();
  const auto quoted = [&](ExprId body) {
    return rules.sequence({rules.literal("\""), body, rules.literal("\"")});
  };
  ORRERY_TRY(std::uint32_t min, schema_count(schema, "minLength", 0, path));
  ORRERY_TRY(const std::uint32_t max, schema_count(schema, "maxLength", kUnbounded, path));
  if (min > max) return schema_error(path + ".minLength", "is above maxLength");
  const bool has_lengths = schema.contains("minLength") || schema.contains("maxLength");
  if (const auto pattern = schema.find("pattern"); pattern != schema.end()) {
    if (!pattern->is_string()) return schema_error(path + ".pattern", "is not a text");
    const std::string text = pattern->get<std::string>();
    if (text.size() > 16384) return fail("E_LIMIT", path + ".pattern: is above 16384 bytes");
    if (!has_lengths) {
      ORRERY_TRY(const ExprId body, pattern_text(text, path, json));
      return quoted(body);
    }
    const std::string_view one = repeated_class(text);
    if (one.empty()) {
      return schema_error(
          path + ".pattern",
          "goes with minLength and maxLength only where it is ^[...]*$ or ^[...]+$");
    }
    ORRERY_TRY(const ExprId body, pattern_text("^" + std::string(one) + "$", path, json));
    if (text.ends_with("+$") && min == 0) min = 1;
    return quoted(rules.repeat(body, min, max));
  }
  if (has_lengths) return quoted(rules.repeat(json.character(), min, max));
  const auto format = schema.find("format");
  if (format != schema.end() && format->is_string()) {
    for (const auto& [name, pattern] : kFormats) {
      if (format->get<std::string>() != name) continue;
      ORRERY_TRY(const ExprId body, pattern_text(pattern, path, json));
      return quoted(body);
    }
  }
  return json.string();
}

namespace {

// A bound with its exclusive twin, which is a number or (draft 4) says that the bound is excluded.
Status read_bound(const Json& schema, bool is_min, const std::string& path, NumberBounds& out) {
  const std::string plain = is_min ? "minimum" : "maximum";
  const std::string exclusive = is_min ? "exclusiveMinimum" : "exclusiveMaximum";
  std::optional<Decimal>& bound = is_min ? out.min : out.max;
  bool& excluded = is_min ? out.min_excluded : out.max_excluded;
  const auto has = [&](const std::string& key) { return schema.contains(key); };
  const bool is_number = has(exclusive) && schema[exclusive].is_number();
  if (is_number && has(plain)) {
    return schema_error(path + "." + exclusive, "cannot be combined with " + plain);
  }
  excluded = is_number || (has(exclusive) && schema[exclusive] == Json(true));
  if (has(exclusive) && !is_number && !schema[exclusive].is_boolean()) {
    return schema_error(path + "." + exclusive, "is not a number");
  }
  const std::string& key = is_number ? exclusive : plain;
  if (!has(key)) return {};
  const Json& value = schema[key];
  if (!value.is_number()) return schema_error(path + "." + key, "is not a number");
  bound = decimal_of(value);
  if (bound) return {};
  // Numbers have up to 16 digits: beyond them a bound on the far side says nothing.
  const double number = value.get<double>();
  const bool is_far = is_min ? number <= -1e15 : number >= 1e15;
  if (!is_far) return schema_error(path + "." + key, "has more than 16 digits on a side");
  excluded = false;
  return {};
}

// 1, or 0.1, 0.01 and so on: so many digits behind the point.
Status read_multiple(const Json& schema, bool is_integer, const std::string& path,
                     NumberBounds& out) {
  if (!schema.contains("multipleOf")) return {};
  const std::optional<Decimal> step = decimal_of(schema["multipleOf"]);
  const bool is_one = step && step->whole == "1" && step->fraction.empty();
  const bool is_tenth = step && step->whole == "0" &&
                        step->fraction.find_first_not_of('0') != std::string::npos &&
                        step->fraction.find_first_not_of('0') == step->fraction.size() - 1 &&
                        step->fraction.back() == '1';
  if (!step || step->is_negative || (!is_one && !is_tenth)) {
    return schema_error(path + ".multipleOf", "is supported as 1, 0.1, 0.01 and so on only");
  }
  if (!is_integer) out.max_fraction = static_cast<std::uint32_t>(step->fraction.size());
  return {};
}

}  // namespace

Result<ExprId> number_schema(const Json& schema, bool is_integer, const std::string& path,
                             JsonText& json) {
  NumberBounds bounds;
  if (is_integer) bounds.max_fraction = 0;
  ORRERY_TRY_VOID(read_bound(schema, true, path, bounds));
  ORRERY_TRY_VOID(read_bound(schema, false, path, bounds));
  ORRERY_TRY_VOID(read_multiple(schema, is_integer, path, bounds));
  const bool is_free = !bounds.min && !bounds.max && !schema.contains("multipleOf");
  if (is_free) return is_integer ? json.integer() : json.number();
  const ExprId out = bounded_number(json.rules(), bounds);
  if (out == json.rules().never()) return schema_error(path, "no number lies between its bounds");
  return out;
}

}  // namespace orrery::text
