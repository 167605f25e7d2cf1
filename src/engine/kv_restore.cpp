#include "engine/kv_restore.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/checked.hpp"
#include "base/thread_team.hpp"
#include "base/topology.hpp"

namespace orrery::engine {
namespace {

constexpr std::uint64_t kAlignment = 4096;
// So much is hashed in the time that threads take to start.
constexpr std::uint64_t kFewBytes = std::uint64_t{8} << 20;
constexpr int kMostThreads = 8;

// One page to bring back, and what became of it.
struct Job {
  std::size_t group = 0;
  const SavedPage* page = nullptr;
  bool is_mapped = false;
  bool is_good = false;
};

class Restorer {
 public:
  Restorer(const KvIndex& index, const storage::StateFile& file, KvPages& kv, SequenceId sequence,
           std::unique_lock<FairMutex>& turn)
      : index_(index),
        file_(file),
        kv_(kv),
        sequence_(sequence),
        turn_(turn),
        groups_(kv.groups()),
        keys_(page_keys(index.identity, index.tokens)),
        saved_(static_cast<std::uint32_t>(index.tokens.size())),
        good_(index.pages.size()) {}

  void run(Restored& restored) {
    if (!find_pages()) {
      restored.problem = Error{"E_SESSION", "the session's pages cannot be used: some are missing"};
    }
    // A round ends with every page good, or with fewer good ones than before.
    std::uint32_t length = usable(std::min(saved_, kv_.context()));
    while (length > 0) {
      if (const Status placed = kv_.place(sequence_, length, entries_for(length)); !placed) {
        restored.problem = placed.error();
        return;
      }
      if (bring_back()) break;
      restored.problem =
          Error{"E_SESSION", "some of the session's pages are damaged and are computed again"};
      kv_.truncate(sequence_, 0);
      jobs_.clear();
      length = usable(length);
    }
    restored.tokens = length;
    if (length < saved_ && !restored.problem) {
      restored.problem = Error{
          "E_SESSION", fmt::format("{} of the session's {} tokens need no computing in a context "
                                   "of {}",
                                   length, saved_, kv_.context())};
    }
    for (const Job& job : jobs_) {
      (job.is_mapped ? restored.mapped_bytes : restored.read_bytes) +=
          groups_[job.group].page_bytes();
    }
  }

 private:
  // Marks the pages that lie within the file; false where some do not.
  bool find_pages() {
    const auto size = file_.size();
    bool all = index_.pages.size() == groups_.size() && size.has_value();
    for (std::size_t g = 0; all && g < groups_.size(); ++g) {
      good_[g].assign(keys_.size(), nullptr);
      const std::uint64_t bytes = groups_[g].page_bytes();
      for (const SavedPage& page : index_.pages[g]) {
        const bool lies_within = page.offset >= kAlignment && page.offset % kAlignment == 0 &&
                                 page.offset <= *size && bytes <= *size - page.offset;
        if (lies_within) good_[g][page.entry] = &page;
        all = all && lies_within;
      }
    }
    // A group without a list has no page.
    good_.resize(groups_.size());
    for (auto& pages : good_) pages.resize(keys_.size());
    return all;
  }

  bool is_end(std::uint32_t entry) const { return entry + 1 == keys_.size(); }
  // The position that the state in an entry is for.
  std::uint32_t state_end(std::uint32_t entry) const {
    return is_end(entry) ? saved_ : (entry + 1) * plan::kPageTokens;
  }

  // How much of the first `length` positions one group can give.
  std::uint32_t usable_in(std::size_t group, std::uint32_t length) const {
    const auto& good = good_[group];
    const auto end = static_cast<std::uint32_t>(ceil_div(length, plan::kPageTokens));
    if (groups_[group].kind == plan::CacheKind::state) {
      for (std::uint32_t entry = end; entry > 0; --entry) {
        if (good[entry - 1] != nullptr && state_end(entry - 1) <= length) {
          return state_end(entry - 1);
        }
      }
      return 0;
    }
    for (std::uint32_t entry = kv_.first_entry(group, length); entry < end; ++entry) {
      if (good[entry] == nullptr) return entry * plan::kPageTokens;
    }
    return length;
  }

