// What is done about the pages of a model when it is opened, and what is said.
#include "storage/ready_pages.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "memory/region.hpp"
#include "storage/limits.hpp"
#include "storage/loaded_checkpoint.hpp"
#include "support/temp_dir.hpp"

namespace orrery::storage {
namespace {

// The page cache and the disk of one file.
struct Pages {
  std::uint64_t cached = 0, huge = 0;
  bool known = true;       // they are pages of a file
  bool drops = true;       // nobody else uses the pages
  bool makes_huge = true;  // the file system's pages
  int fetches = 0;
};

class FakeFile final : public MappedFile {
 public:
  FakeFile(memory::Region region, Pages& pages) : region_(std::move(region)), pages_(pages) {}
  std::span<const std::byte> bytes() const override { return {region_.data(), region_.size()}; }
  PageUse page_use() const override {
    if (!pages_.known) return {};
    return {region_.size(), pages_.cached, pages_.huge};
  }
  void fetch(std::span<const std::byte> part) const override {
    ++pages_.fetches;
    const std::uint64_t come = std::min(part.size(), region_.size() - pages_.cached);
    pages_.cached += come;
    if (pages_.makes_huge) pages_.huge += come;
  }
  void drop_cached(std::span<const std::byte> part) const override {
    if (!pages_.drops) return;
    pages_.cached -= std::min(part.size(), pages_.cached);
    pages_.huge = std::min(pages_.huge, pages_.cached);
  }

 private:
  memory::Region region_;
  Pages& pages_;
};

constexpr std::uint64_t kSize = 100 * kMiB;

std::string say(Pages& pages, bool is_read_once = false, std::uint64_t size = kSize) {
  CheckpointParts parts;
  parts.files = {"m"};
  parts.mappings.push_back(std::make_unique<FakeFile>(*memory::Region::map(size), pages));
  const auto checkpoint = make_checkpoint(std::move(parts));
  return ready_pages(**checkpoint, is_read_once);
}

TEST(ReadyPages, AWarmFileInHugePagesIsLeftAlone) {
  Pages pages{.cached = kSize, .huge = 96 * kMiB};
  EXPECT_EQ(say(pages), "mapped, 96% in huge pages");
  EXPECT_EQ(pages.fetches, 0);
}

TEST(ReadyPages, AColdFileIsReadAhead) {
  Pages pages{.cached = 20 * kMiB};
  EXPECT_EQ(say(pages), "mapped, 20% in the page cache, the rest read ahead");
  EXPECT_EQ(pages.cached, kSize);
}

TEST(ReadyPages, AFewSmallPagesKeepNoOtherFromBeingHuge) {
  Pages few{.cached = 20 * kMiB};
  EXPECT_EQ(say(few), "mapped, 20% in the page cache, the rest read ahead");
  EXPECT_EQ(few.huge, kSize);
  Pages many{.cached = 30 * kMiB};  // too much to be read again
  EXPECT_EQ(say(many), "mapped, 30% in the page cache, the rest read ahead");
  EXPECT_EQ(many.huge, 70 * kMiB);
}

TEST(ReadyPages, SmallPagesAreReadAgain) {
  Pages pages{.cached = kSize};
  EXPECT_EQ(say(pages), "mapped; it lay in small pages and is read again into huge ones");
  EXPECT_EQ(pages.cached, kSize);
  EXPECT_EQ(pages.huge, kSize);
}

TEST(ReadyPages, SmallPagesStayWhereTheyAreReadOnce) {
  Pages pages{.cached = kSize};
  EXPECT_EQ(say(pages, true), "mapped in small pages, which are read once");
  EXPECT_EQ(pages.fetches, 0);
}

TEST(ReadyPages, SmallPagesStayWhereOthersUseThem) {
  Pages pages{.cached = kSize, .drops = false};
  EXPECT_EQ(say(pages),
            "mapped in small pages: other programs use them, or they are not on the disk yet");
  EXPECT_EQ(pages.fetches, 0);
}

TEST(ReadyPages, OnlyATrialIsReadAgainWhereTheFileSystemMakesNoHugePages) {
  Pages pages{.cached = kSize, .makes_huge = false};
  EXPECT_EQ(say(pages), "mapped in small pages: this file system makes no others");
  EXPECT_EQ(pages.fetches, 1);
  EXPECT_EQ(pages.cached, kSize);
}

TEST(ReadyPages, SmallFilesAndMemoryAreLeftAlone) {
  Pages pages{.cached = 5 * kMiB};
  EXPECT_EQ(say(pages, false, 5 * kMiB), "mapped");
  EXPECT_EQ(pages.fetches, 0);
  Pages memory{.known = false};
  EXPECT_EQ(say(memory), "in memory of its own");
  EXPECT_EQ(memory.fetches, 0);
}

TEST(ReadyPages, TextOfThePages) {
  EXPECT_EQ(to_text(PageUse{100 * kMiB, 50 * kMiB, 20 * kMiB}),
            "50 of 100 MiB in the page cache, 40% of that in huge pages");
}

// The real file system: what can be promised everywhere.
TEST(PageUse, AFileThatWasJustReadIsCachedAndADroppedOneComesBack) {
  const test::TempDir folder;
  std::string text(9U << 20U, 'm');
  for (std::size_t i = 0; i < text.size(); i += 4096) text[i] = static_cast<char>(i >> 12U);
  const auto mapped = system_io().map(folder.write("m", text));
  ASSERT_TRUE(mapped.has_value());
  const MappedFile& file = **mapped;
  EXPECT_EQ(file.page_use().bytes, text.size());
  EXPECT_EQ(file.page_use().cached, text.size());
  EXPECT_LE(file.page_use().huge, text.size());
  file.drop_cached(file.bytes());
  file.fetch(file.bytes());
  file.wait_fetched();
  EXPECT_EQ(file.page_use().cached, text.size());
  file.fetch(file.bytes().subspan(4097, 5U << 20U));
  file.drop_cached(file.bytes().subspan(100, 1U << 20U));  // ends what is being fetched
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(file.bytes().data()), text.size()),
            text);
}

TEST(PageUse, FetchingAFileThatWasCutIsHarmless) {
  const test::TempDir folder;
  const std::string path = folder.write("m", std::string(9U << 20U, 'm'));
  const auto mapped = system_io().map(path);
  ASSERT_TRUE(mapped.has_value());
  ASSERT_EQ(::truncate(path.c_str(), 5000), 0);
  (*mapped)->fetch((*mapped)->bytes());
  (*mapped)->wait_fetched();
  EXPECT_TRUE((*mapped)->is_whole());  // nobody has read what is gone
  EXPECT_FALSE((*mapped)->is_unchanged());
}

}  // namespace
}  // namespace orrery::storage
