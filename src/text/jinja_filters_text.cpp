// Filters that make text.
#include <algorithm>
#include <array>

#include "text/jinja_strings.hpp"

namespace orrery::text::jinja {

namespace {

void no_arguments(std::string_view filter, const CallArgs& args) {
  const Bound bound(filter, args, {}, 0);
}

// A string made from one that may have been marked safe.
Value like(Interpreter& interpreter, const Value& value, Text text) {
  Value out = interpreter.string(std::move(text));
  out.safe = value.is_string() && value.safe;
  return out;
}

template <Casing kCasing>
Value change(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  no_arguments("upper", args);
  return like(interpreter, value, change_case(interpreter.str(value), kCasing));
}

Value filter_capitalize(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  no_arguments("capitalize", args);
  return like(interpreter, value, capitalize(interpreter.str(value)));
}

// Words begin after white space and after - ( { [ <.
Value filter_title(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  no_arguments("title", args);
  const Text text = interpreter.str(value);
  const auto separates = [](std::int32_t code) {
    return is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' ||
           code == '<';
  };
  Text out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    const bool separator = separates(character_at(text.view(), at).code);
    while (end < text.size() && separates(character_at(text.view(), end).code) == separator) {
      end += character_at(text.view(), end).length;
    }
    const std::size_t first = at + character_at(text.view(), at).length;
    out.append(change_case(text.slice(at, first), Casing::upper));
    out.append(change_case(text.slice(first, end), Casing::lower));
    at = end;
  }
  return interpreter.string(std::move(out));
}

Value filter_trim(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"chars"};
  const Bound bound("trim", args, kNames, 0);
  std::optional<Text> characters;
  if (bound.has(0) && !bound[0].is_none()) {
    characters = interpreter.string_argument(bound[0], "trim");
  }
  return like(interpreter, value, strip(interpreter.str(value), Ends::both, characters));
}

Value filter_replace(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 3> kNames{"old", "new", "count"};
  const Bound bound("replace", args, kNames, 2);
  return interpreter.string(replace_all(interpreter.str(value), interpreter.str(bound[0]),
                                        interpreter.str(bound[1]), bound.integer_or(2, -1)));
}

Value filter_string(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  no_arguments("string", args);
  return value.is_string() ? value : interpreter.string(interpreter.str(value));
}

Value filter_safe(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  no_arguments("safe", args);
  Value out = value.is_string() ? value : interpreter.string(interpreter.str(value));
  out.safe = true;
  return out;
}

Value filter_escape(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  no_arguments("escape", args);
  if (value.is_string() && value.safe) return value;
  Value out = interpreter.string(escape_html(interpreter.str(value)));
  out.safe = true;
  return out;
}

Value filter_forceescape(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  no_arguments("forceescape", args);
  Value out = interpreter.string(escape_html(interpreter.str(value)));
  out.safe = true;
  return out;
}

Value filter_indent(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 3> kNames{"width", "first", "blank"};
  const Bound bound("indent", args, kNames, 0);
  const Text text = interpreter.string_argument(value, "indent");
  Text indent;
  if (bound.has(0) && bound[0].is_string()) {
    indent = text_of(bound[0]);
  } else {
    const std::int64_t width = bound.has(0) ? interpreter.int_argument(bound[0], "indent") : 4;
    if (width > 4096) raise("indent() by more than 4096");
    indent =
        Text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' '), true);
  }
  const bool blank = bound.flag(2, false);
  Text source = text;
  source.append("\n", true);  // an empty last line counts as a line
  const std::vector<Text> lines = split_lines(source, false);
  Text out;
  if (bound.flag(1, false)) out.append(indent);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.append("\n", true);
      if (blank || !lines[i].empty()) out.append(indent);
    }
    out.append(lines[i]);
    if (out.size() > kMaxStringBytes) raise("a string of more than 16 MiB");
  }
  return like(interpreter, value, std::move(out));
}

Value filter_center(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"width"};
  const Bound bound("center", args, kNames, 0);
  const Text text = interpreter.str(value);
  const auto count = static_cast<std::int64_t>(character_count(text.view()));
  const std::int64_t width = bound.integer_or(0, 80);
  if (width > (1 << 20)) raise("center() wider than 1 MiB");
  const std::int64_t missing = std::max<std::int64_t>(width - count, 0);
  const std::int64_t left = missing / 2 + (missing & width & 1);
  Text out(std::string(static_cast<std::size_t>(left), ' '), true);
  out.append(text);
  out.append(std::string(static_cast<std::size_t>(missing - left), ' '), true);
  return like(interpreter, value, std::move(out));
}

