// The sequences that requests use one after the other. What a finished one has computed stays as
// an idle sequence for the next with the same prefix, until its memory or its place is needed: the
// least recently used goes first. Tokens are compared, no hash is trusted.
//
// One thread; takes the executor's turn by itself. Sequences stay open until the cache ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.hpp"

namespace orrery::engine {

// What a request may ask of its sequence.
struct Wish {
  std::optional<std::uint32_t> slot = {};  // this one, if it is idle and no other owner's
  bool reuses = true;                      // false: nothing that is there already
};

class PrefixCache {
 public:
  explicit PrefixCache(std::shared_ptr<Executor> executor) : executor_(std::move(executor)) {}

  // A session that begins with as much of `tokens` as can be reused within the domain: its held()
  // is a prefix of them, and not all of them. Null when every sequence is in use.
  Session* take(std::span<const text::TokenId> tokens, std::string_view domain, Wish wish = {});
  // The tokens that take() would find.
  std::uint32_t reusable(std::span<const text::TokenId> tokens, std::string_view domain) const;
  // The session is idle again; without `keep` its pages go back.
  void give_back(const Session* session, bool keep);
  // Gives back the pages of the idle sequence that was used least recently; false when none holds
  // any.
  bool evict();
  // Idle sequences that hold pages.
  std::uint32_t idle() const;

  // Sequences are numbered in the order in which they are opened. What one holds belongs to an
  // owner: a domain up to its first line break, behind which adapters stand.
  //
  // The number of a session that take() gave.
  std::uint32_t slot_of(const Session* session) const;
  struct SlotView {
    const Session* session = nullptr;  // null: set aside
    bool is_busy = false;
    bool is_foreign = false;  // another owner's
  };
  // Of all that are open.
  std::vector<SlotView> view(std::string_view owner) const;
  // Sets an idle sequence aside: nobody takes it, shares its pages or reads what it holds. E_SLOT
  // when there is no such one or another owner's, E_INUSE when it is busy.
  Result<Session*> set_aside(std::uint32_t slot, std::string_view owner);
  // It is idle again; what it holds without adapters is the owner's.
  void put_back(const Session* session, std::string_view owner);

 private:
  struct Slot {
    std::unique_ptr<Session> session;
    std::string domain;
    std::uint64_t used = 0;  // when, in calls of give_back() and take()
    bool busy = false;
    bool aside = false;  // and busy
  };
  // What a list of tokens finds: an idle sequence to go on with, or the whole pages of any.
  struct Found {
    Slot* own = nullptr;
    std::uint32_t own_tokens = 0;
    Slot* shared = nullptr;
    std::uint32_t shared_tokens = 0;
  };

  Found find(std::span<const text::TokenId> tokens, std::string_view domain) const;
  Slot* slot_at(std::uint32_t id);
  Slot* slot_with(const Session* session) const;
  Slot* open_slot();
  Slot* empty_slot();
  Slot* oldest_idle(const Slot* except);

  std::shared_ptr<Executor> executor_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::uint64_t uses_ = 0;
};

// Tokens at the front that both lists have, but not all of `tokens`.
std::uint32_t common_prefix(std::span<const text::TokenId> tokens,
                            std::span<const text::TokenId> other);

}  // namespace orrery::engine
