// One conversation timeline on a model. The caller passes the whole list of tokens each time; the
// session finds what its pages already hold. Logits stay valid until the next run of any session
// of the same model: sessions that are used by several threads take Executor::turn() around a call
// and the reading of its logits. Opening and closing take it by themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "engine/executor.hpp"
#include "text/tokenizer.hpp"

namespace orrery::engine {

// What happens to a list that is longer than the context: after the first `keep` tokens the oldest
// are dropped, half of the rest at a time. shift: everything behind them is computed again. roll:
// what is behind them stays as it was computed and moves up (roll.hpp), in whole pages.
enum class Overflow : std::uint8_t { error, shift, roll };

struct EvaluateOptions {
  Overflow overflow = Overflow::error;
  std::uint32_t keep = 0;                     // tokens at the front that are never dropped
  const std::atomic<bool>* cancel = nullptr;  // looked at between slices: E_CANCELLED
  // Called after every slice but the last with tokens done and to do.
  std::function<void(std::uint32_t, std::uint32_t)> progress;
};

// What is dropped of n > context tokens, which check_length() allowed: whole steps of half of what
// is not kept, so that the list stays the same, token by token, until the context is full again.
struct Dropped {
  std::uint32_t first = 0;  // tokens in front of it
  std::size_t count = 0;
};
Dropped dropped_of(std::size_t n, const Executor& executor, const EvaluateOptions& options);
// E_TOKENS: there are tokens, and all are of the vocabulary.
Status check_tokens(std::span<const text::TokenId> tokens, const Executor& executor);
// E_CONTEXT: they fit into the context, or the options let them be dropped; those of check_rolls().
Status check_length(std::size_t n, const Executor& executor, const EvaluateOptions& options);

struct Evaluation {
  std::span<const float> logits;  // (vocab), of the last token
  std::uint32_t reused = 0;       // tokens that the pages held already
  std::uint32_t computed = 0;
  std::uint32_t dropped = 0;  // of a list that was too long
};

// An adapter that Model::load_adapter gave this number, and its factor (1: as it was trained).
struct AdapterUse {
  std::uint32_t id = 0;
  float scale = 1.0F;
};

class Session {
 public:
  // E_SEQUENCES when the model has no free sequence. Keeps the executor (and its model) alive.
  static Result<std::unique_ptr<Session>> open(std::shared_ptr<Executor> executor);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Errors: E_TOKENS (empty list or an id outside of the vocabulary), E_CONTEXT (too long),
  // E_MEMORY (no page left), E_CANCELLED. What was computed before an error stays and is reused.
  Result<Evaluation> evaluate(std::span<const text::TokenId> tokens,
                              const EvaluateOptions& options = {});
  // The adapters of what follows, instead of those before; none at first. Those named twice add up.
  // Where they differ from before, what the pages hold is forgotten. E_ADAPTER for one that is not
  // loaded or a factor that is not finite.
  Status set_adapters(std::span<const AdapterUse> adapters);
  bool has_adapters() const;
  // Forgets everything; the pages go back.
  void clear();

  // The steps of evaluate(), for those who serve many sessions by turns. The tokens were checked.
  //
  // Keeps the longest prefix of `tokens` that the pages can go on from, but not all of them;
  // returns its length.
  std::uint32_t rewind(std::span<const text::TokenId> tokens);
  // How much rewind() would keep.
  std::uint32_t reusable(std::span<const text::TokenId> tokens) const;
  // Computes tokens behind those that are held, at most Executor::max_prefill_tokens().
  // `wants_logits`: of the last one, in row 0.
  Status advance(std::span<const text::TokenId> tokens, bool wants_logits);
  // Rolls what is held: drops these tokens and moves those behind them up (whole pages; a CHECK).
  // E_MEMORY, and nothing has changed, where shared pages cannot be copied; E_CHANGED.
  Status roll(const Dropped& dropped);
  // An empty session begins with the whole pages of the first `length` tokens of another, and with
  // its adapters. Returns the tokens covered.
  std::uint32_t share(const Session& from, std::uint32_t length);
  // What share() of the first `length` tokens would cover, but for want of memory.
  std::uint32_t shareable(std::uint32_t length) const;

  // The tokens that the pages hold, in order of their positions.
  std::span<const text::TokenId> held() const { return held_; }
  Executor& executor() const { return *executor_; }

 private:
  friend class LogitStream;
  friend class SessionFile;
  friend Status decode_batch(std::span<Session* const> sessions,
                             std::span<const text::TokenId> tokens);

  Session(std::shared_ptr<Executor> executor, SequenceId sequence);
  Status append(text::TokenId token);
  Status append_slice(std::span<const text::TokenId> tokens, std::span<const std::int32_t> outputs);
  void truncate(std::uint32_t length);
  void forget_run(std::uint32_t start);
  void roll_towards(std::span<const text::TokenId> tokens, const Dropped& dropped);

  std::shared_ptr<Executor> executor_;
  SequenceId sequence_;
  std::vector<text::TokenId> held_;    // capacity: the context
  std::vector<text::TokenId> wanted_;  // capacity: the context; a list without what was dropped
  // The SessionFile that it was last saved to or restored from (0: none), and how many of the
  // positions from then were never given up since: their whole pages are the file's.
  std::uint64_t saved_to_ = 0;
  std::uint32_t unchanged_ = 0;
};

inline constexpr std::size_t kMostBatchRows = 64;  // of decode_batch()

// One more token for each session, all in one run; row i of Executor::logits() belongs to session
// i. The sessions are distinct and of one executor, at most max_decode_rows() and kMostBatchRows.
// Each gets the bits that it would get alone. After an error no session is longer; one with a state
// that a failed run may have changed goes back to its last snapshot.
Status decode_batch(std::span<Session* const> sessions, std::span<const text::TokenId> tokens);

// Logits of every position from `first` on, computed anew with prefill, a few rows at a time.
// Borrows session and tokens.
class LogitStream {
 public:
  struct Rows {
    std::uint32_t position = 0;     // of the first row
    std::uint32_t count = 0;        // 0: the end
    const float* logits = nullptr;  // (count, vocab), valid until the next run of the model
  };

  // E_TOKENS or E_CONTEXT as Session::evaluate.
  static Result<LogitStream> open(Session& session, std::span<const text::TokenId> tokens,
                                  std::uint32_t first);
  // At most `most` rows.
  Result<Rows> next(std::uint32_t most = UINT32_MAX);

 private:
  LogitStream(Session& session, std::span<const text::TokenId> tokens, std::uint32_t first)
      : session_(&session), tokens_(tokens), next_(first) {}

  Session* session_;
  std::span<const text::TokenId> tokens_;
  std::uint32_t next_;                             // position of the next row
  std::uint32_t slice_begin_ = 0, slice_end_ = 0;  // positions in the program's buffers
};

}  // namespace orrery::engine
