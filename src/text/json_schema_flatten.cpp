#include "text/json_schema_flatten.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace orrery::text {
namespace {

constexpr int kMaxDepth = 64;

std::string unescaped(std::string_view word) {
  std::string out;
  for (std::size_t i = 0; i < word.size(); ++i) {
    int byte = 0;
    if (word[i] == '%' && i + 2 < word.size() &&
        std::from_chars(&word[i] + 1, &word[i] + 3, byte, 16).ptr == &word[i] + 3) {
      out += static_cast<char>(byte);
      i += 2;
    } else if (word[i] == '~' && i + 1 < word.size() &&
               (word[i + 1] == '0' || word[i + 1] == '1')) {
      out += word[++i] == '0' ? '~' : '/';
    } else {
      out += word[i];
    }
  }
  return out;
}

const Json* child(const Json& value, const std::string& word) {
  if (value.is_object()) {
    const auto found = value.find(word);
    return found == value.end() ? nullptr : &*found;
  }
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
  const bool is_index = value.is_array() && !word.empty() && error == std::errc{} &&
                        end == word.data() + word.size() && index < value.size();
  return is_index ? &value[index] : nullptr;
}

Json both(const Json& a, const Json& b) {
  if (a == b || b == Json(true)) return a;
  if (a == Json(true)) return b;
  if (a == Json(false) || b == Json(false)) return false;
  return Json{{"allOf", Json::array({a, b})}};
}

Json as_list(const Json& types) {
  return types.is_array() ? types : Json::array({types});
}

bool holds(const Json& list, const Json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// An integer is a number too.
Json common_types(const Json& a, const Json& b) {
  Json out = Json::array();
  const Json x = as_list(a);
  const Json y = as_list(b);
  for (const Json& type : x) {
    if (holds(y, type) || (type == "integer" && holds(y, "number"))) out.push_back(type);
  }
  for (const Json& type : y) {
    if (type == "integer" && holds(x, "number") && !holds(x, type)) out.push_back(type);
  }
  return out;
}

// What a schema says about a property, if anything.
const Json* about(const Json& schema, const std::string& key) {
  const auto properties = schema.find("properties");
  if (properties != schema.end() && properties->is_object()) {
    if (const Json* found = child(*properties, key)) return found;
  }
  const auto others = schema.find("additionalProperties");
  return others == schema.end() ? nullptr : &*others;
}

Json merge_properties(const Json& a, const Json& b) {
  Json out = Json::object();
  for (const Json* schema : {&a, &b}) {
    const auto properties = schema->find("properties");
    if (properties == schema->end() || !properties->is_object()) continue;
    for (const auto& item : properties->items()) {
      if (out.contains(item.key())) continue;
      const Json* x = about(a, item.key());
      const Json* y = about(b, item.key());
      out[item.key()] = x == nullptr ? *y : y == nullptr ? *x : both(*x, *y);
    }
  }
  return out;
}

bool is_list_of_choices(std::string_view key) {
  return key == "anyOf" || key == "oneOf";
}

// Two keywords of one name, or nothing where they cannot be one.
std::optional<Json> merge_keyword(const std::string& key, const Json& a, const Json& b) {
  if (a == b) return a;
  if (key == "type") return common_types(a, b);
  if (key == "required" && a.is_array() && b.is_array()) {
    Json out = a;
    for (const Json& name : b) {
      if (!holds(out, name)) out.push_back(name);
    }
    return out;
  }
  if (key == "enum" && a.is_array() && b.is_array()) {
    Json out = Json::array();
    std::copy_if(a.begin(), a.end(), std::back_inserter(out),
                 [&](const Json& value) { return holds(b, value); });
    return out;
  }
  const bool numbers = a.is_number() && b.is_number();
  if (numbers && (key.starts_with("min") || key == "exclusiveMinimum")) return a < b ? b : a;
  if (numbers && (key.starts_with("max") || key == "exclusiveMaximum")) return a < b ? a : b;
  if (key == "items" || key == "additionalProperties") return both(a, b);
  if (key == "nullable" || key == "uniqueItems") return std::nullopt;
  if (is_annotation(key) || key == "format") return a;
  return std::nullopt;
}

// Choices on both sides: each with each.
Json each_with_each(const Json& a, const Json& b) {
  Json out = Json::array();
  for (const Json& x : a) {
    for (const Json& y : b) out.push_back(both(x, y));
  }
  return out;
}

Result<Json> flatten_at(const Json& root, const Json& schema, const std::string& path,
                        SchemaBudget& budget, int depth);

// NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
Result<Json> flatten_parts(const Json& root, const Json& schema, const std::string& path,
                           SchemaBudget& budget, int depth) {
  Json out = Json::object();
  for (const auto& item : schema.items()) {
    const std::string& key = item.key();
    if (key == "$ref" || key == "allOf" || key == "$defs" || key == "definitions") continue;
    out[key] = item.value();
  }
  if (schema.contains("$ref")) {
    ORRERY_TRY(const Json* const target, resolve_reference(root, schema["$ref"], path));
    ORRERY_TRY(const Json flat, flatten_at(root, *target, path + ".$ref", budget, depth + 1));
    ORRERY_TRY(out, merge_schemas(flat, out, path));
  }
  if (schema.contains("allOf")) {
    const Json& all = schema["allOf"];
    if (!all.is_array()) return schema_error(path + ".allOf", "is not a list of schemas");
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string at = path + ".allOf[" + std::to_string(i) + "]";
      ORRERY_TRY(const Json flat, flatten_at(root, all[i], at, budget, depth + 1));
      ORRERY_TRY(out, merge_schemas(out, flat, at));
    }
  }
  return out;
}

// NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
Result<Json> flatten_at(const Json& root, const Json& schema, const std::string& path,
                        SchemaBudget& budget, int depth) {
  if (depth > kMaxDepth) return schema_error(path, "refers to itself, or 64 levels deep");
  if (schema.is_boolean()) return schema;
  if (!schema.is_object()) return schema_error(path, "is no schema: an object, true or false");
  ORRERY_TRY_VOID(budget.take(1 + schema.size()));
  return flatten_parts(root, schema, path, budget, depth);
}

}  // namespace

