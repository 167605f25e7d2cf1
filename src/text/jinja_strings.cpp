#include "text/jinja_strings.hpp"

#include <algorithm>

namespace orrery::text::jinja {

namespace {

bool strips(std::string_view bytes, std::size_t at, const std::optional<Text>& characters) {
  const Character character = character_at(bytes, at);
  if (!characters) return character.valid && is_space(character.code);
  const std::string_view one = bytes.substr(at, character.length);
  return characters->view().find(one) != std::string_view::npos;
}

std::size_t previous(std::string_view bytes, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(bytes[at]) & 0xc0U) == 0x80U) --at;
  return at + character_at(bytes, at).length == end ? at : end - 1;
}

}  // namespace

Text strip(const Text& text, Ends ends, const std::optional<Text>& characters) {
  const std::string_view bytes = text.view();
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  while (ends != Ends::right && begin < end && strips(bytes, begin, characters)) {
    begin += character_at(bytes, begin).length;
  }
  while (ends != Ends::left && end > begin) {
    const std::size_t at = previous(bytes, end);
    if (!strips(bytes, at, characters)) break;
    end = at;
  }
  return text.slice(begin, end);
}

Text replace_all(const Text& text, const Text& old, const Text& with, std::int64_t count) {
  const std::string_view bytes = text.view();
  Text out;
  std::size_t copied = 0;
  std::size_t at = 0;
  for (std::int64_t done = 0; count < 0 || done < count; ++done) {
    const std::size_t found = find_bytes(bytes, old.view(), at);
    if (found == std::string_view::npos) break;
    out.append(text, copied, found);
    out.append(with);
    if (out.size() > kMaxStringBytes) raise("a string of more than 16 MiB");
    copied = found + old.size();
    if (!old.empty()) {
      at = copied;
    } else {
      if (found >= bytes.size()) break;
      at = found + character_at(bytes, found).length;
    }
  }
  out.append(text, copied, text.size());
  return out;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.view();
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character character = character_at(bytes, at);
    const std::int32_t code = character.code;
    const bool ends = (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) ||
                      code == 0x85 || code == 0x2028 || code == 0x2029;
    std::size_t next = at + character.length;
    if (ends && character.valid) {
      if (code == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      lines.push_back(text.slice(begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

Text capitalize(const Text& text) {
  if (text.empty()) return text;
  const std::size_t first = character_at(text.view(), 0).length;
  Text out = change_case(text.slice(0, first), Casing::title);
  // The rest is lowered in its context, so that a final sigma is seen.
  const Text lower = change_case(text, Casing::lower);
  const Text lower_first = change_case(text.slice(0, first), Casing::lower);
  out.append(lower, lower_first.size(), lower.size());
  return out;
}

Text join(Interpreter& interpreter, const Text& separator, const ValueList& values, bool convert) {
  Text out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    interpreter.step();
    if (i > 0) out.append(separator);
    if (values[i].is_string()) {
      out.append(text_of(values[i]));
    } else {
      if (!convert) raise("join() needs strings, not a " + std::string(type_name(values[i])));
      out.append(interpreter.str(values[i]));
    }
    if (out.size() > kMaxStringBytes) raise("a string of more than 16 MiB");
  }
  return out;
}

}  // namespace orrery::text::jinja
