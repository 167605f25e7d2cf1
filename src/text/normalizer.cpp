#include "text/normalizer.hpp"

#include <utility>

#include "text/unicode.hpp"

namespace orrery::text {
namespace {

using Kind = NormalizerStep::Kind;

// Copies `text` character by character through `edit(code, bytes, out)`.
template <class Edit>
std::string edit_characters(std::string_view text, Edit edit) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    edit(point.code, text.substr(at, point.length), out);
    at += point.length;
  }
  return out;
}

std::string strip_accents(std::string_view text) {
  return edit_characters(text, [](std::uint32_t code, std::string_view bytes, std::string& out) {
    if (!is_nonspacing_mark(code)) out += bytes;
  });
}

std::string strip_marks(std::string_view text) {
  return edit_characters(text, [](std::uint32_t code, std::string_view bytes, std::string& out) {
    if (!is_mark(code)) out += bytes;
  });
}

std::string clean_bert(std::string_view text) {
  return edit_characters(text, [](std::uint32_t code, std::string_view bytes, std::string& out) {
    if (is_white_space(code)) {
      out += ' ';
    } else if (code != 0 && code != 0xFFFD && !is_control(code)) {
      out += bytes;
    }
  });
}

std::string space_cjk(std::string_view text) {
  return edit_characters(text, [](std::uint32_t code, std::string_view bytes, std::string& out) {
    if (is_cjk(code)) {
      out.append(" ").append(bytes).append(" ");
    } else {
      out += bytes;
    }
  });
}

// SentencePiece's rules nmt_*: control characters go, zero-width and odd spaces become U+0020.
std::string clean_nmt(std::string_view text) {
  return edit_characters(text, [](std::uint32_t code, std::string_view bytes, std::string& out) {
    const bool drops = (code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) ||
                       code == 0x7F || code == 0x8F || code == 0x9F;
    const bool is_space = code == 9 || code == 0xA || code == 0xC || code == 0xD ||
                          code == 0x1680 || (code >= 0x200B && code <= 0x200F) || code == 0x2028 ||
                          code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    if (is_space) {
      out += ' ';
    } else if (!drops) {
      out += bytes;
    }
  });
}

std::string strip_ends(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const CodePoint point = decode_utf8(text, 0);
    if (!is_white_space(point.code)) break;
    text.remove_prefix(point.length);
  }
  while (right && !text.empty()) {
    std::size_t last = text.size() - 1;
    while (last > 0 && (static_cast<std::uint8_t>(text[last]) & 0xC0U) == 0x80U) --last;
    if (!is_white_space(decode_utf8(text, last).code)) break;
    text = text.substr(0, last);
  }
  return std::string(text);
}

std::string collapse_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string replace_text(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    out.append(text.substr(done, at - done)).append(to);
    done = at + from.size();
  }
  return out.append(text.substr(done));
}

std::string replace_matches(std::string_view text, const Regex& regex, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  regex.each_match(text, [&](Regex::Match match) {
    out.append(text.substr(done, match.start - done)).append(to);
    done = match.end;
  });
  return out.append(text.substr(done));
}

std::string map_characters(std::string_view text, const CharsMap& map) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    if (const auto replacement = map.find(text.substr(at), length)) {
      out += *replacement;
    } else {
      length = decode_utf8(text, at).length;
      out += text.substr(at, length);
    }
    at += length;
  }
  return out;
}

}  // namespace

Result<CharsMap> CharsMap::parse(std::string_view blob) {
  const auto u32_at = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;)
      value = (value << 8U) | static_cast<std::uint8_t>(blob[at + i]);
    return value;
  };
  if (blob.size() < 4) return fail("E_TOKENIZER", "the character map is shorter than its header");
  const std::size_t size = u32_at(0);
  if (size % 4 != 0 || size == 0 || size > blob.size() - 4) {
    return fail("E_TOKENIZER", "the character map declares a table of " + std::to_string(size) +
                                   " bytes but has " + std::to_string(blob.size() - 4));
  }
  CharsMap map;
  map.units_.resize(size / 4);
  for (std::size_t i = 0; i < map.units_.size(); ++i) map.units_[i] = u32_at(4 + 4 * i);
  map.texts_ = blob.substr(4 + size);
  map.texts_.push_back('\0');
  return map;
}

std::optional<std::string_view> CharsMap::find(std::string_view text, std::size_t& length) const {
  // A unit holds its label in bits 0-7 (bit 31 set: a leaf with the value in bits 0-30), "has a
  // leaf" in bit 8, and the offset to its children from bit 10 (shifted by 8 when bit 9 is set).
  const auto offset_of = [](std::uint32_t unit) {
    return (unit >> 10U) << ((unit & (1U << 9U)) >> 6U);
  };
  std::optional<std::string_view> best;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) break;
    const std::uint32_t unit = units_[node];
    if ((unit & ((1U << 31U) | 0xFFU)) != byte) break;
    node ^= offset_of(unit);
    if ((unit & (1U << 8U)) == 0) continue;
    if (node >= units_.size()) break;
    const std::size_t start = units_[node] & 0x7FFFFFFFU;
    if (start >= texts_.size()) break;
    length = i + 1;
    best = std::string_view(texts_.c_str() + start);
  }
  return best;
}

Result<Normalizer> Normalizer::create(std::vector<NormalizerStep> steps) {
  Normalizer normalizer;
  for (NormalizerStep& spec : steps) {
    Step step{std::move(spec), std::nullopt, std::nullopt};
    if (step.spec.kind == Kind::replace_regex) {
      ORRERY_TRY(step.regex, Regex::compile(step.spec.a));
    } else if (step.spec.kind == Kind::charsmap) {
      ORRERY_TRY(step.charsmap, CharsMap::parse(step.spec.a));
    } else if (step.spec.kind == Kind::replace && step.spec.a.empty()) {
      continue;
    }
    normalizer.steps_.push_back(std::move(step));
  }
  return normalizer;
}

std::string Normalizer::run(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) {
    const NormalizerStep& spec = step.spec;
    switch (spec.kind) {
      case Kind::nfc:
        out = normalize(out, NormalForm::nfc);
        break;
      case Kind::nfd:
        out = normalize(out, NormalForm::nfd);
        break;
      case Kind::nfkc:
        out = normalize(out, NormalForm::nfkc);
        break;
      case Kind::nfkd:
        out = normalize(out, NormalForm::nfkd);
        break;
      case Kind::lower_case:
        out = lower_case(out);
        break;
      case Kind::strip_accents:
        out = strip_accents(out);
        break;
      case Kind::strip_marks:
        out = strip_marks(out);
        break;
      case Kind::strip:
        out = strip_ends(out, spec.left, spec.right);
        break;
      case Kind::replace:
        out = replace_text(out, spec.a, spec.b);
        break;
      case Kind::replace_regex:
        out = replace_matches(out, *step.regex, spec.b);
        break;
      case Kind::prepend:
        if (!out.empty()) out.insert(0, spec.a);
        break;
      case Kind::nmt:
        out = clean_nmt(out);
        break;
      case Kind::charsmap:
        out = map_characters(out, *step.charsmap);
        break;
      case Kind::collapse_spaces:
        out = collapse_spaces(out);
        break;
      case Kind::bert_clean:
        out = clean_bert(out);
        break;
      case Kind::bert_cjk:
        out = space_cjk(out);
        break;
    }
  }
  return out;
}

}  // namespace orrery::text
