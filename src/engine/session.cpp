#include "engine/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "engine/roll.hpp"

namespace orrery::engine {
namespace {

Status context_error(std::size_t n, std::uint32_t context) {
  return fail("E_CONTEXT",
              fmt::format("{} tokens do not fit into the context of {} tokens; shorten the text, "
                          "start with a larger context or choose to shift",
                          n, context));
}

}  // namespace

Status check_tokens(std::span<const text::TokenId> tokens, const Executor& executor) {
  if (tokens.empty()) return fail("E_TOKENS", "there is no token to evaluate");
  for (const text::TokenId id : tokens) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < executor.vocab()) continue;
    return fail("E_TOKENS", fmt::format("token {} is not in the vocabulary of {} tokens", id,
                                        executor.vocab()));
  }
  return {};
}

Status check_length(std::size_t n, const Executor& executor, const EvaluateOptions& options) {
  const std::uint32_t context = executor.context();
  if (options.overflow == Overflow::roll) {
    return check_rolls(executor.decode_plan(), context, options.keep);
  }
  if (n <= context || (options.overflow == Overflow::shift && options.keep < context)) return {};
  return context_error(n, context);
}

Dropped dropped_of(std::size_t n, const Executor& executor, const EvaluateOptions& options) {
  const std::uint32_t context = executor.context();
  Dropped dropped{options.keep, std::max<std::size_t>(1, (context - options.keep) / 2)};
  if (options.overflow == Overflow::roll) {
    dropped = {roll_sinks(options.keep), roll_step(executor.decode_plan(), context, options.keep)};
  }
  dropped.count *= ceil_div(n - context, dropped.count);
  return dropped;
}

Result<std::unique_ptr<Session>> Session::open(std::shared_ptr<Executor> executor) {
  if (executor == nullptr) {
    return fail("E_ENCODER", "the model makes vectors of texts and writes none; use it with embed");
  }
  const auto turn = executor->turn();
  ORRERY_TRY(const SequenceId sequence, executor->kv().open());
  return std::unique_ptr<Session>(new Session(std::move(executor), sequence));
}

Session::Session(std::shared_ptr<Executor> executor, SequenceId sequence)
    : executor_(std::move(executor)), sequence_(sequence) {
  held_.reserve(executor_->context());
  wanted_.reserve(executor_->context());
  executor_->set_adapters(sequence_, {});
}

Session::~Session() {
  const auto turn = executor_->turn();
  executor_->kv().close(sequence_);
}

Status Session::set_adapters(std::span<const AdapterUse> adapters) {
  AdapterScales scales{};
  for (const AdapterUse& use : adapters) {
    if (use.id >= executor_->n_adapters()) {
      return fail("E_ADAPTER", fmt::format("adapter {} is not loaded", use.id));
    }
    scales[use.id] += use.scale;
    if (!std::isfinite(scales[use.id])) {
      return fail("E_ADAPTER", fmt::format("the factor of adapter {} is not finite", use.id));
    }
  }
  if (scales == executor_->adapters(sequence_)) return {};
  clear();
  executor_->set_adapters(sequence_, scales);
  return {};
}

bool Session::has_adapters() const {
  return executor_->adapters(sequence_) != AdapterScales{};
}

void Session::clear() {
  truncate(0);
}

void Session::truncate(std::uint32_t length) {
  executor_->kv().truncate(sequence_, length);
  held_.resize(length);
  unchanged_ = std::min(unchanged_, length);
}

// A run that failed may have written over the state of the token before it.
void Session::forget_run(std::uint32_t start) {
  KvPages& kv = executor_->kv();
  kv.truncate(sequence_, start);
  truncate(kv.reusable(sequence_, start));
}

