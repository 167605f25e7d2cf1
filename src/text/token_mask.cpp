#include "text/token_mask.hpp"

#include <algorithm>
#include <utility>

namespace orrery::text {
namespace {

// Masks of whole states are kept up to this; they are quick to make again.
constexpr std::size_t kMaxMaskBytes = std::size_t{1} << 20;
// A fragment with more tokens than this that go on behind it is not split: it would cost more.
constexpr std::size_t kMaxRests = 16384;

void set(std::span<std::uint32_t> mask, TokenId id) {
  const auto bit = static_cast<std::uint32_t>(id);
  mask[bit / 32] |= std::uint32_t{1} << (bit % 32);
}

}  // namespace

TokenMasks::TokenMasks(std::shared_ptr<const GrammarProgram> program,
                       std::shared_ptr<const TokenTrie> trie)
    : trie_(std::move(trie)),
      machine_(std::move(program)),
      path_(std::max(TokenTree::kMaxDepth, trie_->longest()) + 1) {}

void TokenMasks::allowed(StateId state, std::span<std::uint32_t> out) {
  if (const auto known = masks_.find(state); known != masks_.end()) {
    std::copy(known->second.begin(), known->second.end(), out.begin());
    return;
  }
  machine_.set_budget(GrammarMachine::kDefaultBudget);
  std::fill(out.begin(), out.end(), 0);
  if (machine_.accepts(state)) {
    for (const TokenId id : trie_->ends()) set(out, id);
  }
  const auto items = machine_.items(state);
  const bool is_counting =
      std::any_of(items.begin(), items.end(), [](const Item& item) { return item.count != 0; });
  std::vector<Item> sorted(items.begin(), items.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Item& a, const Item& b) { return a.stack < b.stack; });
  for (auto first = sorted.begin(); first != sorted.end();) {
    const StackId stack = first->stack;
    const auto last =
        std::find_if(first, sorted.end(), [&](const Item& item) { return item.stack != stack; });
    const std::span<const Item> group(first, last);
    const Fragment& part = fragment(group);
    first = last;
    if (!part.is_whole) {
      walk(trie_->tree(), machine_.with_stack(group), out);
      continue;
    }
    for (std::size_t i = 0; i < out.size(); ++i) out[i] |= part.allowed[i];
    if (!part.rests.empty()) walk(part.rests, machine_.returned(stack), out);
  }
  if (machine_.is_exhausted()) {
    std::fill(out.begin(), out.end(), 0);
    fragments_.clear();  // one of them is not whole
    fragment_bytes_ = 0;
    return;
  }
  if (is_counting) return;  // the next of these is another state
  if ((masks_.size() + 1) * out.size_bytes() > kMaxMaskBytes) masks_.clear();
  masks_.emplace(state, std::vector<std::uint32_t>(out.begin(), out.end()));
}

std::size_t TokenMasks::memory_bytes() const {
  return machine_.memory_bytes() + fragment_bytes_ + masks_.size() * 4 * trie_->words();
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

void TokenMasks::walk(const TokenTree& tree, StateId from, std::span<std::uint32_t> out) {
  if (from == GrammarMachine::kDead) return;
  const auto& nodes = tree.nodes();
  for (const TokenId id : tree.tokens(nodes[0])) set(out, id);
  path_[0] = from;
  for (std::size_t i = 1; i < nodes.size();) {
    const TokenTree::Node& node = nodes[i];
    const StateId state = machine_.step(path_[node.depth - 1U], node.byte);
    if (state == GrammarMachine::kDead) {
      i = node.end;
      continue;
    }
    path_[node.depth] = state;
    for (const TokenId id : tree.tokens(node)) set(out, id);
    ++i;
  }
}

std::uint64_t TokenMasks::nearness(const Item& item) const {
  const GrammarProgram& program = machine_.program();
  const std::int32_t index = program.counter_at[item.node];
  if (index < 0) return 0;
  const GrammarProgram::Counter& counter = program.counters[static_cast<std::size_t>(index)];
  const std::uint32_t count = item.count & ~GrammarMachine::kFresh;
  const std::uint64_t far = trie_->longest() + 1;
  const std::uint64_t to_min =
      count < counter.min ? std::min<std::uint64_t>(counter.min - count, far) : 0;
  const std::uint64_t to_max = std::min<std::uint64_t>(counter.max - count, far);
  return (to_min << 32) | to_max;
}

const TokenMasks::Fragment& TokenMasks::fragment(std::span<const Item> items) {
  Key key;
  for (const Item& item : items) key.emplace_back(item.node, nearness(item));
  const auto known = fragments_.find(key);
  if (known != fragments_.end()) return known->second;
  Fragment made = make_fragment(items);
  fragment_bytes_ += key.size() * sizeof(key[0]) + made.allowed.size() * 4 +
                     made.rests.memory_bytes() + sizeof(Fragment);
  return fragments_.emplace(std::move(key), std::move(made)).first->second;
}

TokenMasks::Fragment TokenMasks::make_fragment(std::span<const Item> items) {
  Fragment out;
  out.allowed.resize(trie_->words());
  std::vector<TokenTree::Entry> rests;
  path_[0] = machine_.fragment(items);
  const TokenTree& tree = trie_->tree();
  for (std::uint32_t i = 1; i < tree.nodes().size();) {
    const TokenTree::Node& node = tree.nodes()[i];
    const StateId state = machine_.step(path_[node.depth - 1U], node.byte);
    if (state == GrammarMachine::kDead) {
      i = node.end;
      continue;
    }
    path_[node.depth] = state;
    if (machine_.escapes(state)) {
      const auto under = tree.tokens_under(i);
      if (rests.size() + under.size() > kMaxRests) {
        Fragment tried;
        tried.is_whole = false;
        return tried;
      }
      for (const TokenId id : under) rests.push_back({trie_->text(id).substr(node.depth), id});
    }
    if (!machine_.items(state).empty()) {
      for (const TokenId id : tree.tokens(node)) set(out.allowed, id);
    }
    ++i;
  }
  out.rests = TokenTree(std::move(rests));
  return out;
}

}  // namespace orrery::text
