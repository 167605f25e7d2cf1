#include "text/json_text.hpp"

#include <map>
#include <memory>
#include <vector>

#include "text/grammar_regex.hpp"
#include "text/unicode.hpp"

namespace orrery::text {
namespace {

const CharSet kHex = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};

std::string spelled(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

ExprId JsonText::once(std::optional<RuleId>& known, const char* name, ExprId (JsonText::*make)()) {
  if (!known) {
    known = rules_.declare(name);
    rules_.define(*known, (this->*make)());
  }
  return rules_.call(*known);
}

ExprId JsonText::space() {
  return once(space_, "white space", &JsonText::make_space);
}
ExprId JsonText::string() {
  return once(string_, "string", &JsonText::make_string);
}
ExprId JsonText::object() {
  return once(object_, "object", &JsonText::make_object);
}
ExprId JsonText::array() {
  return once(array_, "array", &JsonText::make_array);
}
ExprId JsonText::value() {
  return once(value_, "value", &JsonText::make_value);
}

ExprId JsonText::make_space() {
  const ExprId blank = rules_.chars({{'\t', '\t'}, {' ', ' '}});
  const ExprId lines = rules_.choice({rules_.literal("\n"), rules_.literal("\n\n")});
  return rules_.choice(
      {rules_.empty(), rules_.literal(" "), rules_.sequence({lines, rules_.repeat(blank, 0, 20)})});
}

ExprId JsonText::mark(std::string_view text) {
  return rules_.sequence({rules_.literal(text), space()});
}

ExprId JsonText::character() {
  if (character_) return *character_;
  const auto hex = [&](std::uint32_t n) { return rules_.repeat(rules_.chars(kHex), n, n); };
  const ExprId d = rules_.chars({{'D', 'D'}, {'d', 'd'}});
  const CharSet not_d = {{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}};
  const ExprId high = rules_.chars({{'8', '9'}, {'A', 'B'}, {'a', 'b'}});
  const ExprId low = rules_.chars({{'C', 'F'}, {'c', 'f'}});
  const ExprId pair = rules_.sequence({d, high, hex(2), rules_.literal("\\u"), d, low, hex(2)});
  const ExprId code =
      rules_.choice({rules_.sequence({rules_.chars(not_d), hex(3)}),
                     rules_.sequence({d, rules_.chars({{'0', '7'}}), hex(2)}), pair});
  std::vector<ExprId> escapes = {rules_.sequence({rules_.literal("u"), code})};
  for (const char c : std::string_view("\"\\/bfnrt")) {
    escapes.push_back(rules_.literal(std::string_view(&c, 1)));
  }
  const ExprId plain = rules_.chars({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}});
  character_ =
      rules_.choice({plain, rules_.sequence({rules_.literal("\\"), rules_.choice(escapes)})});
  return *character_;
}

ExprId JsonText::make_string() {
  return rules_.sequence(
      {rules_.literal("\""), rules_.repeat(character(), 0, kUnbounded), rules_.literal("\"")});
}

ExprId JsonText::integer() {
  const ExprId digit = rules_.byte('0', '9');
  return rules_.sequence(
      {rules_.optional(rules_.literal("-")),
       rules_.choice({rules_.literal("0"),
                      rules_.sequence({rules_.byte('1', '9'), rules_.repeat(digit, 0, 15)})})});
}

ExprId JsonText::number() {
  const ExprId digit = rules_.byte('0', '9');
  const ExprId sign = rules_.choice({rules_.literal("+"), rules_.literal("-")});
  const ExprId e = rules_.choice({rules_.literal("e"), rules_.literal("E")});
  return rules_.sequence(
      {integer(),
       rules_.optional(rules_.sequence({rules_.literal("."), rules_.repeat(digit, 1, 16)})),
       rules_.optional(rules_.sequence({e, rules_.optional(sign), rules_.repeat(digit, 1, 2)}))});
}

ExprId JsonText::make_object() {
  const ExprId member = rules_.sequence({string(), space(), mark(":"), value(), space()});
  const ExprId more = rules_.repeat(rules_.sequence({mark(","), member}), 0, kUnbounded);
  return rules_.sequence(
      {mark("{"), rules_.optional(rules_.sequence({member, more})), rules_.literal("}")});
}

ExprId JsonText::make_array() {
  const ExprId item = rules_.sequence({value(), space()});
  const ExprId more = rules_.repeat(rules_.sequence({mark(","), item}), 0, kUnbounded);
  return rules_.sequence(
      {mark("["), rules_.optional(rules_.sequence({item, more})), rules_.literal("]")});
}

ExprId JsonText::make_value() {
  return rules_.choice({object(), array(), string(), number(), rules_.literal("true"),
                        rules_.literal("false"), rules_.literal("null")});
}

ExprId JsonText::literal(const Json& value) {
  return literal_at(value, 0);
}

// NOLINTNEXTLINE(misc-no-recursion): bounded by depth
ExprId JsonText::literal_at(const Json& value, int depth) {
  constexpr int kMaxDepth = 64;
  if (!value.is_structured() || depth > kMaxDepth) {
    return rules_.literal(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  std::vector<ExprId> parts = {mark(value.is_object() ? "{" : "[")};
  bool is_first = true;
  for (const auto& item : value.items()) {
    if (!std::exchange(is_first, false)) parts.push_back(mark(","));
    if (value.is_object()) {
      parts.insert(parts.end(), {rules_.literal(spelled(item.key())), space(), mark(":")});
    }
    parts.insert(parts.end(), {literal_at(item.value(), depth + 1), space()});
  }
  parts.push_back(rules_.literal(value.is_object() ? "}" : "]"));
  return rules_.sequence(parts);
}

// The names as a tree of characters: where a text leaves the tree it may go on as it likes.
struct JsonText::NameNode {
  std::map<std::uint32_t, std::unique_ptr<NameNode>> next;
  bool is_name = false;
};

ExprId JsonText::string_except(std::span<const std::string> names) {
  NameNode root;
  for (const std::string& name : names) {
    NameNode* node = &root;
    for (std::size_t i = 0; i < name.size();) {
      const CodePoint c = decode_utf8(name, i);
      i += c.length;
      auto& next = node->next[c.code];
      if (!next) next = std::make_unique<NameNode>();
      node = next.get();
    }
    node->is_name = true;
  }
  return rules_.sequence({rules_.literal("\""), name_rest(root), rules_.literal("\"")});
}

// NOLINTNEXTLINE(misc-no-recursion): names are bounded by the compiler of schemas
ExprId JsonText::name_rest(const NameNode& node) {
  const CharSet visible = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}};
  if (!other_) {
    const ExprId rest = rules_.repeat(json_chars(rules_, complement({})), 0, kUnbounded);
    other_ = rules_.rule("key", rest);
  }
  CharSet children;
  std::vector<ExprId> choices;
  if (!node.is_name) choices.push_back(rules_.empty());
  for (const auto& [code, next] : node.next) {
    children.push_back({code, code});
    choices.push_back(rules_.sequence({json_chars(rules_, {{code, code}}), name_rest(*next)}));
  }
  choices.push_back(rules_.sequence({json_chars(rules_, complement(children)), *other_}));
  return rules_.rule("key", rules_.choice(choices));
}

}  // namespace orrery::text
