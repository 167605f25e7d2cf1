#include "storage/ready_pages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/topology.hpp"
#include "storage/limits.hpp"

namespace orrery::storage {
namespace {

constexpr double kWarm = 0.9;  // of the bytes in the page cache: a warm file
// Small pages that are there make the kernel read all that is near them into small ones: a few
// are dropped first.
constexpr double kFew = 0.25;
constexpr double kHugeEnough = 0.5;               // of the cached ones in huge pages
constexpr std::uint64_t kTrialBytes = 32 * kMiB;  // read again to see what it brings
constexpr double kMostSeconds = 2;                // that reading again may take, by the trial

double part_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return fmt::format("{:.0f}%", 100 * part_of(part, whole));
}

void drop_all(const Checkpoint& checkpoint) {
  for (const auto& file : checkpoint.mappings()) file->drop_cached(file->bytes());
}

void fetch_all(const Checkpoint& checkpoint) {
  for (const auto& file : checkpoint.mappings()) file->fetch(file->bytes());
}

// Reads the first part of the largest file again. Empty when the rest should follow, else why not.
std::string try_again(const Checkpoint& checkpoint, const PageUse& before) {
  const auto files = checkpoint.mappings();
  const MappedFile& file = **std::max_element(
      files.begin(), files.end(),
      [](const auto& a, const auto& b) { return a->bytes().size() < b->bytes().size(); });
  const std::uint64_t bytes = std::min<std::uint64_t>(file.bytes().size(), kTrialBytes);
  const auto part = file.bytes().first(bytes);
  file.drop_cached(part);
  const PageUse dropped = page_use(checkpoint);
  if (dropped.cached + bytes / 2 > before.cached) {
    return "other programs use them, or they are not on the disk yet";
  }
  const double start = now_seconds();
  file.fetch(part);
  file.wait_fetched();
  const double seconds = now_seconds() - start;
  const PageUse after = page_use(checkpoint);
  if (after.huge < dropped.huge + bytes / 2) return "this file system makes no others";
  const double left = seconds * part_of(before.bytes - bytes, bytes);
  if (left > kMostSeconds) return fmt::format("reading them again would take {:.0f} s", left);
  return "";
}

std::string mend(const Checkpoint& checkpoint, const PageUse& before) {
  const std::string refusal = try_again(checkpoint, before);
  if (!refusal.empty()) return "mapped in small pages: " + refusal;
  drop_all(checkpoint);
  fetch_all(checkpoint);
  return "mapped; it lay in small pages and is read again into huge ones";
}

}  // namespace

PageUse page_use(const Checkpoint& checkpoint) {
  PageUse sum;
  for (const auto& file : checkpoint.mappings()) {
    const PageUse use = file->page_use();
    sum.bytes += use.bytes;
    sum.cached += use.cached;
    sum.huge += use.huge;
  }
  return sum;
}

std::string to_text(const PageUse& use) {
  return fmt::format("{} of {} MiB in the page cache, {} of that in huge pages", use.cached / kMiB,
                     use.bytes / kMiB, percent(use.huge, use.cached));
}

std::string ready_pages(const Checkpoint& checkpoint, bool is_read_once) {
  std::uint64_t bytes = 0;
  for (const auto& file : checkpoint.mappings()) bytes += file->bytes().size();
  if (bytes < kTrialBytes) return "mapped";  // not worth the look
  const PageUse use = page_use(checkpoint);
  if (use.bytes == 0) return "in memory of its own";
  if (part_of(use.cached, use.bytes) < kWarm) {
    if (use.bytes > available_memory()) return "mapped, read as it is used: larger than memory";
    if (part_of(use.cached, use.bytes) < kFew && part_of(use.huge, use.cached) < kHugeEnough) {
      drop_all(checkpoint);
    }
    fetch_all(checkpoint);
    return fmt::format("mapped, {} in the page cache, the rest read ahead",
                       percent(use.cached, use.bytes));
  }
  if (part_of(use.huge, use.cached) >= kHugeEnough) {
    return fmt::format("mapped, {} in huge pages", percent(use.huge, use.cached));
  }
  if (is_read_once) return "mapped in small pages, which are read once";
  return mend(checkpoint, use);
}

}  // namespace orrery::storage
