// Methods of strings.
#include <algorithm>
#include <array>

#include "text/jinja_strings.hpp"

namespace orrery::text::jinja {

namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;

Value like(Interpreter& interpreter, const Value& self, Text text) {
  Value out = interpreter.string(std::move(text));
  out.safe = self.safe;
  return out;
}

template <Ends kEnds>
Value str_strip(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"chars"};
  const Bound bound("strip", args, kNames, 0);
  std::optional<Text> characters;
  if (bound.has(0) && !bound[0].is_none()) {
    characters = interpreter.string_argument(bound[0], "strip()");
  }
  return like(interpreter, self, strip(text_of(self), kEnds, characters));
}

template <Casing kCasing>
Value str_case(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("upper", args, {}, 0);
  return like(interpreter, self, change_case(text_of(self), kCasing));
}

Value str_capitalize(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("capitalize", args, {}, 0);
  return like(interpreter, self, capitalize(text_of(self)));
}

bool has_letter_case(std::int32_t code) {
  std::string one;
  append_utf8(one, code);
  const Text text(one, true);
  return change_case(text, Casing::lower).view() != one ||
         change_case(text, Casing::upper).view() != one;
}

Value str_title(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("title", args, {}, 0);
  const Text& text = text_of(self);
  Text out;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text.view(), at);
    const std::size_t end = at + character.length;
    const bool cased = character.valid && has_letter_case(character.code);
    const Text one = text.slice(at, end);
    out.append(cased ? change_case(one, inside ? Casing::lower : Casing::title) : one);
    inside = cased;
    at = end;
  }
  return like(interpreter, self, std::move(out));
}

Value str_swapcase(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("swapcase", args, {}, 0);
  const Text& text = text_of(self);
  Text out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at + character_at(text.view(), at).length;
    const Text one = text.slice(at, end);
    const Text upper = change_case(one, Casing::upper);
    out.append(upper.view() == one.view() ? change_case(one, Casing::lower) : upper);
    at = end;
  }
  return like(interpreter, self, std::move(out));
}

// The byte range [start:end) of arguments `first` and `first` + 1, which count characters.
std::pair<std::size_t, std::size_t> byte_range(const Text& text, const Bound& bound,
                                               std::size_t first) {
  const auto count = static_cast<std::int64_t>(character_count(text.view()));
  const auto clamp = [&](std::int64_t index) {
    return std::clamp<std::int64_t>(
        index < 0 ? std::max<std::int64_t>(index, -count) + count : index, 0, count);
  };
  const std::int64_t start = bound.integer_or(first, 0);
  if (start > count) return {text.size() + 1, text.size()};
  return {byte_offset(text.view(), static_cast<std::size_t>(clamp(start))),
          byte_offset(text.view(),
                      static_cast<std::size_t>(clamp(bound.integer_or(first + 1, count))))};
}

constexpr std::array<std::string_view, 3> kFindNames{"sub", "start", "end"};

template <bool kFromEnd>
std::int64_t find_in(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("find", args, kFindNames, 1);
  const Text& text = text_of(self);
  const Text needle = interpreter.string_argument(bound[0], "find()");
  const auto [begin, end] = byte_range(text, bound, 1);
  if (begin > end) return -1;
  const std::string_view window = text.view().substr(begin, end - begin);
  std::size_t found = std::string_view::npos;
  if constexpr (kFromEnd) {
    interpreter.step_bytes(window.size() * std::min<std::size_t>(needle.size() + 1, 64));
    found = window.rfind(needle.view());
  } else {
    interpreter.step_bytes(window.size());
    found = find_bytes(window, needle.view(), 0);
  }
  if (found == std::string_view::npos) return -1;
  return static_cast<std::int64_t>(character_count(text.view().substr(0, begin + found)));
}

template <bool kFromEnd>
Value str_find(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  return Value::of_int(find_in<kFromEnd>(interpreter, self, args));
}

