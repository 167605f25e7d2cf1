// Which models are in memory: who may be answered now, what is loaded next and what goes for it.
//
// A state machine and nothing else: no thread, no lock, no clock. Whoever drives it tells what
// happened (ask, release, loaded, ...) and does the steps that next() gives, until it gives none.
//
//   absent --load--> loading --> ready --unload--> unloading --> absent
//                        \-> failed (as absent, but for a moment requests get the same error)
//
// A request uses a model from its grant to its release; a model in use never goes. One model is
// loaded at a time: the one that was waited for longest. Where memory is short for it, idle models
// go, the one that was used longest ago first. When it still does not fit, it has waited for
// `turn`, and it may expect to (its bytes are within the budget), then those models that have to
// go take no more requests until it is there: so models in constant use take turns.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "server/keep_alive.hpp"

namespace orrery::server {

using Moment = std::chrono::steady_clock::time_point;
using SlotId = std::size_t;      // of a model
using WaiterId = std::uint64_t;  // of a request; the driver chooses them

enum class Presence : std::uint8_t { absent, loading, ready, unloading, failed };

struct ResidencyOptions {
  std::uint64_t budget = 0;  // bytes; 0: no limit
  std::size_t max_waiting = 512;
  Keep turn{2'000};        // after which a model that waits makes others stop
  Keep patience{300'000};  // the longest wait of a request
  Keep notice{5'000};      // after which a request is told that it waits
  Keep retry{2'000};       // after a failure, until it is tried again
};

class Residency {
 public:
  explicit Residency(const ResidencyOptions& options) : options_(options) {}

  // `bytes` is what it will take, as far as is known; `keep` how long it stays after a use.
  SlotId add(std::uint64_t bytes, Keep keep);

  // full: too many wait. failed: its load failed a moment ago. retired: it is being removed.
  enum class Answer : std::uint8_t { granted, waits, full, failed, retired };
  // `keep`, where given, holds from now until the model goes.
  Answer ask(SlotId slot, std::optional<Keep> keep, WaiterId waiter, Moment now);
  void cancel(WaiterId waiter);  // one that does not wait is left alone
  void release(SlotId slot, Moment now);
  // If it is there, it goes as soon as nobody uses it.
  void expire(SlotId slot);
  // It will be gone for good, after a step `retired`; false, and nothing happens, when somebody
  // uses it or waits for it, or it is on its way in.
  bool retire(SlotId slot);
  void revive(SlotId slot);  // a retired one

  enum class Reason : std::uint8_t { failed, too_large, patience };
  struct Step {
    enum class Kind : std::uint8_t { none, grant, notice, refuse, load, unload, retired };
    Kind kind = Kind::none;
    SlotId slot = 0;
    WaiterId waiter = 0;             // grant, notice, refuse
    Reason reason = Reason::failed;  // refuse
    bool evicted = false;            // unload: for want of memory, not of use
  };
  Step next(Moment now);
  // When next() may have a step although nothing was told. Nothing: never.
  std::optional<Moment> wake(Moment now) const;

  void loaded(SlotId slot, std::uint64_t bytes, Moment now);  // what it takes in truth
  void failed(SlotId slot, Moment now);
  void unloaded(SlotId slot);

  // It would fit beside what is there.
  bool fits(SlotId slot) const;
  Presence presence(SlotId slot) const { return slots_[slot].presence; }
  std::uint64_t bytes(SlotId slot) const { return slots_[slot].bytes; }
  // When it goes if its answers end now and nobody asks for it again; nothing for one that is not
  // there or stays for ever.
  std::optional<Moment> expires(SlotId slot, Moment now) const;
  std::uint64_t used_bytes() const;
  std::size_t waiting() const { return waiting_.size(); }
  const ResidencyOptions& options() const { return options_; }

 private:
  struct Slot {
    std::uint64_t bytes = 0;
    Keep usual{}, keep{};
    Presence presence = Presence::absent;
    std::uint32_t uses = 0;
    Moment used{};  // last grant or release
    Moment failed_at{};
    bool retiring = false, retired = false;
    bool held = false;  // takes no more requests until another is loaded
  };
  struct Waiter {
    WaiterId id;
    SlotId slot;
    std::optional<Keep> keep;
    Moment since;
    bool noticed = false;
    bool promised = false;  // it waited when the model came, and is served before it goes
  };

  bool too_large(const Slot& slot) const;
  bool takes_requests(const Slot& slot) const;
  bool is_due(const Slot& slot, Moment now) const;
  // The one that waits longest for a model that is not there.
  const Waiter* first_to_load() const;
  // Ready models that must go so that `bytes` more fit: idle ones first, used longest ago first.
  std::vector<SlotId> victims(std::uint64_t bytes) const;
  void hold(Moment now);
  void grant(Slot& slot, std::optional<Keep> keep, Moment now);
  std::optional<Step> serve(Moment now);
  std::optional<Step> let_go(Moment now);
  std::optional<Step> make_room();

  ResidencyOptions options_;
  std::vector<Slot> slots_;
  std::deque<Waiter> waiting_;  // in the order of their coming
};

}  // namespace orrery::server