Status SchemaBudget::take(std::size_t n) {
  if (n > left) return fail("E_LIMIT", "the schema says too much; make it smaller");
  left -= n;
  return {};
}

bool is_annotation(std::string_view keyword) {
  constexpr std::array kKnown = {"title",
                                 "description",
                                 "default",
                                 "examples",
                                 "example",
                                 "$schema",
                                 "$id",
                                 "id",
                                 "$comment",
                                 "deprecated",
                                 "readOnly",
                                 "contentEncoding",
                                 "contentMediaType",
                                 "writeOnly",
                                 "discriminator",
                                 "strict",
                                 "$defs",
                                 "definitions",
                                 "$anchor",
                                 "externalDocs"};
  return std::find(kKnown.begin(), kKnown.end(), keyword) != kKnown.end() ||
         keyword.starts_with("x-");
}

std::unexpected<Error> schema_error(const std::string& path, const std::string& what) {
  return fail("E_SCHEMA", path + ": " + what);
}

Result<const Json*> resolve_reference(const Json& root, const Json& reference,
                                      const std::string& path) {
  const std::string at = path + ".$ref";
  if (!reference.is_string()) return schema_error(at, "is not a text");
  const std::string text = reference.get<std::string>();
  if (!text.starts_with('#') || (text.size() > 1 && text[1] != '/')) {
    return schema_error(at, "only references into the schema itself (#/...) are followed");
  }
  const Json* target = &root;
  for (std::size_t i = 1; i < text.size();) {
    const std::size_t end = std::min(text.find('/', i + 1), text.size());
    target = child(*target, unescaped(std::string_view(text).substr(i + 1, end - i - 1)));
    if (target == nullptr) return schema_error(at, "names nothing in the schema");
    i = end;
  }
  return target;
}

Result<Json> flatten_schema(const Json& root, const Json& schema, const std::string& path,
                            SchemaBudget& budget) {
  return flatten_at(root, schema, path, budget, 0);
}

Result<Json> merge_schemas(const Json& a, const Json& b, const std::string& path) {
  if (a == Json(false) || b == Json(false)) return Json(false);
  if (a.is_boolean()) return b;
  if (b.is_boolean()) return a;
  Json out = a;
  if (a.contains("properties") || b.contains("properties")) {
    out["properties"] = merge_properties(a, b);
  }
  Json choices;
  for (const Json* schema : {&a, &b}) {
    for (const auto& item : schema->items()) {
      if (!is_list_of_choices(item.key()) || !item.value().is_array()) continue;
      choices = choices.is_null() ? item.value() : each_with_each(choices, item.value());
      if (choices.size() > 256) return schema_error(path, "has too many combined choices");
    }
  }
  out.erase("oneOf");
  if (!choices.is_null()) out["anyOf"] = choices;
  for (const auto& item : b.items()) {
    const std::string& key = item.key();
    if (key == "properties" || is_list_of_choices(key)) continue;
    if (!out.contains(key)) {
      out[key] = item.value();
      continue;
    }
    std::optional<Json> merged = merge_keyword(key, out[key], item.value());
    if (!merged) return schema_error(path + "." + key, "is said twice in ways that do not combine");
    out[key] = std::move(*merged);
  }
  return out;
}

}  // namespace orrery::text
