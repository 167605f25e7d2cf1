#include "storage/direct_read.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.hpp"
#include "base/topology.hpp"
#include "memory/region.hpp"
#include "storage/describe.hpp"

namespace orrery::storage {
namespace {

constexpr int kMostRetries = 3;  // of a request that brings nothing

// One place in the queue: a piece of the file that is being read.
struct Piece {
  std::uint64_t at = 0, end = 0;  // what is missing; end may lie past the end of the file
  int retries = 0;
};

class Reading {
 public:
  Reading(DirectFile& file, std::span<std::byte> target, std::string_view label)
      : file_(file), target_(target.data()), label_(label) {}

  Status run() {
    std::uint32_t running = 0;
    for (std::uint32_t id = 0; id < kDirectDepth && next_ < file_.size(); ++id, ++running) {
      ORRERY_TRY_VOID(take(id));
    }
    while (running > 0) {
      ORRERY_TRY(const DirectFile::Done done, file_.wait());
      if (done.id >= pieces_.size()) return fail("E_IO", "a read that nobody started has ended");
      ORRERY_TRY_VOID(account(pieces_[done.id], done.bytes));
      if (pieces_[done.id].at < std::min(pieces_[done.id].end, file_.size())) {
        ORRERY_TRY_VOID(start(done.id));
      } else if (next_ < file_.size()) {
        ORRERY_TRY_VOID(take(done.id));
      } else {
        --running;
      }
    }
    if (file_.is_unchanged()) return {};
    return fail("E_CHANGED",
                fmt::format("{}: was written to while it was read; try again", label_));
  }

 private:
  Status take(std::uint32_t id) {
    const std::uint64_t end = align_up(file_.size(), kDirectAlignment);
    pieces_[id] = {next_, std::min(next_ + kDirectRequest, end)};
    next_ = pieces_[id].end;
    return start(id);
  }

  Status start(std::uint32_t id) {
    const Piece& piece = pieces_[id];
    const Status started = file_.start(id, piece.at, {target_ + piece.at, piece.end - piece.at});
    if (!started) return fail_in(label_, started.error());
    return {};
  }

  // Moves the piece forward by what came. What ends within a block is read again from its start.
  Status account(Piece& piece, std::int64_t bytes) const {
    const bool again = bytes == -EINTR || bytes == -EAGAIN;
    if (bytes < 0 && !again) {
      return fail("E_IO", fmt::format("{}: at byte {}: cannot read: {}", label_, piece.at,
                                      std::strerror(static_cast<int>(-bytes))));
    }
    const std::uint64_t came = again ? 0 : static_cast<std::uint64_t>(bytes);
    if (came > piece.end - piece.at) return fail("E_IO", "a read brought more than was asked for");
    if (piece.at + came >= file_.size()) {
      piece.at = piece.end;
      return {};
    }
    const std::uint64_t blocks = came / kDirectAlignment * kDirectAlignment;
    piece.retries = blocks == 0 ? piece.retries + 1 : 0;
    piece.at += blocks;
    if (piece.retries <= kMostRetries) return {};
    if (again) {
      return fail("E_IO", fmt::format("{}: at byte {}: the read was put off {} times", label_,
                                      piece.at, piece.retries));
    }
    return fail("E_CHANGED", fmt::format("{}: ends at byte {} of {}, it was cut while it was read",
                                         label_, piece.at + came, file_.size()));
  }

  DirectFile& file_;
  std::byte* target_;
  std::string_view label_;
  std::array<Piece, kDirectDepth> pieces_ = {};
  std::uint64_t next_ = 0;  // first byte that nobody reads yet
};

// A file in memory of its own, which nothing can write to any more.
class LoadedFile final : public MappedFile {
 public:
  LoadedFile(memory::Region region, std::uint64_t size) : region_(std::move(region)), size_(size) {
    ::mprotect(region_.data(), align_up(size_, kDirectAlignment), PROT_READ);
  }
  std::span<const std::byte> bytes() const override { return {region_.data(), size_}; }

 private:
  memory::Region region_;
  std::uint64_t size_;
};

}  // namespace

Status read_directly(DirectFile& file, std::span<std::byte> target, std::string_view label) {
  return Reading(file, target, label).run();
}

Result<std::unique_ptr<MappedFile>> DirectIo::map(const std::string& path) {
  ORRERY_TRY(const FileInfo found, io_.info(path));
  if (found.kind != FileKind::regular || found.size < kLeastDirect) return io_.map(path);
  // Before the file: what is being read to lives longer than its reader.
  memory::Region region;
  ORRERY_TRY(const auto file, io_.open_direct(path, kDirectDepth));
  if (file->size() > available_memory()) {
    return fail("E_MEMORY", fmt::format("{}: has {} bytes, of memory {} are available; map it "
                                        "instead (--load map)",
                                        file_label(path), file->size(), available_memory()));
  }
  ORRERY_TRY(region, memory::Region::map(align_up(file->size(), kDirectAlignment)));
  ORRERY_TRY_VOID(read_directly(*file, {region.data(), region.size()}, file_label(path)));
  way_ = file->way();
  return std::make_unique<LoadedFile>(std::move(region), file->size());
}

}  // namespace orrery::storage
