// Hand-written scanners for the pre-tokenizer patterns that nearly every model uses. Each gives the
// splits of its regular expression; the tests hold them to PCRE2 on random text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery::text {

struct Scanner {
  enum class Kind : std::uint8_t {
    gpt2,   // 's|'t|...| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    llama3  // (?i:'s|'t|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,K}| ?[^\s\p{L}\p{N}]+[\r\n]*|
            // \s*[\r\n]+|\s+(?!\S)|\s+
  };
  Kind kind = Kind::gpt2;
  std::uint32_t max_digits = 0;  // K of llama3; 1 is Qwen's
};

// The scanner of a pattern as tokenizer.json and pre_names.cpp write it, if there is one.
std::optional<Scanner> scanner_for(std::string_view pattern);

// End of the word that starts at `start` (< text.size()). `text` is well-formed UTF-8; every
// position belongs to a word, so that the words of a text cover it.
std::size_t scan_word(const Scanner& scanner, std::string_view text, std::size_t start);

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace orrery::text
