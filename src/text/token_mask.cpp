#include "text/token_mask.hpp"

#include <algorithm>
#include <utility>

namespace orrery::text {
namespace {

// Masks of whole states are kept up to this; they are quick to make again.
constexpr std::size_t kMaxMaskBytes = std::size_t{1} << 20;
// A fragment with more exits than this is not split: it would cost more.
constexpr std::size_t kMaxExits = 8192;
// Nodes from which on a subtree is worth the question whether it is allowed as a whole.
constexpr std::uint32_t kLargeSubtree = 24;
// Of an entry of a hash map or tree, beside what it holds.
constexpr std::size_t kEntry = 64;

void set_tokens(std::span<std::uint32_t> out, std::span<const TokenId> tokens) {
  for (const TokenId id : tokens) set_token(out, id);
}

}  // namespace

// The tree in its own order.
struct TokenMasks::AllNodes {
  const TokenTree& tree;
  std::uint32_t node(std::uint32_t k) const { return k; }
  std::uint32_t behind(std::uint32_t k) const { return tree.nodes()[k].end; }
  void set_all(std::uint32_t k, std::span<std::uint32_t> out) const {
    set_tokens(out, tree.tokens_under(k));
  }
};

// Without the subtrees whose tokens are known.
struct TokenMasks::OtherNodes {
  const TokenTree& tree;
  const ClassTexts& known;
  std::uint32_t node(std::uint32_t k) const { return known.others[k]; }
  std::uint32_t behind(std::uint32_t k) const { return known.ends[k]; }
  void set_all(std::uint32_t k, std::span<std::uint32_t> out) const {
    for (const std::uint32_t end = behind(k); k < end; ++k) set_tokens(out, tree.tokens(node(k)));
  }
};

TokenMasks::TokenMasks(std::shared_ptr<const GrammarProgram> program,
                       std::shared_ptr<const TokenTrie> trie)
    : trie_(std::move(trie)),
      machine_(std::move(program)),
      path_(TokenTree::kMaxDepth + 1),
      scratch_(trie_->words()) {
  for (const TokenTree& tree : trie_->trees()) parts_.push_back({.tree = tree});
}

void TokenMasks::allowed(StateId state, std::span<std::uint32_t> out) {
  std::fill(out.begin(), out.end(), 0);
  if (const auto known = masks_.find(state); known != masks_.end()) {
    return known->second.add_to(out);
  }
  machine_.set_budget(GrammarMachine::kDefaultBudget);
  if (machine_.accepts(state)) {
    for (const TokenId id : trie_->ends()) set_token(out, id);
  }
  const auto items = machine_.items(state);
  const bool is_counting =
      std::any_of(items.begin(), items.end(), [](const Item& item) { return item.count != 0; });
  std::vector<Item> sorted(items.begin(), items.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Item& a, const Item& b) { return a.stack < b.stack; });
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto last = std::find_if(first, sorted.end(),
                                   [&](const Item& item) { return item.stack != first->stack; });
    add_group({first, last}, out);
    first = last;
  }
  if (machine_.is_exhausted()) {
    std::fill(out.begin(), out.end(), 0);
    return forget();
  }
  if (is_counting) return;  // the next of these is another state
  TokenSet kept(out);
  mask_bytes_ += kept.memory_bytes() + kEntry;
  if (mask_bytes_ > kMaxMaskBytes) {
    masks_.clear();
    mask_bytes_ = kept.memory_bytes() + kEntry;
  }
  masks_.emplace(state, std::move(kept));
}

// One of the fragments is not whole.
void TokenMasks::forget() {
  for (Part& part : parts_) part.fragments.clear();
  loops_.clear();
  fragment_bytes_ = 0;
}

// Readings with one stack.
void TokenMasks::add_group(std::span<const Item> items, std::span<std::uint32_t> out) {
  for (Part& part : parts_) {
    const Fragment& known = fragment(part, items);
    if (!known.is_whole) {
      walk(part, 0, machine_.with_stack(items), out, nullptr);
      continue;
    }
    known.allowed.add_to(out);
    if (known.exits.empty()) continue;
    const StateId from = machine_.returned(items[0].stack);
    for (const std::uint32_t node : known.exits) walk(part, node, from, out, nullptr);
  }
}

std::size_t TokenMasks::memory_bytes() const {
  return machine_.memory_bytes() + fragment_bytes_ + mask_bytes_ + loops_.size() * kEntry;
}

StateId TokenMasks::after(StateId state, TokenId token) {
  const std::string_view bytes = trie_->text(token);
  if (bytes.empty()) return GrammarMachine::kDead;
  machine_.set_budget(GrammarMachine::kDefaultBudget);
  for (const char byte : bytes) {
    if (state == GrammarMachine::kDead) return state;
    state = machine_.step_once(state, static_cast<std::uint8_t>(byte));
  }
  return state;
}