  // The same for all groups: where one gives less, all must.
  std::uint32_t usable(std::uint32_t length) const {
    for (std::size_t agreed = 0; agreed < groups_.size() && length > 0;) {
      const std::uint32_t less = usable_in(agreed, length);
      agreed = less == length ? agreed + 1 : 0;
      length = less;
    }
    return length;
  }

  std::vector<std::vector<std::uint32_t>> entries_for(std::uint32_t length) {
    jobs_.clear();
    std::vector<std::vector<std::uint32_t>> entries(groups_.size());
    const auto end = static_cast<std::uint32_t>(ceil_div(length, plan::kPageTokens));
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const bool is_state = groups_[g].kind == plan::CacheKind::state;
      for (std::uint32_t entry = is_state ? 0 : kv_.first_entry(g, length); entry < end; ++entry) {
        if (good_[g][entry] == nullptr || (is_state && state_end(entry) > length)) continue;
        entries[g].push_back(entry);
      }
      // A hostile file may have any number of snapshots: the newest count.
      const std::size_t most = max_snapshots(groups_[g]) + 1;
      if (is_state && entries[g].size() > most) {
        entries[g].erase(entries[g].begin(), entries[g].end() - static_cast<std::ptrdiff_t>(most));
      }
      for (const std::uint32_t entry : entries[g]) jobs_.push_back({g, good_[g][entry]});
    }
    return entries;
  }

  // False when a page is not what was saved; it is good no more.
  bool bring_back() {
    std::uint64_t bytes = 0;
    for (const Job& job : jobs_) {
      bytes += groups_[job.group].page_bytes();
      // Before it is read, so that a file that is cut meanwhile is no SIGBUS.
      if (kv_.can_map(job.group)) kv_.set_mapped(sequence_, job.group, job.page->entry);
    }
    ThreadTeam team(bytes < kFewBytes ? 1 : std::min(physical_cores(), kMostThreads));
    next_job_ = 0;
    turn_.unlock();
    team.run([](void* self, int) { static_cast<Restorer*>(self)->work(); }, this);
    turn_.lock();
    // Another's run may have been told first.
    bool all = kv_.check_mapped().has_value() && !kv_.is_lost(sequence_);
    for (const Job& job : jobs_) {
      if (job.is_good) continue;
      good_[job.group][job.page->entry] = nullptr;
      all = false;
    }
    return all;
  }

  void work() {
    for (std::size_t i = next_job_++; i < jobs_.size(); i = next_job_++) {
      Job& job = jobs_[i];
      const std::span<std::byte> page = kv_.page(sequence_, job.group, job.page->entry);
      job.is_mapped = kv_.can_map(job.group) &&
                      file_.map_over(page.data(), job.page->offset, page.size()).has_value();
      const bool is_there =
          job.is_mapped || storage::read_at(file_, job.page->offset, page).has_value();
      job.is_good = is_there && page_checksum(page, keys_[job.page->entry]) == job.page->checksum;
    }
  }

  const KvIndex& index_;
  const storage::StateFile& file_;
  KvPages& kv_;
  SequenceId sequence_;
  std::unique_lock<FairMutex>& turn_;
  std::vector<plan::CacheGroup> groups_;
  std::vector<std::uint64_t> keys_;  // (pages)
  std::uint32_t saved_;
  std::vector<std::vector<const SavedPage*>> good_;  // (groups)(pages), null: not to be had
  std::vector<Job> jobs_;                            // of this round
  std::atomic<std::size_t> next_job_{0};
};

}  // namespace

void restore_pages(const KvIndex& index, const storage::StateFile& file, KvPages& kv,
                   SequenceId sequence, std::unique_lock<FairMutex>& turn, Restored& restored) {
  Restorer(index, file, kv, sequence, turn).run(restored);
}

}  // namespace orrery::engine