Value filter_truncate(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 4> kNames{"length", "killwords", "end", "leeway"};
  const Bound bound("truncate", args, kNames, 0);
  const Text text = interpreter.string_argument(value, "truncate");
  const Text end =
      bound.has(2) ? interpreter.string_argument(bound[2], "truncate") : Text("...", true);
  const std::int64_t length = bound.integer_or(0, 255);
  const std::int64_t leeway = bound.integer_or(3, 5);
  const auto end_count = static_cast<std::int64_t>(character_count(end.view()));
  if (length < end_count || leeway < 0) raise("truncate() to less than its end mark");
  const auto count = static_cast<std::int64_t>(character_count(text.view()));
  if (count - leeway <= length) return value;
  Text cut = text.slice(0, byte_offset(text.view(), static_cast<std::size_t>(length - end_count)));
  if (!bound.flag(1, false)) {
    const std::size_t space = cut.view().rfind(' ');
    if (space != std::string_view::npos) cut = cut.slice(0, space);
  }
  cut.append(end);
  return like(interpreter, value, std::move(cut));
}

Value filter_wordcount(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  no_arguments("wordcount", args);
  const Text text = interpreter.str(value);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text.view(), at);
    const bool word = character.valid && is_word(character.code);
    count += word && !inside ? 1 : 0;
    inside = word;
    at += character.length;
  }
  return Value::of_int(count);
}

Value filter_format(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    raise("format takes arguments by position or by name, not both");
  }
  Value values = interpreter.tuple(args.positional);
  if (!args.named.empty()) {
    std::vector<DictEntry> entries;
    for (const auto& [name, member] : args.named) {
      interpreter.put(entries, interpreter.string(name), member);
    }
    values = interpreter.dict(std::move(entries));
  }
  return like(interpreter, value, format_percent(interpreter, interpreter.str(value), values));
}

Value filter_striptags(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  no_arguments("striptags", args);
  const Text text = interpreter.str(value);
  Text plain;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = std::min(text.view().find('<', at), text.size());
    plain.append(text, at, open);
    const std::size_t close = text.view().find('>', open);
    if (close == std::string_view::npos) {
      plain.append(text, open, text.size());
      break;
    }
    at = close + 1;
  }
  Text out;
  for (std::size_t at = 0; at < plain.size();) {
    const Character character = character_at(plain.view(), at);
    const std::size_t end = at + character.length;
    if (is_space(character.code)) {
      if (!out.empty() && out.view().back() != ' ') out.append(" ", plain.markup_at(at));
    } else {
      out.append(plain, at, end);
    }
    at = end;
  }
  return interpreter.string(strip(out, Ends::both, std::nullopt));
}

// The separators= of json.dumps: a pair of strings.
void read_separators(Interpreter& interpreter, const Value& value, JsonStyle& style) {
  const ValueList pair = interpreter.to_list(value);
  if (pair.size() != 2) raise("tojson: separators is a pair of strings");
  style.item_separator = interpreter.string_argument(pair[0], "tojson").bytes();
  style.key_separator = interpreter.string_argument(pair[1], "tojson").bytes();
}

// transformers' own tojson: json.dumps, without the HTML escapes of jinja2's.
Value filter_tojson(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 4> kNames{"ensure_ascii", "indent", "separators",
                                                          "sort_keys"};
  const Bound bound("tojson", args, kNames, 0);
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound.has(1) && !bound[1].is_none()) {
    style.indented = true;
    style.item_separator = ",";
    if (bound[1].is_string()) {
      style.indent = bytes_of(bound[1]);
    } else {
      const std::int64_t width = interpreter.int_argument(bound[1], "tojson");
      if (width > 4096) raise("tojson: an indent of more than 4096");
      style.indent.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
  }
  if (bound.has(2) && !bound[2].is_none()) read_separators(interpreter, bound[2], style);
  return interpreter.string(to_json(interpreter, value, style));
}

}  // namespace

std::span<const FilterEntry> text_filters() {
  static constexpr auto kFilters = std::to_array<FilterEntry>({
      {"upper", change<Casing::upper>},
      {"lower", change<Casing::lower>},
      {"capitalize", filter_capitalize},
      {"title", filter_title},
      {"trim", filter_trim},
      {"replace", filter_replace},
      {"string", filter_string},
      {"safe", filter_safe},
      {"escape", filter_escape},
      {"e", filter_escape},
      {"forceescape", filter_forceescape},
      {"indent", filter_indent},
      {"center", filter_center},
      {"truncate", filter_truncate},
      {"wordcount", filter_wordcount},
      {"format", filter_format},
      {"striptags", filter_striptags},
      {"tojson", filter_tojson},
  });
  return kFilters;
}

}  // namespace orrery::text::jinja
