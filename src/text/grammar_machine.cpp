#include "text/grammar_machine.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace orrery::text {
namespace {

using Op = GrammarProgram::Op;

constexpr std::size_t kFirstSlots = 64;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29);
}

template <class Triples>
std::uint64_t hash_of(const Triples& triples, std::uint64_t seed) {
  std::uint64_t hash = seed;
  for (const auto& [a, b, c] : triples) {
    hash = mix(hash, (std::uint64_t{a} << 32) | c);
    hash = mix(hash, b);
  }
  return hash;
}

}  // namespace

GrammarMachine::GrammarMachine(std::shared_ptr<const GrammarProgram> program)
    : program_(std::move(program)), slots_(kFirstSlots), open_of_(program_->rules.size(), -1) {
  states_.push_back({});  // kDead
  for (const NodeId end : {GrammarProgram::kAccept, GrammarProgram::kEscape}) {
    std::vector<Edge> edges = {{.node = end}};
    intern_stack(edges);
  }
}

StateId GrammarMachine::start() {
  queue_.clear();
  push({program_->rules[program_->root].start, 0, kEmptyStack});
  return close();
}

StateId GrammarMachine::compute_step(StateId state, std::uint8_t byte, bool remember) {
  queue_.clear();
  std::uint32_t low = 0;
  std::uint32_t high = 255;  // the bytes around this one that no item tells from it
  const auto count = states_[state].count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Item item = items_[states_[state].first + i];
    const GrammarProgram::Node& node = program_->nodes[item.node];
    if (byte < node.low) {
      high = std::min<std::uint32_t>(high, node.low - 1U);
    } else if (byte > node.high) {
      low = std::max<std::uint32_t>(low, node.high + 1U);
    } else {
      low = std::max<std::uint32_t>(low, node.low);
      high = std::min<std::uint32_t>(high, node.high);
      push({node.a, item.count & ~kFresh, item.stack});
    }
  }
  const StateId next = queue_.empty() ? kDead : close();
  if (!remember || is_exhausted()) return next;
  if (states_[state].steps < 0) {
    states_[state].steps = static_cast<std::int32_t>(steps_.size());
    steps_.emplace_back().fill(kUnknown);
  }
  auto& table = steps_[static_cast<std::size_t>(states_[state].steps)];
  for (std::uint32_t b = low; b <= high; ++b) table[b] = next;
  return next;
}

// The queue holds the beginnings; afterwards it holds all that is reached without a byte.
StateId GrammarMachine::close() {
  flags_ = 0;
  for (std::size_t i = 0; i < queue_.size() && queue_.size() <= kMaxItems; ++i) {
    const Item item = queue_[i];
    advance(item);
  }
  budget_ -= std::min(budget_, queue_.size());
  const bool fits = finish_open() && queue_.size() <= kMaxItems && budget_ > 0;
  if (!fits) flags_ = 0;
  std::vector<Item> kept;
  for (const Item& item : queue_) {
    if (!fits || program_->nodes[item.node].op != Op::byte) continue;
    kept.push_back(item);
    if ((item.stack & kOpenBit) != 0) kept.back().stack = final_[item.stack & ~kOpenBit];
  }
  for (const Open& open : open_) open_of_[open.rule] = -1;
  open_.clear();
  slots_.assign(kFirstSlots, 0);  // also where many were needed: most closures are small
  return intern_state(kept, flags_);
}

void GrammarMachine::push(Item item) {
  if (2 * (queue_.size() + 1) > slots_.size()) {
    slots_.assign(2 * slots_.size(), 0);
    const std::vector<Item> again = std::exchange(queue_, {});
    for (const Item& known : again) push(known);
  }
  const std::size_t mask = slots_.size() - 1;
  std::uint64_t hash = mix(mix(item.node, item.count), item.stack);
  for (;; ++hash) {
    std::uint32_t& slot = slots_[hash & mask];
    if (slot == 0) {
      queue_.push_back(item);
      slot = static_cast<std::uint32_t>(queue_.size());
      return;
    }
    if (queue_[slot - 1] == item) return;
  }
}

void GrammarMachine::advance(const Item& item) {
  const GrammarProgram::Node& node = program_->nodes[item.node];
  switch (node.op) {
    case Op::byte:
      return;
    case Op::split:
      for (std::uint32_t i = 0; i < node.b; ++i) {
        push({program_->targets[node.a + i], item.count, item.stack});
      }
      return;
    case Op::call:
      return call(item, node);
    case Op::count_enter:
      return decide(node.a, 0, item.stack);
    case Op::count_loop: {
      const GrammarProgram::Counter& counter = program_->counters[node.a];
      if ((item.count & kFresh) != 0) return;  // a round of nothing: it could have ended before
      const std::uint32_t most = counter.max == kUnbounded ? counter.min : counter.max;
      return decide(node.a, std::min(item.count + 1, most), item.stack);
    }
    case Op::leave: {
      // A rule that ends where it was called is nullable, and its callers went on already.
      if ((item.stack & kOpenBit) != 0) return;
      const Stack stack = stacks_[item.stack];
      for (std::uint32_t i = 0; i < stack.count; ++i) {
        const Edge edge = edges_[stack.first + i];
        push({edge.node, edge.count & ~kFresh, edge.parent});
      }
      return;
    }
    case Op::accept:
      flags_ |= kAccepts;
      return;
    case Op::escape:
      flags_ |= kEscapes;
      return;
  }
  std::unreachable();
}

