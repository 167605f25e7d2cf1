// Python's two ways to fill a string: "%s" % x and "{}".format(x).
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja_interp.hpp"

namespace orrery::text::jinja {

namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr int kMaxPrecision = 500;

// How one value is laid out.
struct Layout {
  Text fill{" ", true};
  char align = '\0';  // < > ^ =
  char sign = '-';    // - + space
  bool alternate = false;
  bool zero = false;
  bool comma = false;
  std::int64_t width = 0;
  int precision = -1;
  char type = '\0';
};

Text padded(const Text& text, const Layout& layout, char default_align, std::size_t prefix = 0) {
  const auto count = static_cast<std::int64_t>(character_count(text.view()));
  if (count >= layout.width) return text;
  if (layout.width > kMaxWidth) raise("a field wider than 1 MiB");
  const char align = layout.align == '\0' ? default_align : layout.align;
  const std::int64_t missing = layout.width - count;
  std::int64_t before = 0;
  if (align == '>' || align == '=') before = missing;
  if (align == '^') before = missing / 2;
  Text out;
  if (align == '=') out.append(text, 0, prefix);
  for (std::int64_t i = 0; i < before; ++i) out.append(layout.fill);
  out.append(text, align == '=' ? prefix : 0, text.size());
  for (std::int64_t i = before; i < missing; ++i) out.append(layout.fill);
  return out;
}

void group_thousands(std::string& digits) {
  const std::size_t end = std::min(digits.find('.'), digits.find('e'));
  std::size_t at = std::min(end, digits.size());
  while (at > 3) {
    at -= 3;
    digits.insert(at, ",");
  }
}

std::string sign_of(bool negative, char style) {
  if (negative) return "-";
  return style == '-' ? std::string() : std::string(1, style);
}

Text layout_number(std::string digits, std::string prefix, bool negative, bool markup,
                   const Layout& layout) {
  if (layout.comma) group_thousands(digits);
  const std::string head = sign_of(negative, layout.sign) + prefix;
  Text text(head + digits, markup);
  Layout actual = layout;
  if (layout.zero && layout.align == '\0') {
    actual.fill = Text("0", true);
    actual.align = '=';
  }
  return padded(text, actual, '>', head.size());
}

std::string digits_of(std::uint64_t value, int base, bool upper) {
  std::array<char, 72> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, base);
  std::string out(buffer.data(), end.ptr);
  if (upper)
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return out;
}

Text layout_integer(std::int64_t value, bool markup, const Layout& layout) {
  const bool negative = value < 0;
  const std::uint64_t size =
      negative ? 0U - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const char type = layout.type;
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  std::string digits = digits_of(size, base, type == 'X');
  if (layout.precision > static_cast<int>(digits.size())) {
    digits.insert(0, static_cast<std::size_t>(layout.precision) - digits.size(), '0');
  }
  const std::string prefix =
      layout.alternate && base != 10 ? std::string("0") + type : std::string();
  return layout_number(std::move(digits), prefix, negative, markup, layout);
}

std::string real_digits(double value, char type, int precision, bool alternate) {
  if (!std::isfinite(value)) {
    const bool upper = type == 'F' || type == 'E' || type == 'G';
    return std::isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
  }
  std::string format = alternate ? "%#.*" : "%.*";
  format += type;
  const int size = std::snprintf(nullptr, 0, format.c_str(), precision, value);
  std::string out(static_cast<std::size_t>(size), '\0');
  std::snprintf(out.data(), out.size() + 1, format.c_str(), precision, value);
  return out;
}

Text layout_real(double value, bool markup, const Layout& layout) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double size = negative ? -value : value;
  const int precision = layout.precision < 0 ? 6 : layout.precision;
  std::string digits;
  if (layout.type == '%') {
    digits = real_digits(size * 100, 'f', precision, layout.alternate) + "%";
  } else if (layout.type == '\0') {
    digits = layout.precision < 0
                 ? real_repr(size)
                 : real_digits(size, 'g', std::max(precision, 1), layout.alternate);
    if (layout.precision >= 0 && digits.find_first_of(".einf") == std::string::npos) digits += ".0";
  } else {
    digits = real_digits(size, layout.type, precision, layout.alternate);
  }
  return layout_number(std::move(digits), "", negative, markup, layout);
}

