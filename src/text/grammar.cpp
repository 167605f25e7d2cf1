#include "text/grammar.hpp"

#include <algorithm>
#include <utility>

#include "text/grammar_gbnf.hpp"
#include "text/grammar_program.hpp"
#include "text/grammar_regex.hpp"
#include "text/json_schema.hpp"
#include "text/token_mask.hpp"
#include "text/token_trie.hpp"

namespace orrery::text {
namespace {

// What a source may take for states and masks before it starts over, and all that are kept.
constexpr std::size_t kMaxStateBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxCacheBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxRegexBytes = std::size_t{16} << 10;

class GrammarSource : public ConstraintSource, public std::enable_shared_from_this<GrammarSource> {
 public:
  GrammarSource(GrammarProgram program, std::shared_ptr<const TokenTrie> trie)
      : program_(std::make_shared<const GrammarProgram>(std::move(program))),
        trie_(std::move(trie)) {}

  std::unique_ptr<Constraint> start() const override;

  // All that the constraints do with states goes through here: one at a time.
  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }
  // Under the lock. A constraint keeps the masks that its state belongs to; when they have grown
  // too large, the next to ask gets new ones and brings its state along.
  std::shared_ptr<TokenMasks> current() const {
    if (!masks_ || masks_->memory_bytes() > kMaxStateBytes) {
      masks_ = std::make_shared<TokenMasks>(program_, trie_);
    }
    return masks_;
  }
  const TokenTrie& trie() const { return *trie_; }
  std::size_t memory_bytes() const { return program_->memory_bytes() + kMaxStateBytes; }

 private:
  std::shared_ptr<const GrammarProgram> program_;
  std::shared_ptr<const TokenTrie> trie_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<TokenMasks> masks_;
};

class GrammarConstraint : public Constraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<const GrammarSource> source)
      : source_(std::move(source)), mask_(source_->trie().words()) {
    const auto lock = source_->lock();
    masks_ = source_->current();
    state_ = masks_->machine().start();
  }

  std::span<const std::uint32_t> allowed() override {
    if (has_ended_) {
      std::fill(mask_.begin(), mask_.end(), 0);
    } else if (!is_mask_valid_) {
      const auto lock = source_->lock();
      refresh();
      masks_->allowed(state_, mask_);
    }
    is_mask_valid_ = true;
    return mask_;
  }

  Status accept(TokenId token) override {
    const auto lock = source_->lock();
    const TokenTrie& trie = source_->trie();
    const bool is_token = token >= 0 && static_cast<std::size_t>(token) < trie.size();
    const bool ends = is_token && trie.is_end(token);
    refresh();
    StateId next = GrammarMachine::kDead;
    if (is_token && !has_ended_) {
      next = !ends                               ? masks_->after(state_, token)
             : masks_->machine().accepts(state_) ? state_
                                                 : GrammarMachine::kDead;
    }
    if (next == GrammarMachine::kDead) {
      return fail("E_GRAMMAR",
                  "token " + std::to_string(token) + " cannot follow in the grammar of this text");
    }
    state_ = next;
    has_ended_ = ends;
    is_mask_valid_ = false;
    return {};
  }

  bool is_finished() const override {
    const auto lock = source_->lock();
    return has_ended_ ||
           (masks_->machine().accepts(state_) && masks_->machine().items(state_).empty());
  }

 private:
  void refresh() {
    std::shared_ptr<TokenMasks> current = source_->current();
    if (current == masks_) return;
    state_ = current->machine().import(masks_->machine(), state_);
    masks_ = std::move(current);
  }

  std::shared_ptr<const GrammarSource> source_;
  std::shared_ptr<TokenMasks> masks_;
  StateId state_ = GrammarMachine::kDead;
  std::vector<std::uint32_t> mask_;
  bool is_mask_valid_ = false;
  bool has_ended_ = false;
};

std::unique_ptr<Constraint> GrammarSource::start() const {
  return std::make_unique<GrammarConstraint>(shared_from_this());
}

}  // namespace

Grammars::Grammars(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

Grammars::~Grammars() = default;

std::shared_ptr<const TokenTrie> Grammars::trie() {
  std::call_once(trie_made_, [&] { trie_ = std::make_shared<const TokenTrie>(tokenizer_); });
  return trie_;
}

Result<Grammars::Source> Grammars::cached(
    const std::string& key, const std::function<Result<RuleId>(GrammarRules&)>& make) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry& entry) { return entry.key == key; });
    if (known != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, known);
      return known->source;
    }
  }
  GrammarRules rules;
  ORRERY_TRY(const RuleId root, make(rules));
  ORRERY_TRY(GrammarProgram program, compile_rules(rules, root));
  const auto source = std::make_shared<const GrammarSource>(std::move(program), trie());
  const std::size_t bytes = key.size() + source->memory_bytes();
  const std::lock_guard lock(mutex_);
  entries_.push_front({key, source, bytes});
  for (bytes_ += bytes; bytes_ > kMaxCacheBytes && entries_.size() > 1; entries_.pop_back()) {
    bytes_ -= entries_.back().bytes;
  }
  return source;
}

Result<Grammars::Source> Grammars::gbnf(std::string_view text) {
  return cached("gbnf:" + std::string(text),
                [&](GrammarRules& rules) { return parse_gbnf(text, rules); });
}

Result<Grammars::Source> Grammars::regex(std::string_view pattern) {
  if (pattern.size() > kMaxRegexBytes) {
    return fail("E_LIMIT", "the pattern has " + std::to_string(pattern.size()) +
                               " bytes; 16384 are allowed, shorten it");
  }
  return cached("regex:" + std::string(pattern), [&](GrammarRules& rules) -> Result<RuleId> {
    ORRERY_TRY(const ExprId body, parse_regex(pattern, rules, {}));
    const RuleId root = rules.declare("the pattern");
    rules.define(root, body);
    return root;
  });
}

Result<Grammars::Source> Grammars::json_object() {
  return json_schema(Json{{"type", "object"}});
}

Result<Grammars::Source> Grammars::json_schema(const Json& schema) {
  ORRERY_TRY_VOID(check_schema_size(schema));
  auto source = cached("schema:" + schema.dump(-1, ' ', false, Json::error_handler_t::replace),
                       [&](GrammarRules& rules) { return schema_rules(schema, rules); });
  // What can be wrong with the rules of a schema is a $ref that leads to itself.
  if (!source && source.error().kind == "E_GRAMMAR") {
    return fail("E_SCHEMA", "$: a $ref leads back to itself: " + source.error().message);
  }
  return source;
}

}  // namespace orrery::text
