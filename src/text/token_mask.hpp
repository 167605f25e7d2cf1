// Which tokens may come in a state of a grammar. Most tokens end within the rule that they begin
// in, whoever called it: these are found once for a rule's place (a fragment) and kept. The others
// are kept by what they have left when the rule ends, and only that is tried with the real stack.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/grammar_machine.hpp"
#include "text/token_trie.hpp"

namespace orrery::text {

// One thread at a time.
class TokenMasks {
 public:
  TokenMasks(std::shared_ptr<const GrammarProgram> program, std::shared_ptr<const TokenTrie> trie);

  GrammarMachine& machine() { return machine_; }
  // `out` has trie.words() words. All zero where nothing may come, or where the readings of the
  // text are too many to look at.
  void allowed(StateId state, std::span<std::uint32_t> out);
  // kDead where the token is not allowed; the end of the text is no state.
  StateId after(StateId state, TokenId token);
  std::size_t memory_bytes() const;

 private:
  using Item = GrammarMachine::Item;
  struct Fragment {
    std::vector<std::uint32_t> allowed;  // within the rule
    TokenTree rests;                     // of tokens that go on behind its end, maybe with nothing
    bool is_whole = true;                // false: too many go on; try every token each time
  };
  // Nodes, and how near the counters are to their bounds as far as one token can tell.
  using Key = std::vector<std::pair<NodeId, std::uint64_t>>;

  const Fragment& fragment(std::span<const Item> items);
  Fragment make_fragment(std::span<const Item> items);
  std::uint64_t nearness(const Item& item) const;
  // Sets the bits of the tokens of `tree` whose bytes can follow in `from`.
  void walk(const TokenTree& tree, StateId from, std::span<std::uint32_t> out);

  std::shared_ptr<const TokenTrie> trie_;
  GrammarMachine machine_;
  std::map<Key, Fragment> fragments_;
  std::vector<StateId> path_;  // of a walk, by depth
  std::unordered_map<StateId, std::vector<std::uint32_t>> masks_;
  std::size_t fragment_bytes_ = 0;
};

}  // namespace orrery::text
