#include "storage/direct_read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "base/checked.hpp"
#include "memory/shared_surface.hpp"
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
  LoadedFile(std::shared_ptr<memory::SharedSurface> memory, std::uint64_t size)
      : memory_(std::move(memory)), size_(size) {}
  std::span<const std::byte> bytes() const override { return {memory_->data(), size_}; }

 private:
  std::shared_ptr<memory::SharedSurface> memory_;
  std::uint64_t size_;
};

// Of this version of this file; empty where it is no file of the system's.
std::string name_of(const std::string& path, const FileInfo& found) {
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  if (error) return "";
  return fmt::format("file-{:016x}-{:x}-{:x}", std::hash<std::string>()(real), found.size,
                     found.modified_ns);
}

}  // namespace

Status read_directly(DirectFile& file, std::span<std::byte> target, std::string_view label) {
  return Reading(file, target, label).run();
}

Result<std::unique_ptr<MappedFile>> DirectIo::map(const std::string& path) {
  ORRERY_TRY(const FileInfo found, io_.info(path));
  const std::uint64_t least = must_seal_ ? 1 : kLeastDirect;
  if (found.kind != FileKind::regular || found.size < least) return io_.map(path);
  ORRERY_TRY(const auto memory, memory::SharedSurface::open(
                                    name_of(path, found), align_up(found.size, kDirectAlignment)));
  std::string reader;
  const auto read = [&]() -> Status {
    ORRERY_TRY(const auto file, io_.open_direct(path, kDirectDepth));
    if (file->size() != found.size) {
      return fail("E_CHANGED", file_label(path) + ": changed while it was opened; try again");
    }
    reader = fmt::format("read by {} into a ", file->way());
    return read_directly(*file, {memory->data(), memory->bytes().size()}, file_label(path));
  };
  const Status ready = memory->ready(read, [] { return true; }, must_seal_);
  if (!ready && ready.error().kind == "E_MEMORY") {
    return fail("E_MEMORY", fmt::format("{}: {}; map it instead (--load map)", file_label(path),
                                        ready.error().message));
  }
  if (!ready) return std::unexpected(ready.error());
  way_ = reader + memory->how();
  return std::make_unique<LoadedFile>(memory, found.size);
}

}  // namespace orrery::storage
