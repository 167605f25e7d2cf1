// The marks of a tool format as rules: they may be special tokens, text, or both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/grammar_rules.hpp"
#include "text/tool_format.hpp"

namespace orrery::text {

class MarkRules {
 public:
  // Borrows all of them.
  MarkRules(GrammarRules& rules, const Tokenizer& tokenizer, const ToolFormat& format)
      : rules_(rules), tokenizer_(tokenizer), format_(format) {}

  ExprId mark(std::string_view text);
  // Any text up to the first `stop`, and then what has to follow; or to the end, if it may end
  // without. Special tokens of the format's reasoning and decoration may stand in it.
  ExprId text_until(const std::string& stop, ExprId then, bool may_end);

 private:
  bool is_special(std::string_view text) const;
  bool begins_special(std::string_view text) const;
  ExprId plain(int first, int last, RuleId then);
  std::vector<std::string> format_specials(const std::string& but) const;
  ExprId free_token(const std::string& but);
  void define_text(const std::vector<RuleId>& states, std::size_t at, const std::string& stop,
                   ExprId then, bool may_end);

  GrammarRules& rules_;
  const Tokenizer& tokenizer_;
  const ToolFormat& format_;
};

}  // namespace orrery::text