bool TokenMasks::walk(Part& part, std::uint32_t top, StateId from, std::span<std::uint32_t> out,
                      std::vector<std::uint32_t>* exits) {
  if (from == GrammarMachine::kDead) return true;
  const TokenTree::Node& node = part.tree.nodes()[top];
  set_tokens(out, part.tree.tokens(top));
  path_[node.depth] = from;
  if (node.end - top >= kLargeSubtree) {
    const GrammarLoop start = loop(from, from, 0);
    // Worth it where each token leads to another state, with a mask of its own.
    if (top == 0 && start.classes != 0 && start.characters >= part.tree.longest() &&
        start.characters != GrammarLoop::kEndless) {
      const auto index = static_cast<std::size_t>(&part - parts_.data());
      const auto known = trie_->texts_of(index, start.classes);
      known->tokens.add_to(out);
      return walk_nodes(OtherNodes{part.tree, *known}, 0, out, exits);
    }
  }
  return walk_nodes(AllNodes{part.tree}, top, out, exits);
}

// What is under the node with index `top` of an order, from the state in path_.
template <typename Order>
bool TokenMasks::walk_nodes(const Order& order, std::uint32_t top, std::span<std::uint32_t> out,
                            std::vector<std::uint32_t>* exits) {
  const TokenTree& tree = order.tree;
  const auto nodes = tree.nodes();
  const std::uint32_t last = order.behind(top);
  for (std::uint32_t k = top + 1; k < last;) {
    const std::uint32_t i = order.node(k);
    const TokenTree::Node& node = nodes[i];
    const StateId state = machine_.step(path_[node.depth - 1U], node.byte);
    if (state == GrammarMachine::kDead) {
      k = order.behind(k);
      continue;
    }
    path_[node.depth] = state;
    const bool exits_here = exits != nullptr && machine_.escapes(state);
    if (exits_here) {
      if (exits->size() == kMaxExits) return false;
      exits->push_back(i);
      if (machine_.items(state).empty()) {
        k = order.behind(k);
        continue;
      }
    }
    if (!exits_here && node.end - i >= kLargeSubtree) {
      if (is_within(node, loop(state, path_[node.depth - 1U], node.byte))) {
        order.set_all(k, out);
        k = order.behind(k);
        continue;
      }
    }
    set_tokens(out, tree.tokens(i));
    ++k;
  }
  return true;
}

const GrammarLoop& TokenMasks::loop(StateId state, StateId before, std::uint8_t byte) {
  if (const auto known = loops_.find(state); known != loops_.end()) return known->second;
  GrammarLoop made;
  const auto last = loops_.find(before);
  const bool goes_on = last != loops_.end() && last->second.characters != GrammarLoop::kEndless &&
                       last->second.characters > 1 && (last->second.classes & class_of(byte)) != 0;
  if (goes_on) {
    made = last->second;
    --made.characters;
  } else {
    made = find_loop(machine_, state);
  }
  return loops_.emplace(state, made).first->second;
}

// Whether all texts of the subtree stay in the loop.
bool TokenMasks::is_within(const TokenTree::Node& node, const GrammarLoop& loop) const {
  if ((node.classes & ~loop.classes) != 0) return false;
  return loop.characters == GrammarLoop::kEndless ||
         (node.characters < TokenTree::kMany && node.characters <= loop.characters);
}

std::uint64_t TokenMasks::nearness(const Item& item, std::uint64_t far) const {
  const GrammarProgram& program = machine_.program();
  const std::int32_t index = program.counter_at[item.node];
  if (index < 0) return 0;
  const GrammarProgram::Counter& counter = program.counters[static_cast<std::size_t>(index)];
  const std::uint32_t count = item.count & ~GrammarMachine::kFresh;
  const std::uint64_t to_min =
      count < counter.min ? std::min<std::uint64_t>(counter.min - count, far) : 0;
  const std::uint64_t to_max = std::min<std::uint64_t>(counter.max - count, far);
  return (to_min << 32) | to_max;
}

const TokenMasks::Fragment& TokenMasks::fragment(Part& part, std::span<const Item> items) {
  Key key;
  for (const Item& item : items) {
    key.emplace_back(item.node, nearness(item, part.tree.longest() + 1));
  }
  const auto known = part.fragments.find(key);
  if (known != part.fragments.end()) return known->second;
  Fragment made = make_fragment(part, items);
  fragment_bytes_ += key.size() * sizeof(key[0]) + made.allowed.memory_bytes() +
                     made.exits.size() * sizeof(made.exits[0]) + kEntry;
  return part.fragments.emplace(std::move(key), std::move(made)).first->second;
}

TokenMasks::Fragment TokenMasks::make_fragment(Part& part, std::span<const Item> items) {
  Fragment out;
  out.is_whole = walk(part, 0, machine_.fragment(items), scratch_, &out.exits);
  const auto candidates = part.tree.tokens_under(0);
  if (out.is_whole) {
    out.allowed = TokenSet(scratch_, candidates);
  } else {
    out.exits = {};
  }
  if (candidates.size() < scratch_.size()) {
    for (const TokenId id : candidates) scratch_[static_cast<std::uint32_t>(id) / 32] = 0;
  } else {
    std::fill(scratch_.begin(), scratch_.end(), 0);
  }
  return out;
}

}  // namespace orrery::text
