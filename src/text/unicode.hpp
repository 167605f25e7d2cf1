// UTF-8 and the few Unicode properties that tokenizers ask for (general categories by utf8proc,
// White_Space by its short list, so that no locale and no library version changes what is a space).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::text {

// One decoded character. `valid` is false for a byte that starts no well-formed sequence; `length`
// is then 1 and `code` is the byte.
struct CodePoint {
  std::uint32_t code = 0;
  std::uint32_t length = 0;  // bytes, 1 to 4
  bool valid = false;
};

// Decodes at `position` (< text.size()): shortest forms only, no surrogates, at most U+10FFFF.
CodePoint decode_utf8(std::string_view text, std::size_t position);
bool is_valid_utf8(std::string_view text);
// End of the run of well-formed (or, with `valid` false, ill-formed) bytes that starts at `start`.
std::size_t utf8_run_end(std::string_view text, std::size_t start, bool valid);
void append_utf8(std::string& out, std::uint32_t code);

enum class CharClass : std::uint8_t { other, letter, number, space };
// The four classes that the common pre-tokenizer patterns distinguish.
CharClass char_class(std::uint32_t code);

bool is_letter(std::uint32_t code);           // L*
bool is_mark(std::uint32_t code);             // M*
bool is_nonspacing_mark(std::uint32_t code);  // Mn
bool is_number(std::uint32_t code);           // N*
bool is_white_space(std::uint32_t code);      // White_Space
bool is_punctuation(std::uint32_t code);      // P* or an ASCII symbol, as BERT counts them
bool is_control(std::uint32_t code);          // C*, but for what is unassigned
bool is_word(std::uint32_t code);             // letters, marks, numbers and connectors (regex \w)
bool is_cjk(std::uint32_t code);  // the ideograph blocks that BERT surrounds with spaces

enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };
// `text` must be well-formed; a text that cannot change comes back without a call to the library.
std::string normalize(std::string_view text, NormalForm form);
// Default (locale-free, context-free) full lower case.
std::string lower_case(std::string_view text);

// The bytes that GPT-2's byte-level alphabet spells as visible characters, and back.
std::uint32_t byte_to_alphabet(std::uint8_t byte);
// The byte that `code` stands for, or -1.
int alphabet_to_byte(std::uint32_t code);

}  // namespace orrery::text