Result<Evaluation> Session::evaluate(std::span<const text::TokenId> tokens,
                                     const EvaluateOptions& options) {
  const std::uint32_t context = executor_->context();
  Evaluation evaluation;
  ORRERY_TRY_VOID(check_length(tokens.size(), *executor_, options));
  if (tokens.size() > context) {
    const Dropped dropped = dropped_of(tokens.size(), *executor_, options);
    evaluation.dropped = static_cast<std::uint32_t>(dropped.count);
    wanted_.assign(tokens.begin(), tokens.begin() + dropped.first);
    const auto rest = tokens.subspan(dropped.first + dropped.count);
    wanted_.insert(wanted_.end(), rest.begin(), rest.end());
    tokens = wanted_;
    if (options.overflow == Overflow::roll) roll_towards(tokens, dropped);
  }
  ORRERY_TRY_VOID(check_tokens(tokens, *executor_));

  const auto n = static_cast<std::uint32_t>(tokens.size());
  const std::size_t length = held_.size();
  evaluation.reused = rewind(tokens);
  evaluation.computed = n - evaluation.reused;
  if (evaluation.computed == 1 && evaluation.reused == length && n > 1) {
    ORRERY_TRY_VOID(append(tokens.back()));
    evaluation.logits = executor_->logits(0);
    return evaluation;
  }
  while (held_.size() < n) {
    if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
      return fail("E_CANCELLED", "cancelled");
    }
    const auto rest = tokens.subspan(held_.size());
    const auto slice =
        rest.first(std::min<std::size_t>(rest.size(), executor_->max_prefill_tokens()));
    const bool is_last = slice.size() == rest.size();
    ORRERY_TRY_VOID(advance(slice, is_last));
    if (!is_last && options.progress) {
      options.progress(static_cast<std::uint32_t>(held_.size()) - evaluation.reused,
                       evaluation.computed);
    }
  }
  evaluation.logits = executor_->logits(0);
  return evaluation;
}

Status Session::roll(const Dropped& dropped) {
  const std::size_t end = dropped.first + dropped.count;
  ORRERY_CHECK(end % plan::kPageTokens == 0 && dropped.first % plan::kPageTokens == 0);
  ORRERY_CHECK(end <= held_.size());
  KvPages& kv = executor_->kv();
  const auto first = static_cast<std::uint32_t>(dropped.first / plan::kPageTokens);
  const auto count = static_cast<std::uint32_t>(dropped.count / plan::kPageTokens);
  ORRERY_TRY_VOID(kv.roll(sequence_, first, count));
  rotate_keys(executor_->decode_plan(), kv, sequence_, first,
              -static_cast<std::int64_t>(dropped.count));
  const auto begin = held_.begin() + dropped.first;
  held_.erase(begin, begin + static_cast<std::ptrdiff_t>(dropped.count));
  unchanged_ = std::min(unchanged_, dropped.first);
  return {};
}

// Where the pages hold the list as it was before one or more steps of dropping, they take them. If
// not, or if memory is short, evaluate() computes the list again.
void Session::roll_towards(std::span<const text::TokenId> tokens, const Dropped& dropped) {
  const std::span<const text::TokenId> held = held_;
  const std::size_t n = std::min(held.size(), tokens.size());
  if (n == held.size() && std::ranges::equal(held, tokens.first(n))) return;
  const std::size_t step = plan::kPageTokens;
  for (std::size_t count = step; count <= dropped.count; count += step) {
    if (dropped.first + count >= held.size()) return;
    const auto rest = held.subspan(dropped.first + count);
    if (dropped.first + rest.size() > tokens.size()) continue;
    if (!std::ranges::equal(held.first(dropped.first), tokens.first(dropped.first)) ||
        !std::ranges::equal(rest, tokens.subspan(dropped.first, rest.size()))) {
      continue;
    }
    static_cast<void>(roll({dropped.first, count}));
    return;
  }
}

std::uint32_t Session::reusable(std::span<const text::TokenId> tokens) const {
  const auto differs = std::mismatch(tokens.begin(), tokens.end(), held_.begin(), held_.end());
  const auto common = static_cast<std::uint32_t>(differs.first - tokens.begin());
  // The last token runs again: its logits are wanted.
  return executor_->kv().reusable(sequence_,
                                  std::min(common, static_cast<std::uint32_t>(tokens.size()) - 1));
}

std::uint32_t Session::rewind(std::span<const text::TokenId> tokens) {
  const std::uint32_t kept = reusable(tokens);
  truncate(kept);
  return kept;
}

Status Session::advance(std::span<const text::TokenId> tokens, bool wants_logits) {
  const std::array<std::int32_t, 1> last{static_cast<std::int32_t>(tokens.size()) - 1};
  return append_slice(tokens, std::span(last).first(wants_logits ? 1 : 0));
}

std::uint32_t Session::share(const Session& from, std::uint32_t length) {
  ORRERY_CHECK(held_.empty() && length <= from.held_.size() && executor_ == from.executor_);
  executor_->set_adapters(sequence_, executor_->adapters(from.sequence_));
  const std::uint32_t shared = executor_->kv().share_prefix(from.sequence_, sequence_, length);
  held_.assign(from.held_.begin(), from.held_.begin() + shared);
  return shared;
}