Text cut(const Text& text, int precision) {
  if (precision < 0) return text;
  return text.slice(0, byte_offset(text.view(), static_cast<std::size_t>(precision)));
}

// printf style ----------------------------------------------------------------------------------

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, const Text& format, const Value& args)
      : interpreter_(interpreter), format_(format), args_(args) {}

  Text run() {
    const std::string_view bytes = format_.view();
    while (at_ < bytes.size()) {
      const std::size_t percent = std::min(bytes.find('%', at_), bytes.size());
      out_.append(format_, at_, percent);
      at_ = percent;
      if (at_ < bytes.size()) field();
      if (out_.size() > kMaxStringBytes) raise("a string of more than 16 MiB");
    }
    const bool unused = args_.is(Kind::tuple) ? next_ < items_of(args_).size() : next_ == 0;
    if (unused && !args_.is(Kind::dict)) raise("not all arguments are used by the format");
    return std::move(out_);
  }

 private:
  char peek() const { return at_ < format_.size() ? format_.view()[at_] : '\0'; }

  Value take() {
    if (args_.is(Kind::tuple)) {
      if (next_ >= items_of(args_).size()) raise("not enough arguments for the format");
      return items_of(args_)[next_++];
    }
    if (next_++ > 0) raise("not enough arguments for the format");
    return args_;
  }

  std::int64_t number() {
    if (peek() == '*') {
      ++at_;
      return interpreter_.int_argument(take(), "*");
    }
    std::int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > kMaxWidth) raise("a field wider than 1 MiB");
    }
    return value;
  }

  Value named(std::size_t begin) {
    if (!args_.is(Kind::dict)) raise("the format needs a mapping");
    const std::size_t close = format_.view().find(')', begin);
    if (close == std::string_view::npos) raise("a format key without its end");
    const std::string_view key = format_.view().substr(begin, close - begin);
    const Value* value = dict_of(args_).find(key);
    if (value == nullptr) raise("the format names the unknown key '" + std::string(key) + "'");
    at_ = close + 1;
    next_ = 1;
    return *value;
  }

  void field() {
    ++at_;
    Layout layout;
    Value value;
    const bool has_value = peek() == '(';
    if (has_value) value = named(at_ + 1);
    for (;; ++at_) {
      const char flag = peek();
      if (flag == '-') {
        layout.align = '<';
      } else if (flag == '+') {
        layout.sign = '+';
      } else if (flag == ' ') {
        if (layout.sign != '+') layout.sign = ' ';
      } else if (flag == '#') {
        layout.alternate = true;
      } else if (flag == '0') {
        layout.zero = true;
      } else {
        break;
      }
    }
    layout.width = number();
    if (layout.width < 0) {
      layout.align = '<';
      layout.width = -std::max(layout.width, -kMaxWidth - 1);
    }
    if (peek() == '.') {
      ++at_;
      layout.precision = static_cast<int>(std::clamp<std::int64_t>(number(), 0, kMaxWidth));
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    layout.type = peek();
    if (at_ >= format_.size()) raise("an incomplete format");
    ++at_;
    if (layout.type == '%') {
      out_.append("%", format_.markup_at(at_ - 1));
      return;
    }
    out_.append(convert(has_value ? value : take(), layout));
  }

  Text convert(const Value& value, Layout& layout) {
    switch (layout.type) {
      case 's':
        return padded(cut(interpreter_.str(value), layout.precision), layout, '>');
      case 'r':
      case 'a':
        return padded(cut(interpreter_.repr(value), layout.precision), layout, '>');
      case 'c':
        return padded(character(value), layout, '>');
      default:
        break;
    }
    constexpr std::string_view kIntegers = "diuoxX";
    constexpr std::string_view kReals = "eEfFgG";
    const bool integer = kIntegers.find(layout.type) != std::string_view::npos;
    if (!integer && kReals.find(layout.type) == std::string_view::npos) {
      raise("an unsupported format character");
    }
    if (value.is_undefined()) interpreter_.raise_undefined(value);
    if (!value.is_number()) raise("the format needs a number");
    layout.precision = std::min(layout.precision, kMaxPrecision);
    if (!integer) return layout_real(value.as_real(), value.markup, layout);
    const bool decimal = layout.type == 'd' || layout.type == 'i' || layout.type == 'u';
    if (value.is(Kind::real) && !decimal) raise("the format needs an integer");
    if (decimal) layout.type = 'd';
    return layout_integer(truncated(value), value.markup, layout);
  }

  static std::int64_t truncated(const Value& value) {
    if (value.is_integral()) return value.as_int();
    if (!(std::fabs(value.real) < 9.2e18)) raise("an integer beyond 64 bits");
    return static_cast<std::int64_t>(value.real);
  }

  Text character(const Value& value) {
    if (value.is_string() && character_count(bytes_of(value)) == 1) return text_of(value);
    if (!value.is_integral()) raise("%c needs an integer or one character");
    const std::int64_t code = value.as_int();
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
      raise("%c needs a character's code");
    }
    std::string bytes;
    append_utf8(bytes, static_cast<std::int32_t>(code));
    return Text(std::move(bytes), value.markup);
  }

  Interpreter& interpreter_;
  const Text& format_;
  const Value& args_;
  Text out_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
};

