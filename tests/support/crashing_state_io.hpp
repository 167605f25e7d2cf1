// State files in memory whose machine can lose power: what was not synced is on the disk or not,
// sector by sector, in any order; a name that was not synced is there or not. And whose calls fail,
// are interrupted or do less than asked where a test wants it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/state_file.hpp"

namespace orrery::test {

class CrashingStateIo final : public storage::StateIo {
 public:
  static constexpr std::size_t kSector = 512;

  // The call (of those that write, sync, resize, create or name) that fails with this kind, counted
  // from 1; every later one too where `stays_broken`. Power is lost at that call where `is_crash`:
  // then nothing reaches the files any more.
  int fail_call = 0;
  std::string_view fail_kind = "E_IO";
  bool stays_broken = false;
  bool is_crash = false;
  bool is_hesitant = false;  // calls move a few bytes or are interrupted
  int calls = 0;
  // The same for the calls that read, map or ask for the size.
  int fail_read = 0;
  std::atomic<int> reads = 0;  // threads of a restore add to it

  // The machine starts again after a crash.
  void restart(std::uint32_t seed) {
    std::mt19937 rng(seed);
    if (loose_name_ && rng() % 2 == 0) {
      if (loose_name_->second == nullptr) {
        names_.erase(loose_name_->first);
      } else {
        names_[loose_name_->first] = loose_name_->second;
      }
    }
    loose_name_.reset();
    for (auto& [path, inode] : names_) inode->settle(rng);
    is_down_ = false;
    fail_call = calls = 0;
    held_.clear();
  }

  std::string content(const std::string& path) const { return names_.at(path)->now; }
  void set_content(const std::string& path, const std::string& bytes) {
    auto inode = std::make_shared<Inode>();
    inode->now = inode->disk = bytes;
    names_[path] = inode;
  }

  Result<std::unique_ptr<storage::StateFile>> open(const std::string& path) override {
    const auto found = names_.find(path);
    if (found == names_.end()) return fail("E_NOTFOUND", path + ": is not there");
    if (!held_.insert(found->second.get()).second) return fail("E_BUSY", path + ": is in use");
    return std::make_unique<File>(*this, found->second, path, true);
  }

  Result<std::unique_ptr<storage::StateFile>> create(const std::string& path,
                                                     bool replaces) override {
    ORRERY_TRY_VOID(step());
    return std::make_unique<File>(*this, std::make_shared<Inode>(), path, replaces);
  }

  Status remove(const std::string& path) override {
    ORRERY_TRY(const auto file, open(path));
    names_.erase(path);
    return {};
  }

 private:
  struct Inode {
    std::string now, disk;                // as a reader sees it; as it surely is on the disk
    std::set<std::size_t> loose_sectors;  // written and not synced

    // After a power cut: each loose sector is there or not.
    void settle(std::mt19937& rng) {
      std::string kept = disk;
      if (rng() % 2 == 0) kept.resize(std::max(kept.size(), now.size()));
      for (const std::size_t sector : loose_sectors) {
        const std::size_t begin = sector * kSector;
        if (rng() % 2 == 0 || begin >= kept.size() || begin >= now.size()) continue;
        const std::size_t n = std::min({kSector, kept.size() - begin, now.size() - begin});
        std::memcpy(kept.data() + begin, now.data() + begin, n);
      }
      now = disk = kept;
      loose_sectors.clear();
    }
    void sync() {
      disk = now;
      loose_sectors.clear();
    }
  };

  class File final : public storage::StateFile {
   public:
    File(CrashingStateIo& io, std::shared_ptr<Inode> inode, std::string path, bool replaces)
        : io_(io), inode_(std::move(inode)), path_(std::move(path)), replaces_(replaces) {
      io_.held_.insert(inode_.get());
    }
    ~File() override { io_.held_.erase(inode_.get()); }

    Result<std::uint64_t> size() const override {
      ORRERY_TRY_VOID(io_.look());
      return inode_->now.size();
    }
    Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> bytes) const override {
      ORRERY_TRY_VOID(io_.look());
      if (offset >= inode_->now.size()) return std::size_t{0};
      ORRERY_TRY(std::size_t n, io_.portion(bytes.size()));
      n = std::min<std::size_t>(n, inode_->now.size() - offset);
      std::memcpy(bytes.data(), inode_->now.data() + offset, n);
      return n;
    }
    Result<std::size_t> write_some(std::uint64_t offset,
                                   std::span<const std::byte> bytes) override {
      ORRERY_TRY_VOID(io_.step());
      ORRERY_TRY(const std::size_t n, io_.portion(bytes.size()));
      if (inode_->now.size() < offset + n) inode_->now.resize(offset + n);
      std::memcpy(inode_->now.data() + offset, bytes.data(), n);
      for (std::size_t at = offset / kSector; at * kSector < offset + n; ++at) {
        inode_->loose_sectors.insert(at);
      }
      return n;
    }
    Status resize(std::uint64_t bytes) override {
      ORRERY_TRY_VOID(io_.step());
      inode_->now.resize(bytes);
      return {};
    }
    Status sync() override {
      ORRERY_TRY_VOID(io_.step());
      inode_->sync();
      return {};
    }
    bool has_name() const override {
      const auto found = io_.names_.find(path_);
      return found != io_.names_.end() && found->second == inode_;
    }
    Status take_name() override {
      ORRERY_TRY_VOID(io_.step());
      inode_->sync();
      const auto old = io_.names_.find(path_);
      if (!replaces_ && old != io_.names_.end()) return fail("E_EXISTS", path_);
      io_.loose_name_ = {path_, old == io_.names_.end() ? nullptr : old->second};
      io_.names_[path_] = inode_;
      // The sync of the folder: if it fails, the name is there all the same, until power is lost.
      if (io_.step()) io_.loose_name_.reset();
      if (io_.is_down_) return fail("E_IO", "no power");
      return {};
    }
    Status map_over(std::byte* address, std::uint64_t offset, std::uint64_t bytes) const override {
      ORRERY_TRY_VOID(io_.look());
      std::memcpy(address, inode_->now.data() + offset, bytes);
      return {};
    }

   private:
    CrashingStateIo& io_;
    std::shared_ptr<Inode> inode_;
    std::string path_;
    bool replaces_;
  };

  Status step() {
    ++calls;
    const bool fails = fail_call > 0 && (calls == fail_call || (stays_broken && calls > fail_call));
    if (fails && is_crash) is_down_ = true;
    if (fails || is_down_) return fail(fail_kind, "as the test asked");
    return {};
  }

  Status look() {
    if (++reads == fail_read) return fail("E_IO", "as the test asked");
    return {};
  }

  Result<std::size_t> portion(std::size_t bytes) {
    if (!is_hesitant) return bytes;
    if (++hesitations_ % 3 == 0) return fail("E_INTERRUPTED", "interrupted");
    return std::min<std::size_t>(bytes, 1 + hesitations_ * 37 % 1000);
  }

  std::map<std::string, std::shared_ptr<Inode>> names_;
  std::optional<std::pair<std::string, std::shared_ptr<Inode>>> loose_name_;  // and what was there
  std::set<const Inode*> held_;
  bool is_down_ = false;
  std::size_t hesitations_ = 0;
};

}  // namespace orrery::test
