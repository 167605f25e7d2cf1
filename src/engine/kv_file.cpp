#include "engine/kv_file.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "storage/byte_reader.hpp"
#include "storage/describe.hpp"

namespace orrery::engine {
namespace {

constexpr std::uint64_t kAlignment = 4096;
constexpr std::uint32_t kVersion = 1;
constexpr std::string_view kMagic = "ORRERYKV";
constexpr std::uint64_t kSlotSpacing = 512;  // slot i at 512 (i + 1): a sector of its own
constexpr std::uint64_t kLeastGarbage = std::uint64_t{4} << 20;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::array<std::byte, 24> make_header() {
  std::array<std::byte, 24> header{};
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  std::memcpy(header.data() + 8, &kVersion, sizeof kVersion);
  const std::uint64_t hash = XXH3_64bits(header.data(), 16);
  std::memcpy(header.data() + 16, &hash, sizeof hash);
  return header;
}

// The slot's four numbers and their hash.
using SlotNumbers = std::array<std::uint64_t, 5>;

}  // namespace

Result<std::unique_ptr<KvFile>> KvFile::open(storage::StateIo& io, const std::string& path) {
  std::unique_ptr<KvFile> file(new KvFile(io, path));
  auto opened = io.open(path);
  if (!opened && opened.error().kind == "E_NOTFOUND") return file;
  if (!opened) return std::unexpected(opened.error());
  file->file_ = std::move(*opened);
  const Status read = file->read();
  if (read) return file;
  if (read.error().kind != "E_SESSION") return std::unexpected(read.error());
  file->refusal_ = read.error();
  return file;
}

// E_SESSION: the file is a session that cannot be used.
Status KvFile::read() {
  const auto refuse = [&](std::string_view why) {
    return fail("E_SESSION", fmt::format("{}: is no session that can be used: {}",
                                         storage::file_label(path_), why));
  };
  ORRERY_TRY(const std::uint64_t size, file_->size());
  std::array<std::byte, 24> header{};
  ORRERY_TRY_VOID(
      storage::read_at(*file_, 0, std::span(header).first(std::min(size, header.size()))));
  if (size > 0 && std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) {
    return fail("E_FORMAT", fmt::format("{}: is something else than a session; choose another name",
                                        storage::file_label(path_)));
  }
  if (size < kAlignment) return refuse("it is cut short");
  const auto version = storage::load_at<std::uint32_t>(header, 8);
  if (version != kVersion) {
    return refuse(fmt::format("its format is {}, this program reads {}", version, kVersion));
  }
  if (header != make_header()) return refuse("its header is damaged");
  ORRERY_TRY_VOID(read_slots());
  if (!index_) return refuse("no save in it is whole");
  return {};
}

Status KvFile::read_slots() {
  struct Found {
    std::size_t slot;
    Slot value;
  };
  std::vector<Found> found;
  for (std::size_t i = 0; i < 2; ++i) {
    SlotNumbers numbers{};
    ORRERY_TRY_VOID(storage::read_at(*file_, kSlotSpacing * (i + 1),
                                     std::as_writable_bytes(std::span(numbers))));
    if (numbers[4] != XXH3_64bits(numbers.data(), 4 * sizeof numbers[0])) continue;
    found.push_back({i, {numbers[0], numbers[1], numbers[2], numbers[3]}});
  }
  std::ranges::sort(found, std::ranges::greater{}, [](const Found& f) { return f.value.commit; });
  if (!found.empty()) commit_ = found[0].value.commit;
  for (const Found& f : found) {
    const Status read = read_index(f.value.offset, f.value.bytes, f.value.hash);
    if (!read && read.error().kind != "E_SESSION") return read;
    slot_ = f.slot;
    if (read) break;
  }
  return {};
}

// Sets index_. E_SESSION where there is no whole one.
Status KvFile::read_index(std::uint64_t offset, std::uint64_t bytes, std::uint64_t hash) {
  ORRERY_TRY(const std::uint64_t size, file_->size());
  const std::string label = storage::file_label(path_);
  const auto refuse = [&] { return fail("E_SESSION", label + ": the index is damaged"); };
  if (offset % kAlignment != 0 || offset < kAlignment || offset > size || bytes > size - offset ||
      bytes > kMaxIndexBytes) {
    return refuse();
  }
  std::vector<std::byte> text(bytes);
  ORRERY_TRY_VOID(storage::read_at(*file_, offset, text));
  if (XXH3_64bits(text.data(), text.size()) != hash) return refuse();
  ORRERY_TRY(index_, decode_index(text, label));
  end_ = align_up(offset + bytes, kAlignment);
  return {};
}

Result<KvFile::Slot> KvFile::write_body(storage::StateFile& file, std::uint64_t& end, KvIndex& next,
                                        const PageBytes& bytes) {
  for (std::size_t g = 0; g < next.pages.size(); ++g) {
    for (std::size_t i = 0; i < next.pages[g].size(); ++i) {
      SavedPage& page = next.pages[g][i];
      if (page.offset != 0) continue;
      page.offset = end;
      ORRERY_TRY_VOID(storage::write_at(file, end, bytes[g][i]));
      end += align_up(bytes[g][i].size(), kAlignment);
    }
  }
  const std::string text = encode_index(next);
  ORRERY_TRY_VOID(storage::write_at(file, end, bytes_of(text)));
  const Slot slot{0, end, text.size(), XXH3_64bits(text.data(), text.size())};
  end = align_up(end + text.size(), kAlignment);
  return slot;
}

Status KvFile::write_slot(storage::StateFile& file, std::size_t slot, const Slot& value) {
  SlotNumbers numbers{value.commit, value.offset, value.bytes, value.hash, 0};
  numbers[4] = XXH3_64bits(numbers.data(), 4 * sizeof numbers[0]);
  return storage::write_at(file, kSlotSpacing * (slot + 1), std::as_bytes(std::span(numbers)));
}

bool KvFile::must_rewrite() const {
  return !index_ || is_uncertain_ || !file_->has_name() ||
         end_ - kAlignment > 2 * live_ + kLeastGarbage;
}

Status KvFile::commit(KvIndex next, const PageBytes& bytes) {
  ORRERY_CHECK(next.pages.size() == bytes.size());
  if (next.text.size() > kMaxSavedText || next.tokens.size() > kMaxSavedTokens) {
    return fail("E_TOOBIG",
                fmt::format("{}: the session is too long to be saved", storage::file_label(path_)));
  }
  live_ = 0;
  for (std::size_t g = 0; g < bytes.size(); ++g) {
    ORRERY_CHECK(next.pages[g].size() == bytes[g].size());
    for (const auto page : bytes[g]) live_ += align_up(page.size(), kAlignment);
  }
  ORRERY_TRY_VOID(must_rewrite() ? rewrite(next, bytes) : append(next, bytes));
  index_ = std::move(next);
  refusal_.reset();
  return {};
}

Status KvFile::append(KvIndex& next, const PageBytes& bytes) {
  std::uint64_t end = end_;
  Result<Slot> body = write_body(*file_, end, next, bytes);
  if (!body) {
    // What was written gives its room back; nothing names it.
    static_cast<void>(file_->resize(end_));
    return std::unexpected(body.error());
  }
  is_uncertain_ = true;
  ORRERY_TRY_VOID(file_->sync());
  body->commit = commit_ + 1;
  ORRERY_TRY_VOID(write_slot(*file_, 1 - slot_, *body));
  ORRERY_TRY_VOID(file_->sync());
  is_uncertain_ = false;
  slot_ = 1 - slot_;
  commit_ = body->commit;
  end_ = end;
  return {};
}

Status KvFile::rewrite(KvIndex& next, const PageBytes& bytes) {
  const bool replaces = file_ != nullptr && file_->has_name();
  ORRERY_TRY(auto file, io_.create(path_, replaces));
  for (auto& pages : next.pages) {
    for (SavedPage& page : pages) page.offset = 0;
  }
  std::uint64_t end = kAlignment;
  ORRERY_TRY(Slot slot, write_body(*file, end, next, bytes));
  slot.commit = commit_ + 1;
  ORRERY_TRY_VOID(storage::write_at(*file, 0, make_header()));
  ORRERY_TRY_VOID(write_slot(*file, 0, slot));
  if (Status named = file->take_name(); !named) {
    if (named.error().kind != "E_EXISTS") return named;
    return fail("E_BUSY", fmt::format("{}: another process made this session meanwhile",
                                      storage::file_label(path_)));
  }
  file_ = std::move(file);
  is_uncertain_ = false;
  slot_ = 0;
  commit_ = slot.commit;
  end_ = end;
  return {};
}

}  // namespace orrery::engine
