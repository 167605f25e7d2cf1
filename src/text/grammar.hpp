// Compiles grammars, schemas and patterns for one vocabulary, and keeps what was compiled.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "text/chat_template.hpp"
#include "text/constraint.hpp"
#include "text/grammar_rules.hpp"
#include "text/tokenizer.hpp"

namespace orrery::text {

class TokenTrie;

// Any number of threads.
class Grammars {
 public:
  explicit Grammars(std::shared_ptr<const Tokenizer> tokenizer);
  ~Grammars();
  Grammars(const Grammars&) = delete;
  Grammars& operator=(const Grammars&) = delete;

  using Source = std::shared_ptr<const ConstraintSource>;

  // llama.cpp's notation, from rule `root`. E_GRAMMAR names the line.
  Result<Source> gbnf(std::string_view text);
  // The JSON texts that a schema describes (docs/structured-output.md says which keywords).
  // E_SCHEMA begins with the place: "$.properties.x: ...".
  Result<Source> json_schema(const Json& schema);
  // Any JSON object.
  Result<Source> json_object();
  // Texts that an ECMAScript pattern matches as a whole. E_GRAMMAR names the column.
  Result<Source> regex(std::string_view pattern);
  // All of them: E_LIMIT for what would grow too large.

  // What `make` describes, unless `key` (with all that it depends on) was made before.
  Result<Source> cached(const std::string& key,
                        const std::function<Result<RuleId>(GrammarRules&)>& make);

  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  struct Entry {
    std::string key;
    Source source;
    std::size_t bytes = 0;
  };
  std::shared_ptr<const TokenTrie> trie();

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::once_flag trie_made_;
  std::shared_ptr<const TokenTrie> trie_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last used first
  std::size_t bytes_ = 0;     // of entries_
};

}  // namespace orrery::text
