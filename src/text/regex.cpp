#include "text/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <string>
#include <utility>

#include "text/unicode.hpp"

namespace orrery::text {
namespace {

constexpr std::size_t kMaxPatternBytes = 64U << 10;
constexpr std::uint32_t kMatchLimit = 10'000'000;
constexpr std::uint32_t kHeapLimitKib = 256U << 10;
constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// PCRE2 counts U+180E as a space, Unicode (and the patterns' authors) do not: \s and, outside of
// classes, \S are spelled out.
std::string level_spaces(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        out += in_class ? std::string(kSpaces) : "[" + std::string(kSpaces) + "]";
      } else if (escaped == 'S' && !in_class) {
        out += "[^" + std::string(kSpaces) + "]";
      } else {
        out += {c, escaped};
      }
      continue;
    }
    if (c == '[' && !in_class) {
      in_class = true;
      out += c;
      // A bracket right after the opening one is a member, not the end.
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += {'\\', pattern[++i]};
      continue;
    }
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

template <class T, void (*Free)(T*)>
struct Deleter {
  void operator()(T* object) const { Free(object); }
};
using MatchData =
    std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data, pcre2_match_data_free>>;
using MatchContext =
    std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context, pcre2_match_context_free>>;

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, Deleter<pcre2_code, pcre2_code_free>> code;
  MatchContext context;
};

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return fail("E_PRETOKENIZER", "a pre-tokenizer pattern has " + std::to_string(pattern.size()) +
                                      " bytes; at most 65536 are allowed");
  }
  const std::string source = level_spaces(pattern);
  int error = 0;
  std::size_t position = 0;
  auto compiled = std::make_shared<Code>();
  compiled->code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &position, nullptr));
  if (!compiled->code) {
    std::array<PCRE2_UCHAR, 128> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return fail("E_PRETOKENIZER", "a pre-tokenizer pattern does not compile: at character " +
                                      std::to_string(position) + ": " +
                                      reinterpret_cast<const char*>(text.data()));
  }
  // Without a JIT (its absence is no error) the interpreter gives the same matches.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  compiled->context.reset(pcre2_match_context_create(nullptr));
  if (!compiled->context) return fail("E_NOMEM", "no memory for a pre-tokenizer pattern");
  pcre2_set_match_limit(compiled->context.get(), kMatchLimit);
  pcre2_set_heap_limit(compiled->context.get(), kHeapLimitKib);
  return Regex(std::move(compiled));
}

void Regex::each_match(std::string_view subject, const std::function<void(Match)>& found) const {
  if (!is_valid_utf8(subject)) return;  // PCRE2 reads outside of it
  for (std::size_t at = 0; at <= subject.size();) {
    const auto match = find(subject, at);
    if (!match) break;
    found(*match);
    at = match->end;
    if (match->end > match->start) continue;
    if (at == subject.size()) break;
    at += decode_utf8(subject, at).length;
  }
}

// At or after `start`, in well-formed UTF-8.
std::optional<Regex::Match> Regex::find(std::string_view subject, std::size_t start) const {
  // One block for the whole match is all that is asked for; a thread keeps its own.
  thread_local const MatchData data(pcre2_match_data_create(1, nullptr));
  if (!data) return std::nullopt;
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()),
                       subject.size(), start, PCRE2_NO_UTF_CHECK | options, data.get(),
                       code_->context.get());
  };
  int rc = match(0);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = match(PCRE2_NO_JIT);
  if (rc < 0) return std::nullopt;
  const std::size_t* ovector = pcre2_get_ovector_pointer(data.get());
  return Match{ovector[0], ovector[1]};
}

}  // namespace orrery::text
