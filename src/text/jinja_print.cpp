// Values as text: str() and repr() of Python, and json.dumps.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja_interp.hpp"
#include "text/jinja_sort.hpp"

namespace orrery::text::jinja {

// The shortest digits that read back as the same double, laid out as Python's repr does.
std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t mark = text.find('e');
  std::string_view mantissa = text.substr(0, mark);
  int exponent = 0;
  const std::size_t digits_at = text[mark + 1] == '+' ? mark + 2 : mark + 1;
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  std::string out;
  if (mantissa.front() == '-') {
    out += '-';
    mantissa.remove_prefix(1);
  }
  std::string digits(1, mantissa[0]);
  if (mantissa.size() > 2) digits += mantissa.substr(2);
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    const int size = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + std::to_string(size);
  }
  if (exponent < 0) {
    return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  if (count <= exponent + 1) {
    return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto point = static_cast<std::size_t>(exponent + 1);
  return out + digits.substr(0, point) + "." + digits.substr(point);
}

Text escape_html(const Text& text) {
  Text out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool markup = text.markup_at(at);
    switch (text.view()[at]) {
      case '&':
        out.append("&amp;", markup);
        break;
      case '<':
        out.append("&lt;", markup);
        break;
      case '>':
        out.append("&gt;", markup);
        break;
      case '"':
        out.append("&#34;", markup);
        break;
      case '\'':
        out.append("&#39;", markup);
        break;
      default:
        out.append(text.view().substr(at, 1), markup);
        break;
    }
  }
  return out;
}

namespace {

std::string hex_escape(char type, std::uint32_t code, std::size_t width) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(width, '0');
  for (std::size_t i = width; i-- > 0; code >>= 4U) out[i] = kDigits[code & 15U];
  return std::string("\\") + type + out;
}

// A character of a string's repr, escaped where it must be; empty if it stands for itself.
std::string repr_escape(const Character& character, char quote) {
  const auto code = static_cast<std::uint32_t>(character.code);
  if (!character.valid) return hex_escape('x', code, 2);
  if (code == static_cast<unsigned char>(quote) || code == '\\') {
    return std::string("\\") + static_cast<char>(code);
  }
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  if (code < 0x20 || code == 0x7f) return hex_escape('x', code, 2);
  if (code < 0x7f || is_printable(character.code)) return {};
  if (code < 0x100) return hex_escape('x', code, 2);
  return code < 0x10000 ? hex_escape('u', code, 4) : hex_escape('U', code, 8);
}

Text repr_string(const Text& text) {
  const bool has_single = text.bytes().find('\'') != std::string::npos;
  const bool has_double = text.bytes().find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  const std::string_view mark(&quote, 1);
  Text out;
  out.append(mark, false);
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text.view(), at);
    const std::string escaped = repr_escape(character, quote);
    if (escaped.empty()) {
      out.append(text, at, at + character.length);
    } else {
      out.append(escaped, text.markup_at(at));
    }
    at += character.length;
  }
  out.append(mark, false);
  return out;
}

void check_size(const Text& text) {
  if (text.size() > kMaxStringBytes) raise("a string of more than 16 MiB");
}

Text repr_items(Interpreter& interpreter, const ValueList& values, std::string_view open,
                std::string_view close) {
  Text out;
  out.append(open, false);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out.append(", ", false);
    out.append(interpreter.repr(values[i]));
    check_size(out);
  }
  out.append(close, false);
  return out;
}

Text repr_dict(Interpreter& interpreter, const DictObject& dict) {
  Text out;
  out.append("{", false);
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out.append(", ", false);
    out.append(interpreter.repr(dict.entries[i].key));
    out.append(": ", false);
    out.append(interpreter.repr(dict.entries[i].value));
    check_size(out);
  }
  out.append("}", false);
  return out;
}

Text repr_namespace(Interpreter& interpreter, const NamespaceObject& object) {
  Text out("<Namespace {", false);
  for (std::size_t i = 0; i < object.members.size(); ++i) {
    if (i > 0) out.append(", ", false);
    out.append(repr_string(Text(object.members[i].first, false)));
    out.append(": ", false);
    out.append(interpreter.repr(object.members[i].second));
    check_size(out);
  }
  out.append("}>", false);
  return out;
}

std::string repr_range(const RangeObject& range) {
  std::string out = "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
  if (range.step != 1) out += ", " + std::to_string(range.step);
  return out + ")";
}

}  // namespace

Text Interpreter::str(const Value& value) {
  if (value.is_string()) return text_of(value);
  if (value.is_undefined()) return {};
  return repr(value);
}

Text Interpreter::repr(const Value& value) {
  const DepthGuard guard(*this);
  step();
  switch (value.kind) {
    case Kind::undefined:
      return Text("Undefined", false);
    case Kind::none:
      return Text("None", true);
    case Kind::boolean:
      return Text(value.boolean ? "True" : "False", true);
    case Kind::integer:
      return Text(std::to_string(value.integer), value.markup);
    case Kind::real:
      return Text(real_repr(value.real), value.markup);
    case Kind::string: {
      step_bytes(text_of(value).size());
      if (!value.safe) return repr_string(text_of(value));
      Text out("Markup(", false);
      out.append(repr_string(text_of(value)));
      out.append(")", false);
      return out;
    }
    case Kind::list:
      return repr_items(*this, items_of(value), "[", "]");
    case Kind::tuple:
      return repr_items(*this, items_of(value), "(", items_of(value).size() == 1 ? ",)" : ")");
    case Kind::view: {
      const std::string open = std::string(items_object(value).view_name) + "([";
      return repr_items(*this, items_of(value), open, "])");
    }
    case Kind::dict:
      return repr_dict(*this, dict_of(value));
    case Kind::range:
      return Text(repr_range(range_of(value)), true);
    case Kind::name_space:
      return repr_namespace(*this, static_cast<const NamespaceObject&>(*value.object));
    case Kind::macro: {
      const NameId name = static_cast<const MacroObject&>(*value.object).name;
      if (name == kNoName) return Text("<Macro anonymous>", true);
      return Text("<Macro '" + name_of(name) + "'>", true);
    }
    default:
      return Text("<" + std::string(type_name(value)) + ">", true);
  }
}