void GrammarMachine::call(const Item& item, const GrammarProgram::Node& node) {
  const GrammarProgram::Rule& rule = program_->rules[node.a];
  std::int32_t index = open_of_[node.a];
  if (index < 0) {
    index = static_cast<std::int32_t>(open_.size());
    open_of_[node.a] = index;
    open_.emplace_back().rule = node.a;
    push({rule.start, 0, static_cast<StackId>(index) | kOpenBit});
  }
  Open& open = open_[static_cast<std::size_t>(index)];
  if (node.b == GrammarProgram::kLeave) {
    open.same_as.push_back(item.stack);  // so that a chain of tail calls needs no stack
  } else {
    open.edges.push_back({node.b, item.count, item.stack});
  }
  if (rule.nullable) push({node.b, item.count, item.stack});
}

void GrammarMachine::decide(std::uint32_t index, std::uint32_t count, StackId stack) {
  const GrammarProgram::Counter& counter = program_->counters[index];
  if (count < counter.max) push({counter.body, count | (counter.nullable ? kFresh : 0), stack});
  if (count >= counter.min) push({counter.next, 0, stack});
}

// Callers come before what they call, so each finds the stacks below it finished.
bool GrammarMachine::finish_open() {
  std::vector<std::size_t> order(open_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return program_->rules[open_[a].rule].rank < program_->rules[open_[b].rule].rank;
  });
  final_.assign(open_.size(), kEmptyStack);
  for (const std::size_t i : order) {
    std::vector<Edge>& edges = open_[i].edges;
    for (Edge& edge : edges) {
      if ((edge.parent & kOpenBit) != 0) edge.parent = final_[edge.parent & ~kOpenBit];
    }
    for (const StackId other : open_[i].same_as) {
      const Stack stack = stacks_[(other & kOpenBit) != 0 ? final_[other & ~kOpenBit] : other];
      for (std::uint32_t k = 0; k < stack.count; ++k) edges.push_back(edges_[stack.first + k]);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    if (edges.size() > kMaxItems) return false;
    final_[i] = intern_stack(edges);
  }
  return true;
}

StateId GrammarMachine::intern_state(std::vector<Item>& items, std::uint8_t flags) {
  if (items.empty() && flags == 0) return kDead;
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  const std::uint64_t hash = hash_of(items, flags);
  const auto [begin, end] = known_states_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const auto known = this->items(it->second);
    if (states_[it->second].flags == flags &&
        std::equal(known.begin(), known.end(), items.begin(), items.end())) {
      return it->second;
    }
  }
  const auto id = static_cast<StateId>(states_.size());
  states_.push_back({.first = static_cast<std::uint32_t>(items_.size()),
                     .count = static_cast<std::uint32_t>(items.size()),
                     .flags = flags});
  items_.insert(items_.end(), items.begin(), items.end());
  known_states_.emplace(hash, id);
  return id;
}

StackId GrammarMachine::intern_stack(std::vector<Edge>& edges) {
  const std::uint64_t hash = hash_of(edges, 1);
  const auto [begin, end] = known_stacks_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const auto known =
        std::span(edges_).subspan(stacks_[it->second].first, stacks_[it->second].count);
    if (std::equal(known.begin(), known.end(), edges.begin(), edges.end())) return it->second;
  }
  const auto id = static_cast<StackId>(stacks_.size());
  stacks_.push_back({.first = static_cast<std::uint32_t>(edges_.size()),
                     .count = static_cast<std::uint32_t>(edges.size())});
  edges_.insert(edges_.end(), edges.begin(), edges.end());
  known_stacks_.emplace(hash, id);
  return id;
}

StateId GrammarMachine::fragment(std::span<const Item> items) {
  std::vector<Item> moved(items.begin(), items.end());
  for (Item& item : moved) item.stack = kUnknownStack;
  return intern_state(moved, 0);
}

StateId GrammarMachine::with_stack(std::span<const Item> items) {
  std::vector<Item> same(items.begin(), items.end());
  return intern_state(same, 0);
}

StateId GrammarMachine::returned(StackId stack) {
  if (const auto known = returned_.find(stack); known != returned_.end()) return known->second;
  queue_.clear();
  push({GrammarProgram::kLeave, 0, stack});
  const StateId state = close();
  if (!is_exhausted()) returned_.emplace(stack, state);
  return state;
}

// A stack's number is above those of its callers.
StateId GrammarMachine::import(const GrammarMachine& from, StateId state) {
  std::vector<bool> used(from.stacks_.size(), false);
  for (const Item& item : from.items(state)) used[item.stack] = true;
  for (StackId id = static_cast<StackId>(used.size()); id-- > 0;) {
    if (!used[id]) continue;
    const Stack& stack = from.stacks_[id];
    for (std::uint32_t i = 0; i < stack.count; ++i)
      used[from.edges_[stack.first + i].parent] = true;
  }
  std::vector<StackId> moved(used.size(), kEmptyStack);
  for (StackId id = 0; id < used.size(); ++id) {
    if (!used[id]) continue;
    const Stack& stack = from.stacks_[id];
    const auto old = std::span(from.edges_).subspan(stack.first, stack.count);
    std::vector<Edge> edges(old.begin(), old.end());
    for (Edge& edge : edges) edge.parent = moved[edge.parent];
    std::sort(edges.begin(), edges.end());
    moved[id] = intern_stack(edges);
  }
  std::vector<Item> items(from.items(state).begin(), from.items(state).end());
  for (Item& item : items) item.stack = moved[item.stack];
  return intern_state(items, from.states_[state].flags);
}

std::size_t GrammarMachine::memory_bytes() const {
  constexpr std::size_t kEntry = 48;  // of a hash map
  return items_.size() * sizeof(Item) + edges_.size() * sizeof(Edge) +
         states_.size() * (sizeof(State) + kEntry) + stacks_.size() * (sizeof(Stack) + kEntry) +
         steps_.size() * sizeof(steps_[0]) + returned_.size() * kEntry;
}

}  // namespace orrery::text
