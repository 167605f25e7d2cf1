// The sequences that requests use one after the other. What a finished one has computed stays as
// an idle sequence for the next with the same prefix, until its memory or its place is needed: the
// least recently used goes first. Tokens are compared, no hash is trusted.
//
// One thread; takes the executor's turn by itself. Sequences stay open until the cache ends.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.hpp"

namespace orrery::engine {

class PrefixCache {
 public:
  explicit PrefixCache(std::shared_ptr<Executor> executor) : executor_(std::move(executor)) {}

  // A session that begins with as much of `tokens` as can be reused within the domain: its held()
  // is a prefix of them, and not all of them. Null when every sequence is in use.
  Session* take(std::span<const text::TokenId> tokens, std::string_view domain);
  // The tokens that take() would find.
  std::uint32_t reusable(std::span<const text::TokenId> tokens, std::string_view domain) const;
  // The session is idle again; without `keep` its pages go back.
  void give_back(const Session* session, bool keep);
  // Gives back the pages of the idle sequence that was used least recently; false when none holds
  // any.
  bool evict();
  // Idle sequences that hold pages.
  std::uint32_t idle() const;

 private:
  struct Slot {
    std::unique_ptr<Session> session;
    std::string domain;
    std::uint64_t used = 0;  // when, in calls of give_back() and take()
    bool busy = false;
  };
  // What a list of tokens finds: an idle sequence to go on with, or the whole pages of any.
  struct Found {
    Slot* own = nullptr;
    std::uint32_t own_tokens = 0;
    Slot* shared = nullptr;
    std::uint32_t shared_tokens = 0;
  };

  Found find(std::span<const text::TokenId> tokens, std::string_view domain) const;
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
