#include "engine/prefix_cache.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "plan/plan.hpp"

namespace orrery::engine {

std::uint32_t common_prefix(std::span<const text::TokenId> tokens,
                            std::span<const text::TokenId> other) {
  const auto differs = std::mismatch(tokens.begin(), tokens.end(), other.begin(), other.end());
  const auto common = static_cast<std::size_t>(differs.first - tokens.begin());
  return static_cast<std::uint32_t>(std::min(common, tokens.size() - 1));
}

PrefixCache::Found PrefixCache::find(std::span<const text::TokenId> tokens,
                                     std::string_view domain) const {
  Found found;
  for (const auto& slot : slots_) {
    const auto held = slot->session->held();
    if (slot->domain != domain || held.empty()) continue;
    const std::uint32_t common = common_prefix(tokens, held);
    const std::uint32_t shared = slot->session->shareable(common);
    if (shared > found.shared_tokens) {
      found.shared = slot.get();
      found.shared_tokens = shared;
    }
    if (slot->busy) continue;
    const std::uint32_t own = slot->session->reusable(tokens);
    // Whoever goes on with a sequence cuts off what others may want: where that is more than a page
    // and what sharing would compute again, sharing is better.
    const std::size_t lost = held.size() - own;
    if (own > found.own_tokens && lost + shared <= own + plan::kPageTokens) {
      found.own = slot.get();
      found.own_tokens = own;
    }
  }
  return found;
}

std::uint32_t PrefixCache::reusable(std::span<const text::TokenId> tokens,
                                    std::string_view domain) const {
  const auto turn = executor_->turn();
  const Found found = find(tokens, domain);
  return std::max(found.own_tokens, found.shared_tokens);
}

// An idle sequence without pages; opened where there is none yet.
PrefixCache::Slot* PrefixCache::empty_slot() {
  for (const auto& slot : slots_) {
    if (!slot->busy && slot->session->held().empty()) return slot.get();
  }
  auto session = Session::open(executor_);
  if (!session) return nullptr;
  slots_.push_back(std::make_unique<Slot>());
  slots_.back()->session = std::move(*session);
  return slots_.back().get();
}

PrefixCache::Slot* PrefixCache::oldest_idle(const Slot* except) {
  Slot* oldest = nullptr;
  for (const auto& slot : slots_) {
    if (slot->busy || slot.get() == except || slot->session->held().empty()) continue;
    if (oldest == nullptr || slot->used < oldest->used) oldest = slot.get();
  }
  return oldest;
}

Session* PrefixCache::take(std::span<const text::TokenId> tokens, std::string_view domain) {
  Slot* const empty = empty_slot();
  const auto turn = executor_->turn();
  const Found found = find(tokens, domain);
  Slot* slot = found.own;
  if (slot == nullptr || found.shared_tokens > found.own_tokens) {
    slot = empty != nullptr ? empty : oldest_idle(found.shared);
    // The one to share with may be the only idle one.
    if (slot == nullptr && found.shared != nullptr && !found.shared->busy) slot = found.shared;
    if (slot == nullptr) return nullptr;
    const bool gives = found.shared != nullptr && found.shared != slot;
    if (gives || slot->domain != domain) slot->session->clear();
    if (gives) {
      slot->session->share(*found.shared->session, found.shared_tokens);
      found.shared->used = ++uses_;
    }
  }
  slot->session->rewind(tokens);
  slot->busy = true;
  slot->domain = domain;
  return slot->session.get();
}

void PrefixCache::give_back(const Session* session, bool keep) {
  const auto slot = std::ranges::find_if(
      slots_, [&](const auto& candidate) { return candidate->session.get() == session; });
  ORRERY_CHECK(slot != slots_.end() && (*slot)->busy);
  (*slot)->busy = false;
  (*slot)->used = ++uses_;
  if (keep) return;
  const auto turn = executor_->turn();
  (*slot)->session->clear();
}

bool PrefixCache::evict() {
  Slot* const oldest = oldest_idle(nullptr);
  if (oldest == nullptr) return false;
  const auto turn = executor_->turn();
  oldest->session->clear();
  return true;
}

std::uint32_t PrefixCache::idle() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      slots_, [](const auto& slot) { return !slot->busy && !slot->session->held().empty(); }));
}

}  // namespace orrery::engine
