#include "engine/prefix_cache.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "plan/plan.hpp"

namespace orrery::engine {
namespace {

bool is_owned(std::string_view domain, std::string_view owner) {
  return domain.substr(0, domain.find('\n')) == owner;
}

}  // namespace

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
    if (slot->aside || slot->domain != domain) continue;
    const auto held = slot->session->held();
    if (held.empty()) continue;
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

// Opened where it is not yet; null when there are not so many.
PrefixCache::Slot* PrefixCache::slot_at(std::uint32_t id) {
  while (slots_.size() <= id) {
    if (open_slot() == nullptr) return nullptr;
  }
  return slots_[id].get();
}

PrefixCache::Slot* PrefixCache::slot_with(const Session* session) const {
  const auto slot = std::ranges::find_if(
      slots_, [&](const auto& candidate) { return candidate->session.get() == session; });
  ORRERY_CHECK(slot != slots_.end());
  return slot->get();
}

PrefixCache::Slot* PrefixCache::open_slot() {
  auto session = Session::open(executor_);
  if (!session) return nullptr;
  slots_.push_back(std::make_unique<Slot>());
  slots_.back()->session = std::move(*session);
  return slots_.back().get();
}

// An idle sequence without pages; opened where there is none yet.
PrefixCache::Slot* PrefixCache::empty_slot() {
  for (const auto& slot : slots_) {
    if (!slot->busy && slot->session->held().empty()) return slot.get();
  }
  return open_slot();
}

PrefixCache::Slot* PrefixCache::oldest_idle(const Slot* except) {
  Slot* oldest = nullptr;
  for (const auto& slot : slots_) {
    if (slot->busy || slot.get() == except || slot->session->held().empty()) continue;
    if (oldest == nullptr || slot->used < oldest->used) oldest = slot.get();
  }
  return oldest;
}

Session* PrefixCache::take(std::span<const text::TokenId> tokens, std::string_view domain,
                           Wish wish) {
  Slot* wanted = wish.slot ? slot_at(*wish.slot) : nullptr;
  const bool is_mine = wanted != nullptr && !wanted->busy &&
                       (wanted->session->held().empty() ||
                        is_owned(wanted->domain, domain.substr(0, domain.find('\n'))));
  if (!is_mine) wanted = nullptr;
  Slot* const empty = wanted == nullptr ? empty_slot() : nullptr;
  const auto turn = executor_->turn();
  Found found;
  if (wish.reuses) found = find(tokens, domain);
  if (wanted != nullptr) {
    found.own = wanted;
    const bool fits = wish.reuses && wanted->domain == domain;
    found.own_tokens = fits ? wanted->session->reusable(tokens) : 0;
  }
  Slot* slot = found.own;
  if (slot == nullptr || found.shared_tokens > found.own_tokens) {
    if (wanted == nullptr) slot = empty != nullptr ? empty : oldest_idle(found.shared);
    // The one to share with may be the only idle one.
    if (slot == nullptr && found.shared != nullptr && !found.shared->busy) slot = found.shared;
    if (slot == nullptr) return nullptr;
    if (found.shared != nullptr && found.shared != slot) {
      slot->session->clear();
      slot->session->share(*found.shared->session, found.shared_tokens);
      found.shared->used = ++uses_;
      slot->domain = domain;
    }
  }
  if (slot->domain != domain || !wish.reuses) slot->session->clear();
  slot->session->rewind(tokens);
  slot->busy = true;
  slot->domain = domain;
  return slot->session.get();
}

void PrefixCache::give_back(const Session* session, bool keep) {
  Slot& slot = *slot_with(session);
  ORRERY_CHECK(slot.busy);
  slot.busy = false;
  slot.used = ++uses_;
  if (keep) return;
  const auto turn = executor_->turn();
  slot.session->clear();
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

std::uint32_t PrefixCache::slot_of(const Session* session) const {
  const Slot* const slot = slot_with(session);
  return static_cast<std::uint32_t>(std::ranges::find(slots_, slot, &std::unique_ptr<Slot>::get) -
                                    slots_.begin());
}

std::vector<PrefixCache::SlotView> PrefixCache::view(std::string_view owner) const {
  std::vector<SlotView> views;
  for (const auto& slot : slots_) {
    const Session* const session = slot->aside ? nullptr : slot->session.get();
    const bool is_empty = session != nullptr && !slot->busy && session->held().empty();
    views.push_back({session, slot->busy, !is_empty && !is_owned(slot->domain, owner)});
  }
  return views;
}

Result<Session*> PrefixCache::set_aside(std::uint32_t id, std::string_view owner) {
  Slot* const slot = slot_at(id);
  const bool is_mine = slot != nullptr && (is_owned(slot->domain, owner) ||
                                           (!slot->busy && slot->session->held().empty()));
  if (!is_mine) return fail("E_SLOT", fmt::format("there is no slot {}", id));
  if (slot->busy) {
    return fail("E_INUSE", fmt::format("slot {} is in use; try again when it is not", id));
  }
  slot->busy = slot->aside = true;
  return slot->session.get();
}

void PrefixCache::put_back(const Session* session, std::string_view owner) {
  Slot& slot = *slot_with(session);
  ORRERY_CHECK(slot.aside);
  if (!session->has_adapters()) slot.domain = owner;
  slot.aside = false;
  give_back(session, true);
}

}  // namespace orrery::engine
