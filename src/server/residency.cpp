#include "server/residency.hpp"

#include <algorithm>
#include <tuple>

namespace orrery::server {

using Kind = Residency::Step::Kind;

SlotId Residency::add(std::uint64_t bytes, Keep keep) {
  Slot slot;
  slot.bytes = bytes;
  slot.usual = slot.keep = keep;
  slots_.push_back(slot);
  return slots_.size() - 1;
}

bool Residency::too_large(const Slot& slot) const {
  return options_.budget > 0 && slot.bytes > options_.budget;
}

bool Residency::takes_requests(const Slot& slot) const {
  return slot.presence == Presence::ready && !slot.held && !slot.retiring && !too_large(slot);
}

void Residency::grant(Slot& slot, std::optional<Keep> keep, Moment now) {
  ++slot.uses;
  slot.used = now;
  if (keep) slot.keep = *keep;
}

Residency::Answer Residency::ask(SlotId id, std::optional<Keep> keep, WaiterId waiter, Moment now) {
  Slot& slot = slots_[id];
  if (slot.retiring || slot.retired) return Answer::retired;
  if (takes_requests(slot)) {
    grant(slot, keep, now);
    return Answer::granted;
  }
  if (slot.presence == Presence::failed) {
    if (now - slot.failed_at < options_.retry) return Answer::failed;
    slot.presence = Presence::absent;
  }
  if (waiting_.size() >= options_.max_waiting) return Answer::full;
  waiting_.push_back({waiter, id, keep, now});
  return Answer::waits;
}

void Residency::cancel(WaiterId waiter) {
  std::erase_if(waiting_, [waiter](const Waiter& one) { return one.id == waiter; });
}

void Residency::release(SlotId id, Moment now) {
  --slots_[id].uses;
  slots_[id].used = now;
}

void Residency::expire(SlotId id) {
  if (slots_[id].presence == Presence::ready) slots_[id].keep = Keep(0);
}

void Residency::revive(SlotId id) {
  slots_[id].retired = false;
}

bool Residency::retire(SlotId id) {
  Slot& slot = slots_[id];
  const bool wanted =
      std::ranges::any_of(waiting_, [id](const Waiter& waiter) { return waiter.slot == id; });
  if (slot.uses > 0 || wanted || slot.presence == Presence::loading || slot.retired) return false;
  slot.retiring = true;
  return true;
}

std::uint64_t Residency::used_bytes() const {
  std::uint64_t bytes = 0;
  for (const Slot& slot : slots_) {
    const bool away = slot.presence == Presence::absent || slot.presence == Presence::failed;
    if (!away) bytes += slot.bytes;
  }
  return bytes;
}

bool Residency::fits(SlotId id) const {
  return options_.budget == 0 || used_bytes() + slots_[id].bytes <= options_.budget;
}

const Residency::Waiter* Residency::first_to_load() const {
  const auto found = std::ranges::find_if(waiting_, [this](const Waiter& waiter) {
    const Slot& slot = slots_[waiter.slot];
    return slot.presence == Presence::absent && !too_large(slot);
  });
  return found == waiting_.end() ? nullptr : &*found;
}

std::vector<SlotId> Residency::victims(std::uint64_t bytes) const {
  std::uint64_t used = used_bytes() + bytes;
  std::vector<SlotId> ready;
  for (SlotId id = 0; id < slots_.size(); ++id) {
    if (slots_[id].presence == Presence::ready) ready.push_back(id);
    if (slots_[id].presence == Presence::unloading) used -= slots_[id].bytes;
  }
  std::ranges::sort(ready, {}, [this](SlotId id) {
    return std::tuple(slots_[id].uses > 0, slots_[id].used, id);
  });
  std::size_t count = 0;
  while (count < ready.size() && used > options_.budget) used -= slots_[ready[count++]].bytes;
  ready.resize(count);
  return ready;
}

void Residency::hold(Moment now) {
  for (Slot& slot : slots_) slot.held = false;
  const Waiter* first = first_to_load();
  if (options_.budget == 0 || first == nullptr || now - first->since < options_.turn) return;
  for (const SlotId id : victims(slots_[first->slot].bytes)) slots_[id].held = true;
}

Residency::Step Residency::next(Moment now) {
  hold(now);
  if (const auto step = serve(now)) return *step;
  if (const auto step = let_go(now)) return *step;
  if (const auto step = make_room()) return *step;
  for (SlotId id = 0; id < slots_.size(); ++id) {
    Slot& slot = slots_[id];
    const bool away = slot.presence == Presence::absent || slot.presence == Presence::failed;
    if (!slot.retiring || !away) continue;
    slot.retiring = false;
    slot.retired = true;
    return {.kind = Kind::retired, .slot = id};
  }
  return {};
}

// Grants, refusals and notices to those who wait.
std::optional<Residency::Step> Residency::serve(Moment now) {
  for (auto waiter = waiting_.begin(); waiter != waiting_.end(); ++waiter) {
    Slot& slot = slots_[waiter->slot];
    Step step{.kind = Kind::refuse, .slot = waiter->slot, .waiter = waiter->id};
    const auto waited = now - waiter->since;
    const bool ready = slot.presence == Presence::ready && !too_large(slot);
    if (takes_requests(slot) || (ready && waiter->promised)) {
      step.kind = Kind::grant;
      grant(slot, waiter->keep, now);
    } else if (slot.presence == Presence::failed) {
      step.reason = Reason::failed;
    } else if (too_large(slot)) {
      step.reason = Reason::too_large;
    } else if (waited >= options_.patience && slot.presence != Presence::loading) {
      step.reason = Reason::patience;
    } else if (waited >= options_.notice && !waiter->noticed) {
      waiter->noticed = true;
      step.kind = Kind::notice;
      return step;
    } else {
      continue;
    }
    waiting_.erase(waiter);
    return step;
  }
  return std::nullopt;
}

bool Residency::is_due(const Slot& slot, Moment now) const {
  if (slot.presence != Presence::ready || slot.uses > 0) return false;
  if (slot.retiring || too_large(slot)) return true;
  return slot.keep != kForever && now - slot.used >= slot.keep;
}

// Models whose time is over.
std::optional<Residency::Step> Residency::let_go(Moment now) {
  for (SlotId id = 0; id < slots_.size(); ++id) {
    if (!is_due(slots_[id], now)) continue;
    slots_[id].presence = Presence::unloading;
    return Step{.kind = Kind::unload, .slot = id};
  }
  return std::nullopt;
}

std::optional<Residency::Step> Residency::make_room() {
  const Waiter* first = first_to_load();
  const bool loads = std::ranges::any_of(
      slots_, [](const Slot& slot) { return slot.presence == Presence::loading; });
  if (first != nullptr && !loads && fits(first->slot)) {
    slots_[first->slot].presence = Presence::loading;
    return Step{.kind = Kind::load, .slot = first->slot};
  }
  if (options_.budget == 0 || loads) return std::nullopt;
  // Without a load to come this is about a model that took more than was thought.
  const auto going = victims(first == nullptr ? 0 : slots_[first->slot].bytes);
  // None goes in vain, while another stays in use that has to go too.
  if (going.empty() || slots_[going.back()].uses > 0) return std::nullopt;
  slots_[going.front()].presence = Presence::unloading;
  return Step{.kind = Kind::unload, .slot = going.front(), .evicted = true};
}

std::optional<Moment> Residency::expires(SlotId id, Moment now) const {
  const Slot& slot = slots_[id];
  if (slot.presence != Presence::ready || slot.keep == kForever) return std::nullopt;
  return (slot.uses > 0 ? now : slot.used) + slot.keep;
}

std::optional<Moment> Residency::wake(Moment now) const {
  std::optional<Moment> first;
  const auto consider = [&](Moment moment) {
    if (moment > now && (!first || moment < *first)) first = moment;
  };
  for (SlotId id = 0; id < slots_.size(); ++id) {
    const auto moment = expires(id, now);
    if (moment && slots_[id].uses == 0) consider(*moment);
  }
  for (const Waiter& waiter : waiting_) {
    for (const Keep after : {options_.turn, options_.notice, options_.patience}) {
      consider(waiter.since + after);
    }
  }
  return first;
}

void Residency::loaded(SlotId id, std::uint64_t bytes, Moment now) {
  Slot& slot = slots_[id];
  slot.presence = Presence::ready;
  slot.bytes = bytes;
  slot.used = now;
  for (Waiter& waiter : waiting_) waiter.promised |= waiter.slot == id;
}

void Residency::failed(SlotId id, Moment now) {
  slots_[id].presence = Presence::failed;
  slots_[id].failed_at = now;
}

void Residency::unloaded(SlotId id) {
  slots_[id].presence = Presence::absent;
  slots_[id].keep = slots_[id].usual;
}

}  // namespace orrery::server