template <bool kFromEnd>
Value str_index(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const std::int64_t found = find_in<kFromEnd>(interpreter, self, args);
  if (found < 0) raise("index(): the substring is not there");
  return Value::of_int(found);
}

Value str_count(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("count", args, kFindNames, 1);
  const Text& text = text_of(self);
  const Text needle = interpreter.string_argument(bound[0], "count()");
  const auto [begin, end] = byte_range(text, bound, 1);
  if (begin > end) return Value::of_int(0);
  const std::string_view window = text.view().substr(begin, end - begin);
  interpreter.step_bytes(window.size());
  if (needle.empty()) return Value::of_int(static_cast<std::int64_t>(character_count(window)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = find_bytes(window, needle.view(), at)) != std::string_view::npos;
       at += needle.size()) {
    ++count;
  }
  return Value::of_int(count);
}

template <bool kAtEnd>
Value str_affix(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound(kAtEnd ? "endswith" : "startswith", args, kFindNames, 1);
  const Text& text = text_of(self);
  const auto [begin, end] = byte_range(text, bound, 1);
  ValueList affixes{bound[0]};
  if (bound[0].is(Kind::tuple)) affixes = items_of(bound[0]);
  bool found = false;
  for (const Value& affix : affixes) {
    const Text wanted = interpreter.string_argument(affix, "startswith()");
    if (begin > end) continue;
    const std::string_view window = text.view().substr(begin, end - begin);
    found |= kAtEnd ? window.ends_with(wanted.view()) : window.starts_with(wanted.view());
  }
  return Value::of_bool(found);
}

Value str_replace(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 3> kNames{"old", "new", "count"};
  const Bound bound("replace", args, kNames, 2);
  const Text old = interpreter.string_argument(bound[0], "replace()");
  const Text with = interpreter.string_argument(bound[1], "replace()");
  return like(interpreter, self, replace_all(text_of(self), old, with, bound.integer_or(2, -1)));
}

Value str_removeprefix(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"prefix"};
  const Bound bound("removeprefix", args, kNames, 1);
  const Text prefix = interpreter.string_argument(bound[0], "removeprefix()");
  const Text& text = text_of(self);
  if (!text.view().starts_with(prefix.view())) return self;
  return like(interpreter, self, text.slice(prefix.size(), text.size()));
}

Value str_removesuffix(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"suffix"};
  const Bound bound("removesuffix", args, kNames, 1);
  const Text suffix = interpreter.string_argument(bound[0], "removesuffix()");
  const Text& text = text_of(self);
  if (!text.view().ends_with(suffix.view())) return self;
  return like(interpreter, self, text.slice(0, text.size() - suffix.size()));
}

Value text_list(Interpreter& interpreter, const Value& self, std::vector<Text> parts) {
  ValueList values;
  for (Text& part : parts) values.push_back(like(interpreter, self, std::move(part)));
  return interpreter.list(std::move(values));
}

std::vector<Text> split_space(const Text& text, std::int64_t most) {
  std::vector<Text> parts;
  const std::string_view bytes = text.view();
  std::size_t at = 0;
  const auto skip = [&](bool spaces) {
    while (at < bytes.size() && is_space(character_at(bytes, at).code) == spaces) {
      at += character_at(bytes, at).length;
    }
  };
  for (skip(true); at < bytes.size(); skip(true)) {
    const std::size_t begin = at;
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) >= most) {
      parts.push_back(text.slice(begin, bytes.size()));
      return parts;
    }
    skip(false);
    parts.push_back(text.slice(begin, at));
  }
  return parts;
}

