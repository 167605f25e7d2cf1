// Which tokens may come in a state of a grammar. Most tokens end within the rule that they begin
// in, whoever called it: these are found once for a rule's place (a fragment) and kept. Of the
// others a fragment keeps where in the tree of the vocabulary the rule ends, and only from there on
// they are tried with the real stack.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/grammar_loop.hpp"
#include "text/grammar_machine.hpp"
#include "text/token_set.hpp"
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
    TokenSet allowed;                  // within the rule
    std::vector<std::uint32_t> exits;  // nodes of the tree where the rule may end
    bool is_whole = true;              // false: it may end nearly anywhere; walk the tree each time
  };
  // Nodes, and how near the counters are to their bounds as far as one token can tell.
  using Key = std::vector<std::pair<NodeId, std::uint64_t>>;
  // What is known of the tokens of one tree.
  struct Part {
    const TokenTree& tree;
    std::map<Key, Fragment> fragments = {};
  };

  void forget();
  void add_group(std::span<const Item> items, std::span<std::uint32_t> out);
  const Fragment& fragment(Part& part, std::span<const Item> items);
  Fragment make_fragment(Part& part, std::span<const Item> items);
  std::uint64_t nearness(const Item& item, std::uint64_t far) const;
  // Of the state that `byte` leads to from `before`.
  const GrammarLoop& loop(StateId state, StateId before, std::uint8_t byte);
  bool is_within(const TokenTree::Node& node, const GrammarLoop& loop) const;
  // Sets the bits of the tokens under node `top` whose bytes behind it can follow in `from`. With
  // `exits`, where a rule may end is noted there; false if that is too often.
  bool walk(Part& part, std::uint32_t top, StateId from, std::span<std::uint32_t> out,
            std::vector<std::uint32_t>* exits);
  struct AllNodes;
  struct OtherNodes;
  template <typename Order>
  bool walk_nodes(const Order& order, std::uint32_t top, std::span<std::uint32_t> out,
                  std::vector<std::uint32_t>* exits);

  std::shared_ptr<const TokenTrie> trie_;
  GrammarMachine machine_;
  std::vector<Part> parts_;  // (trie.trees())
  std::unordered_map<StateId, GrammarLoop> loops_;
  std::vector<StateId> path_;           // of a walk, by depth
  std::vector<std::uint32_t> scratch_;  // (trie.words()), zero between uses
  std::unordered_map<StateId, TokenSet> masks_;
  std::size_t fragment_bytes_ = 0;
  std::size_t mask_bytes_ = 0;
};

}  // namespace orrery::text
