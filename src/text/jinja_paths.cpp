#include "text/jinja_paths.hpp"

#include <algorithm>
#include <charconv>

namespace orrery::text::jinja {

namespace {
bool all_digits(std::string_view part) {
  return !part.empty() && part.size() <= 18 &&
         std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

template <class Visit>
void split(std::string_view text, char separator, Visit visit) {
  while (true) {
    const std::size_t at = text.find(separator);
    visit(text.substr(0, at));
    if (at == std::string_view::npos) return;
    text.remove_prefix(at + 1);
  }
}
}  // namespace

AttributePath::AttributePath(Interpreter& interpreter, const Value& attribute,
                             std::optional<Value> fallback)
    : fallback_(std::move(fallback)) {
  if (attribute.is_none()) return;
  if (!attribute.is_string()) {
    parts_.push_back(attribute);
    return;
  }
  split(bytes_of(attribute), '.', [&](std::string_view part) {
    if (!all_digits(part)) {
      parts_.push_back(interpreter.string(std::string(part)));
      return;
    }
    std::int64_t index = 0;
    std::from_chars(part.data(), part.data() + part.size(), index);
    parts_.push_back(Value::of_int(index));
  });
}

Value AttributePath::get(Interpreter& interpreter, Value item) const {
  for (const Value& part : parts_) {
    item = interpreter.item(item, part);
    if (fallback_ && item.is_undefined()) item = *fallback_;
  }
  return item;
}

std::vector<AttributePath> attribute_paths(Interpreter& interpreter, const Value& attribute) {
  std::vector<AttributePath> paths;
  if (!attribute.is_string()) {
    paths.emplace_back(interpreter, attribute);
    return paths;
  }
  split(bytes_of(attribute), ',', [&](std::string_view part) {
    paths.emplace_back(interpreter, interpreter.string(std::string(part)));
  });
  return paths;
}

Value fold_case(Interpreter& interpreter, const Value& value) {
  if (!value.is_string()) return value;
  return interpreter.string(change_case(text_of(value), Casing::lower));
}

}  // namespace orrery::text::jinja