std::vector<Text> rsplit_space(const Text& text, std::int64_t most) {
  if (most < 0) return split_space(text, most);
  const std::vector<Text> words = split_space(text, -1);
  if (static_cast<std::int64_t>(words.size()) <= most) return words;
  // What is left of the last `most` words stays whole.
  Text rest = strip(text, Ends::right, std::nullopt);
  std::vector<Text> parts;
  for (std::int64_t i = 0; i < most; ++i) {
    const Text& word = words[words.size() - 1 - static_cast<std::size_t>(i)];
    rest = strip(rest.slice(0, rest.size() - word.size()), Ends::right, std::nullopt);
    parts.insert(parts.begin(), word);
  }
  parts.insert(parts.begin(), strip(rest, Ends::right, std::nullopt));
  return parts;
}

std::vector<Text> split_by(const Text& text, const Text& separator, std::int64_t most) {
  std::vector<Text> parts;
  std::size_t begin = 0;
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const std::size_t found = find_bytes(text.view(), separator.view(), begin);
    if (found == std::string_view::npos) break;
    parts.push_back(text.slice(begin, found));
    begin = found + separator.size();
  }
  parts.push_back(text.slice(begin, text.size()));
  return parts;
}

std::vector<Text> rsplit_by(const Text& text, const Text& separator, std::int64_t most) {
  std::vector<Text> parts;
  std::size_t end = text.size();
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    if (end < separator.size()) break;
    const std::size_t found = text.view().substr(0, end).rfind(separator.view());
    if (found == std::string_view::npos) break;
    parts.push_back(text.slice(found + separator.size(), end));
    end = found;
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool kFromEnd>
Value str_split(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"sep", "maxsplit"};
  const Bound bound("split", args, kNames, 0);
  const Text& text = text_of(self);
  interpreter.step_bytes(text.size());
  const std::int64_t most = bound.integer_or(1, -1);
  if (!bound.has(0) || bound[0].is_none()) {
    return text_list(interpreter, self,
                     kFromEnd ? rsplit_space(text, most) : split_space(text, most));
  }
  const Text separator = interpreter.string_argument(bound[0], "split()");
  if (separator.empty()) raise("split() by an empty string");
  return text_list(interpreter, self,
                   kFromEnd ? rsplit_by(text, separator, most) : split_by(text, separator, most));
}

template <bool kFromEnd>
Value str_partition(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"sep"};
  const Bound bound("partition", args, kNames, 1);
  const Text separator = interpreter.string_argument(bound[0], "partition()");
  if (separator.empty()) raise("partition() by an empty string");
  const Text& text = text_of(self);
  const std::vector<Text> parts =
      kFromEnd ? rsplit_by(text, separator, 1) : split_by(text, separator, 1);
  const Value empty = interpreter.string(std::string());
  if (parts.size() < 2) {
    return kFromEnd ? interpreter.tuple({empty, empty, self})
                    : interpreter.tuple({self, empty, empty});
  }
  return interpreter.tuple(
      {interpreter.string(parts[0]), interpreter.string(separator), interpreter.string(parts[1])});
}

Value str_splitlines(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"keepends"};
  const Bound bound("splitlines", args, kNames, 0);
  return text_list(interpreter, self, split_lines(text_of(self), bound.flag(0, false)));
}

Value str_join(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"iterable"};
  const Bound bound("join", args, kNames, 1);
  const ValueList values = interpreter.to_list(bound[0]);
  return like(interpreter, self, join(interpreter, text_of(self), values, false));
}

Value str_format(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  return like(interpreter, self, format_braces(interpreter, text_of(self), args));
}

enum class Justify : std::uint8_t { left, right, center };

template <Justify kJustify>
Value str_justify(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"width", "fillchar"};
  const Bound bound("ljust", args, kNames, 1);
  const Text& text = text_of(self);
  const Text fill =
      bound.has(1) ? interpreter.string_argument(bound[1], "ljust()") : Text(" ", true);
  if (character_count(fill.view()) != 1) raise("ljust() fills with one character");
  const std::int64_t width = bound.integer_or(0, 0);
  if (width > kMaxWidth) raise("ljust() wider than 1 MiB");
  const auto count = static_cast<std::int64_t>(character_count(text.view()));
  const std::int64_t missing = std::max<std::int64_t>(width - count, 0);
  std::int64_t before = kJustify == Justify::left ? 0 : missing;
  if (kJustify == Justify::center) before = missing / 2 + (missing & width & 1);
  Text out;
  for (std::int64_t i = 0; i < before; ++i) out.append(fill);
  out.append(text);
  for (std::int64_t i = before; i < missing; ++i) out.append(fill);
  return like(interpreter, self, std::move(out));
}