std::uint32_t Session::shareable(std::uint32_t length) const {
  const std::uint32_t whole = length / plan::kPageTokens * plan::kPageTokens;
  return executor_->kv().reusable(sequence_, whole) / plan::kPageTokens * plan::kPageTokens;
}

Status Session::append(text::TokenId token) {
  Session* self = this;
  return decode_batch({&self, 1}, {&token, 1});
}

Status Session::append_slice(std::span<const text::TokenId> tokens,
                             std::span<const std::int32_t> outputs) {
  KvPages& kv = executor_->kv();
  const auto start = static_cast<std::uint32_t>(held_.size());
  kv.drop_behind(sequence_);
  ORRERY_TRY_VOID(kv.extend(sequence_, start + static_cast<std::uint32_t>(tokens.size())));
  const Status ran = executor_->prefill(sequence_, tokens, start, outputs);
  if (!ran) {
    forget_run(start);
    return ran;
  }
  held_.insert(held_.end(), tokens.begin(), tokens.end());
  return {};
}

Status decode_batch(std::span<Session* const> sessions, std::span<const text::TokenId> tokens) {
  ORRERY_CHECK(!sessions.empty() && sessions.size() == tokens.size());
  Executor& executor = *sessions[0]->executor_;
  ORRERY_CHECK(sessions.size() <=
               std::min<std::size_t>(executor.max_decode_rows(), kMostBatchRows));
  ORRERY_TRY_VOID(check_tokens(tokens, executor));
  std::array<DecodeRow, kMostBatchRows> rows;
  Status status;
  std::size_t extended = 0;
  for (; extended < sessions.size(); ++extended) {
    Session& session = *sessions[extended];
    ORRERY_CHECK(session.executor_.get() == &executor);
    const auto length = static_cast<std::uint32_t>(session.held_.size());
    executor.kv().drop_behind(session.sequence_);
    status = executor.kv().extend(session.sequence_, length + 1);
    if (!status) break;
    rows[extended] = {session.sequence_, tokens[extended], static_cast<std::int32_t>(length)};
  }
  const bool runs = status.has_value();
  if (runs) status = executor.decode(std::span(rows).first(sessions.size()));
  for (std::size_t i = 0; i < extended; ++i) {
    Session& session = *sessions[i];
    const auto length = static_cast<std::uint32_t>(session.held_.size());
    if (status) {
      session.held_.push_back(tokens[i]);
    } else if (runs) {
      session.forget_run(length);
    } else {
      executor.kv().take_back(session.sequence_, length);
    }
  }
  return status;
}

Result<LogitStream> LogitStream::open(Session& session, std::span<const text::TokenId> tokens,
                                      std::uint32_t first) {
  const Executor& executor = session.executor();
  ORRERY_TRY_VOID(check_tokens(tokens, executor));
  if (tokens.size() > executor.context()) {
    ORRERY_TRY_VOID(context_error(tokens.size(), executor.context()));
  }
  ORRERY_CHECK(first < tokens.size());
  session.clear();
  return LogitStream(session, tokens, first);
}

Result<LogitStream::Rows> LogitStream::next(std::uint32_t most) {
  Executor& executor = session_->executor();
  if (next_ >= tokens_.size()) return Rows{};
  constexpr std::size_t kMostOutputs = 256;
  std::array<std::int32_t, kMostOutputs> outputs;
  while (slice_end_ <= next_) {
    slice_begin_ = slice_end_;
    const auto rest = tokens_.subspan(slice_begin_);
    const auto slice =
        rest.first(std::min<std::size_t>(rest.size(), executor.max_prefill_tokens()));
    ORRERY_TRY_VOID(session_->append_slice(slice, {}));
    slice_end_ += static_cast<std::uint32_t>(slice.size());
  }
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(
      {slice_end_ - next_, most, executor.max_prefill_outputs(), kMostOutputs}));
  for (std::uint32_t i = 0; i < count; ++i) {
    outputs[i] = static_cast<std::int32_t>(next_ - slice_begin_ + i);
  }
  ORRERY_TRY_VOID(executor.prefill_outputs(std::span(outputs).first(count)));
  const Rows rows{next_, count, executor.logits(0).data()};
  next_ += count;
  return rows;
}

}  // namespace orrery::engine
