#include "engine/session_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace orrery::engine {
namespace {

constexpr std::string_view kNoAdapters =
    "sessions with adapters are not kept: a file does not say which adapters made its pages";

}  // namespace

Result<std::unique_ptr<SessionFile>> SessionFile::open(storage::StateIo& io,
                                                       const std::string& path,
                                                       const KvIdentity& identity) {
  ORRERY_TRY(auto file, KvFile::open(io, path));
  return std::unique_ptr<SessionFile>(new SessionFile(std::move(file), identity));
}

SessionFile::SessionFile(std::unique_ptr<KvFile> file, const KvIdentity& identity)
    : file_(std::move(file)), identity_(identity) {
  static std::atomic<std::uint64_t> count{0};
  id_ = ++count;
}

std::string_view SessionFile::text() const {
  return file_->index() ? std::string_view(file_->index()->text) : std::string_view();
}

std::span<const text::TokenId> SessionFile::tokens() const {
  if (!file_->index()) return {};
  return file_->index()->tokens;
}

Restored SessionFile::restore(Session& session) {
  auto turn = session.executor().turn();
  session.clear();
  session.saved_to_ = 0;
  Restored restored;
  restored.problem = file_->refusal();
  if (!file_->index()) return restored;
  const KvIndex& index = *file_->index();
  restored.saved = static_cast<std::uint32_t>(index.tokens.size());
  if (const std::string_view other = difference(index.identity, identity_); !other.empty()) {
    restored.problem =
        Error{"E_SESSION", fmt::format("the session's pages cannot be used: {}", other)};
    return restored;
  }
  if (session.has_adapters()) {
    restored.problem = Error{"E_ADAPTER", std::string(kNoAdapters)};
    return restored;
  }
  Executor& executor = session.executor();
  restore_pages(index, file_->file(), executor.kv(), session.sequence_, turn, restored);
  session.held_.assign(index.tokens.begin(), index.tokens.begin() + restored.tokens);
  session.saved_to_ = id_;
  session.unchanged_ = restored.tokens;
  return restored;
}

// Where the pages lie: other sequences may run from here on.
Result<SessionFile::Gathered> SessionFile::gather(const Session& session) {
  const auto turn = session.executor().turn();
  const KvPages& kv = session.executor().kv();
  if (kv.is_lost(session.sequence_)) {
    return fail("E_CHANGED", "the session's pages were lost while they were in use");
  }
  Gathered gathered{{}, PageBytes(kv.n_groups())};
  for (std::size_t g = 0; g < kv.n_groups(); ++g) {
    gathered.entries.push_back(kv.needed_entries(session.sequence_, g));
    for (const std::uint32_t entry : gathered.entries[g]) {
      gathered.bytes[g].push_back(kv.page(session.sequence_, g, entry));
    }
  }
  return gathered;
}

Status SessionFile::save(Session& session, std::string text) {
  if (session.has_adapters()) return fail("E_ADAPTER", std::string(kNoAdapters));
  const auto length = static_cast<std::uint32_t>(session.held_.size());
  const KvIndex* last = file_->index() ? &*file_->index() : nullptr;
  const std::uint32_t unchanged = session.saved_to_ == id_ ? session.unchanged_ : 0;

  KvIndex next{identity_, session.held_, {}, std::move(text)};
  if (last != nullptr && unchanged == length && last->tokens == next.tokens &&
      last->text == next.text && last->identity == identity_) {
    return {};
  }
  const std::vector<std::uint64_t> keys = page_keys(identity_, next.tokens);
  ORRERY_TRY(const Gathered gathered, gather(session));
  const PageBytes& bytes = gathered.bytes;
  next.pages.resize(bytes.size());
  for (std::size_t g = 0; g < bytes.size(); ++g) {
    for (std::size_t i = 0; i < bytes[g].size(); ++i) {
      const std::uint32_t entry = gathered.entries[g][i];
      const std::span<const std::byte> page = bytes[g][i];
      const bool is_saved = std::uint64_t{entry + 1} * plan::kPageTokens <= unchanged;
      if (is_saved && last != nullptr) {
        const auto& old = last->pages[g];
        const auto found = std::ranges::lower_bound(old, entry, {}, &SavedPage::entry);
        if (found != old.end() && found->entry == entry) {
          next.pages[g].push_back(*found);
          continue;
        }
      }
      next.pages[g].push_back({entry, 0, page_checksum(page, keys[entry])});
    }
  }
  ORRERY_TRY_VOID(file_->commit(std::move(next), bytes));
  session.saved_to_ = id_;
  session.unchanged_ = length;
  return {};
}

}  // namespace orrery::engine