Text Interpreter::string_argument(const Value& value, std::string_view what) {
  if (value.is_undefined()) raise_undefined(value);
  if (!value.is_string()) {
    raise(std::string(what) + " needs a string, not a " + std::string(type_name(value)));
  }
  return text_of(value);
}

std::int64_t Interpreter::int_argument(const Value& value, std::string_view what) {
  if (value.is_undefined()) raise_undefined(value);
  if (!value.is_integral()) {
    raise(std::string(what) + " needs an integer, not a " + std::string(type_name(value)));
  }
  return value.as_int();
}

// JSON ------------------------------------------------------------------------------------------

namespace {

class JsonWriter {
 public:
  JsonWriter(Interpreter& interpreter, const JsonStyle& style)
      : interpreter_(interpreter), style_(style) {}

  void write(const Value& value) {
    const DepthGuard guard(interpreter_);
    interpreter_.step();
    check_size(out_);
    switch (value.kind) {
      case Kind::none:
        plain("null");
        break;
      case Kind::boolean:
        plain(value.boolean ? "true" : "false");
        break;
      case Kind::integer:
      case Kind::real:
        out_.append(number(value), value.markup);
        break;
      case Kind::string:
        write_string(text_of(value));
        break;
      case Kind::list:
      case Kind::tuple:
        write_list(items_of(value));
        break;
      case Kind::dict:
        write_dict(dict_of(value));
        break;
      default:
        raise("a value of type " + std::string(type_name(value)) + " cannot be written as JSON");
    }
  }
  Text take() { return std::move(out_); }

 private:
  // What tojson adds counts as content, so that it never completes a special token.
  void plain(std::string_view text) { out_.append(text, false); }

  static std::string number(const Value& value) {
    if (value.is(Kind::integer)) return std::to_string(value.integer);
    if (std::isnan(value.real)) return "NaN";
    if (std::isinf(value.real)) return value.real < 0 ? "-Infinity" : "Infinity";
    return real_repr(value.real);
  }

  void new_line() {
    if (!style_.indented) return;
    plain("\n");
    for (std::size_t i = 0; i < level_; ++i) {
      plain(style_.indent);
      check_size(out_);
    }
  }

  std::string escape(const Character& character) const {
    const auto code = static_cast<std::uint32_t>(character.code);
    switch (code) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    if (code < 0x20) return hex_escape('u', code, 4);
    if (!style_.ensure_ascii || code < 0x7f || !character.valid) return {};
    if (code < 0x10000) return hex_escape('u', code, 4);
    const std::uint32_t rest = code - 0x10000;
    return hex_escape('u', 0xd800U + (rest >> 10U), 4) +
           hex_escape('u', 0xdc00U + (rest & 0x3ffU), 4);
  }

  void write_string(const Text& text) {
    interpreter_.step_bytes(text.size());
    plain("\"");
    std::size_t copied = 0;
    for (std::size_t at = 0; at < text.size();) {
      const Character character = character_at(text.view(), at);
      const std::string escaped = escape(character);
      if (!escaped.empty()) {
        out_.append(text, copied, at);
        out_.append(escaped, text.markup_at(at));
        copied = at + character.length;
      }
      at += character.length;
    }
    out_.append(text, copied, text.size());
    plain("\"");
  }

  void write_list(const ValueList& values) {
    if (values.empty()) return plain("[]");
    plain("[");
    ++level_;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) plain(style_.item_separator);
      new_line();
      write(values[i]);
    }
    --level_;
    new_line();
    plain("]");
  }

  void write_key(const Value& key) {
    switch (key.kind) {
      case Kind::string:
        return write_string(text_of(key));
      case Kind::none:
        return plain("\"null\"");
      case Kind::boolean:
        return plain(key.boolean ? "\"true\"" : "\"false\"");
      case Kind::integer:
      case Kind::real:
        return plain("\"" + number(key) + "\"");
      default:
        raise("a dict key that cannot be written as JSON");
    }
  }

  void write_dict(const DictObject& dict) {
    if (dict.entries.empty()) return plain("{}");
    std::vector<const DictEntry*> order;
    for (const DictEntry& entry : dict.entries) order.push_back(&entry);
    if (style_.sort_keys) {
      merge_sort(order, [&](const DictEntry* a, const DictEntry* b) {
        return interpreter_.less(a->key, b->key);
      });
    }
    plain("{");
    ++level_;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) plain(style_.item_separator);
      new_line();
      write_key(order[i]->key);
      plain(style_.key_separator);
      write(order[i]->value);
    }
    --level_;
    new_line();
    plain("}");
  }

  Interpreter& interpreter_;
  const JsonStyle& style_;
  Text out_;
  std::size_t level_ = 0;
};

}  // namespace

Text to_json(Interpreter& interpreter, const Value& value, const JsonStyle& style) {
  JsonWriter writer(interpreter, style);
  writer.write(value);
  return writer.take();
}

}  // namespace orrery::text::jinja
