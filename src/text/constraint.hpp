// What a text may be, enforced token by token. Grammars, schemas and patterns compile into a
// ConstraintSource (grammar.hpp); each text in the making has a Constraint of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "text/tokenizer.hpp"

namespace orrery::text {

// One text in the making; one thread at a time.
class Constraint {
 public:
  virtual ~Constraint() = default;
  // Bit t % 32 of word t / 32 says whether token t may come next; ceil(tokens / 32) words.
  // End-of-generation tokens are allowed where the text may end. All zero: a dead end. Valid until
  // the next call.
  virtual std::span<const std::uint32_t> allowed() = 0;
  // E_GRAMMAR when the token is not allowed; the state is then as before.
  virtual Status accept(TokenId token) = 0;
  // Nothing but the end may follow.
  virtual bool is_finished() const = 0;
};

// Immutable, shared by any number of texts and threads.
class ConstraintSource {
 public:
  virtual ~ConstraintSource() = default;
  virtual std::unique_ptr<Constraint> start() const = 0;
};

}  // namespace orrery::text