Value str_zfill(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"width"};
  const Bound bound("zfill", args, kNames, 1);
  const Text& text = text_of(self);
  const std::int64_t width = bound.integer_or(0, 0);
  if (width > kMaxWidth) raise("zfill() wider than 1 MiB");
  const auto count = static_cast<std::int64_t>(character_count(text.view()));
  const bool sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+');
  Text out = text.slice(0, sign ? 1 : 0);
  out.append(std::string(static_cast<std::size_t>(std::max<std::int64_t>(width - count, 0)), '0'),
             true);
  out.append(text, sign ? 1 : 0, text.size());
  return like(interpreter, self, std::move(out));
}

using CharacterTest = bool (*)(std::int32_t);

bool is_alnum(std::int32_t code) {
  return code != '_' && is_word(code);
}

// True if the string is not empty and every character passes.
template <CharacterTest kTest>
Value str_all(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("isdigit", args, {}, 0);
  const std::string_view bytes = bytes_of(self);
  interpreter.step_bytes(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const Character character = character_at(bytes, at);
    if (!character.valid || !kTest(character.code)) return Value::of_bool(false);
    at += character.length;
  }
  return Value::of_bool(!bytes.empty());
}

template <Casing kCasing>
Value str_is_case(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("islower", args, {}, 0);
  const Text& text = text_of(self);
  interpreter.step_bytes(text.size());
  constexpr Casing kOther = kCasing == Casing::lower ? Casing::upper : Casing::lower;
  return Value::of_bool(change_case(text, kCasing).view() == text.view() &&
                        change_case(text, kOther).view() != text.view());
}

}  // namespace

std::span<const MethodEntry> string_methods() {
  static constexpr auto kMethods = std::to_array<MethodEntry>({
      {"strip", str_strip<Ends::both>},
      {"lstrip", str_strip<Ends::left>},
      {"rstrip", str_strip<Ends::right>},
      {"upper", str_case<Casing::upper>},
      {"lower", str_case<Casing::lower>},
      {"casefold", str_case<Casing::lower>},
      {"capitalize", str_capitalize},
      {"title", str_title},
      {"swapcase", str_swapcase},
      {"find", str_find<false>},
      {"rfind", str_find<true>},
      {"index", str_index<false>},
      {"rindex", str_index<true>},
      {"count", str_count},
      {"startswith", str_affix<false>},
      {"endswith", str_affix<true>},
      {"replace", str_replace},
      {"removeprefix", str_removeprefix},
      {"removesuffix", str_removesuffix},
      {"split", str_split<false>},
      {"rsplit", str_split<true>},
      {"partition", str_partition<false>},
      {"rpartition", str_partition<true>},
      {"splitlines", str_splitlines},
      {"join", str_join},
      {"format", str_format},
      {"ljust", str_justify<Justify::left>},
      {"rjust", str_justify<Justify::right>},
      {"center", str_justify<Justify::center>},
      {"zfill", str_zfill},
      {"isdigit", str_all<is_digit>},
      {"isdecimal", str_all<is_digit>},
      {"isnumeric", str_all<is_digit>},
      {"isalpha", str_all<is_alpha>},
      {"isalnum", str_all<is_alnum>},
      {"isspace", str_all<is_space>},
      {"islower", str_is_case<Casing::lower>},
      {"isupper", str_is_case<Casing::upper>},
  });
  return kMethods;
}

}  // namespace orrery::text::jinja