// Braces ----------------------------------------------------------------------------------------

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const CallArgs& args)
      : interpreter_(interpreter), args_(args) {}

  Text run(const Text& format, int depth) {
    if (depth > 1) raise("a format nested too deeply");
    const std::string_view bytes = format.view();
    Text out;
    for (std::size_t at = 0; at < bytes.size();) {
      const char c = bytes[at];
      const bool brace = c == '{' || c == '}';
      if (!brace || (at + 1 < bytes.size() && bytes[at + 1] == c)) {
        out.append(format, at, at + 1);
        at += brace ? 2 : 1;
        continue;
      }
      if (c == '}') raise("a single '}' in a format");
      std::size_t end = at + 1;
      for (int open = 1; open > 0; ++end) {
        if (end >= bytes.size()) raise("a single '{' in a format");
        open += bytes[end] == '{' ? 1 : bytes[end] == '}' ? -1 : 0;
      }
      out.append(field(format.slice(at + 1, end - 1), depth));
      if (out.size() > kMaxStringBytes) raise("a string of more than 16 MiB");
      at = end;
    }
    return out;
  }

 private:
  Text field(const Text& field, int depth) {
    interpreter_.step();
    const std::string_view bytes = field.view();
    const std::size_t mark = std::min(bytes.find_first_of("!:"), bytes.size());
    Value value = lookup(bytes.substr(0, mark));
    std::size_t at = mark;
    if (at < bytes.size() && bytes[at] == '!') {
      const char type = at + 1 < bytes.size() ? bytes[at + 1] : '\0';
      if (type != 'r' && type != 's' && type != 'a') raise("an unknown conversion in a format");
      value = interpreter_.string(type == 's' ? interpreter_.str(value) : interpreter_.repr(value));
      at += 2;
      if (at < bytes.size() && bytes[at] != ':') raise("a ':' is missing in a format");
    }
    const Text spec =
        at < bytes.size() ? run(field.slice(at + 1, bytes.size()), depth + 1) : Text();
    return convert(value, spec);
  }

  Value lookup(std::string_view path) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    const std::string_view first = path.substr(0, end);
    Value value = first_value(first);
    for (std::size_t at = end; at < path.size();) {
      if (path[at] == '.') {
        const std::size_t stop = std::min(path.find_first_of(".[", at + 1), path.size());
        value = interpreter_.attribute(value, path.substr(at + 1, stop - at - 1));
        at = stop;
      } else if (path[at] == '[') {
        const std::size_t stop = path.find(']', at);
        if (stop == std::string_view::npos) raise("a ']' is missing in a format");
        const std::string_view key = path.substr(at + 1, stop - at - 1);
        std::int64_t index = 0;
        const auto parsed = std::from_chars(key.data(), key.data() + key.size(), index);
        const bool number = parsed.ec == std::errc{} && parsed.ptr == key.data() + key.size();
        value = interpreter_.item(
            value, number ? Value::of_int(index) : interpreter_.string(std::string(key)));
        at = stop + 1;
      } else {
        raise("a broken field in a format");
      }
      if (value.is_undefined()) raise("a format names what does not exist");
    }
    return value;
  }

  Value first_value(std::string_view name) {
    std::size_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool number = parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size();
    if (name.empty() || number) {
      const int mode = name.empty() ? 1 : 2;
      if (mode_ != 0 && mode_ != mode) raise("a format both numbered and not");
      mode_ = mode;
      if (name.empty()) index = next_++;
      if (index >= args_.positional.size()) raise("not enough arguments for the format");
      return args_.positional[index];
    }
    for (const auto& [known, value] : args_.named) {
      if (known == name) return value;
    }
    raise("the format names the unknown argument '" + std::string(name) + "'");
  }

  static Layout parse_spec(const Text& spec) {
    Layout layout;
    const std::string_view bytes = spec.view();
    std::size_t at = 0;
    const auto peek = [&](std::size_t where) { return where < bytes.size() ? bytes[where] : '\0'; };
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    const std::size_t first = bytes.empty() ? 0 : character_at(bytes, 0).length;
    if (is_align(peek(first)) && first > 0) {
      layout.fill = spec.slice(0, first);
      layout.align = bytes[first];
      at = first + 1;
    } else if (is_align(peek(0))) {
      layout.align = bytes[at++];
    }
    if (peek(at) == '+' || peek(at) == '-' || peek(at) == ' ') layout.sign = bytes[at++];
    if (peek(at) == '#') layout.alternate = ++at != 0;
    if (peek(at) == '0') layout.zero = ++at != 0;
    const auto number = [&] {
      std::int64_t value = 0;
      for (; peek(at) >= '0' && peek(at) <= '9'; ++at) {
        value = value * 10 + (peek(at) - '0');
        if (value > kMaxWidth) raise("a field wider than 1 MiB");
      }
      return value;
    };
    layout.width = number();
    if (peek(at) == ',') layout.comma = ++at != 0;
    if (peek(at) == '.') {
      ++at;
      if (peek(at) < '0' || peek(at) > '9') raise("a precision is missing in a format");
      layout.precision = static_cast<int>(number());
    }
    if (at < bytes.size()) layout.type = bytes[at++];
    if (at != bytes.size()) raise("a broken format specification");
    return layout;
  }

  Text convert(const Value& value, const Text& spec) {
    if (spec.empty()) return interpreter_.str(value);
    Layout layout = parse_spec(spec);
    constexpr std::string_view kReals = "eEfFgG%";
    const bool real = value.is(Kind::real) ||
                      (layout.type != '\0' && kReals.find(layout.type) != std::string_view::npos);
    if (value.is_number() && real) {
      layout.precision = std::min(layout.precision, kMaxPrecision);
      return layout_real(value.as_real(), value.markup, layout);
    }
    if (value.is_integral()) {
      constexpr std::string_view kIntegers = "bdoxXn";
      const bool known =
          layout.type == '\0' || kIntegers.find(layout.type) != std::string_view::npos;
      if (!known || layout.precision >= 0) raise("a format that does not fit an integer");
      return layout_integer(value.as_int(), value.markup, layout);
    }
    if (!value.is_string()) raise("a format specification for a " + std::string(type_name(value)));
    if ((layout.type != '\0' && layout.type != 's') || layout.align == '=') {
      raise("a format that does not fit a string");
    }
    if (layout.zero && layout.align == '\0') layout.fill = Text("0", true);
    return padded(cut(text_of(value), layout.precision), layout, '<');
  }

  Interpreter& interpreter_;
  const CallArgs& args_;
  std::size_t next_ = 0;
  int mode_ = 0;  // 1: {} fields, 2: {0} fields
};

}  // namespace

Text format_percent(Interpreter& interpreter, const Text& format, const Value& args) {
  return PercentFormatter(interpreter, format, args).run();
}

Text format_braces(Interpreter& interpreter, const Text& format, const CallArgs& args) {
  return BraceFormatter(interpreter, args).run(format, 0);
}

}  // namespace orrery::text::jinja
