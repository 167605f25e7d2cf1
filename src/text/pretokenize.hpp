// Cuts a piece of text into the words that the model then sees one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "text/regex.hpp"
#include "text/scan.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {

// A range of bytes of the text that is being cut.
struct Span {
  std::size_t start = 0;
  std::size_t end = 0;
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  // E_PRETOKENIZER when a pattern does not compile.
  static Result<PreTokenizer> create(std::vector<PreTokenizerStep> steps);

  // Cuts `text` (well-formed UTF-8) into `words`, in order; some steps rewrite the text.
  // `is_first`: it starts the input, nothing came before it.
  void run(std::string& text, bool is_first, std::vector<Span>& words) const;

 private:
  struct Step {
    PreTokenizerStep spec;
    std::optional<Scanner> scanner;
    std::optional<Regex> regex;
  };
  std::vector<Step> steps_;
};

// The steps of a `tokenizer.ggml.pre` name with the flags that come with it.
struct NamedPreTokenizer {
  std::vector<PreTokenizerStep> steps = {};
  bool ignore_merges = false;
  bool add_bos = false;       // unless the file says otherwise
  bool add_sep = false;       // RoBERTa's </s> at the end
  bool nfc = false;           // the model's own tokenizer composes characters first
  bool is_spm_style = false;  // spaces are U+2581, unknown characters fall back to bytes
};
// Empty for a name that is not known.
std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name);
// All known names, for error messages.
std::string known_pre_tokenizers();

}  // namespace orrery::text
