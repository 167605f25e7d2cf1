#include "memory/bus_guard.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <list>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "support/temp_dir.hpp"

namespace orrery::memory {
namespace {

constexpr std::size_t kPage = 4096;

// A file of `pages` pages of 'x', mapped as models are.
class MappedPages {
 public:
  explicit MappedPages(std::size_t pages) : size_(pages * kPage) {
    const std::string path = folder_.write("file", std::string(size_, 'x'));
    fd_ = ::open(path.c_str(), O_RDWR);
    void* start = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
    start_ = static_cast<const std::byte*>(start);
  }
  ~MappedPages() {
    ::munmap(const_cast<std::byte*>(start_), size_);
    ::close(fd_);
  }
  void cut(std::size_t pages) { ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(pages * kPage)), 0); }
  // The first pages of the file over memory.
  void map_private(char* address, std::size_t pages) const {
    ASSERT_EQ(
        ::mmap(address, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd_, 0),
        address);
  }
  char at(std::size_t page) const {
    return static_cast<char>(*static_cast<const volatile std::byte*>(start_ + page * kPage));
  }
  const std::byte* start() const { return start_; }
  std::size_t size() const { return size_; }

 private:
  test::TempDir folder_;
  std::size_t size_;
  int fd_ = -1;
  const std::byte* start_ = nullptr;
};

// Parts that are mapped each for itself, as pages of a cache are: one is lost, the others stay.
TEST(BusGuard, ALostPartIsWritableZerosAndTheOthersStay) {
  MappedPages file(8);
  void* pool =
      ::mmap(nullptr, 8 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pool, MAP_FAILED);
  auto* bytes = static_cast<volatile char*>(pool);
  for (std::size_t i = 0; i < 8 * kPage; i += kPage) bytes[i] = 'm';
  file.map_private(static_cast<char*>(pool) + 2 * kPage, 2);
  EXPECT_EQ(bytes[2 * kPage], 'x');
  BusGuard guard(static_cast<const std::byte*>(pool), 8 * kPage, 2 * kPage);
  file.cut(0);
  EXPECT_EQ(bytes[3 * kPage], '\0');
  EXPECT_TRUE(guard.was_hit());
  bytes[2 * kPage] = 'w';
  EXPECT_EQ(bytes[2 * kPage], 'w');
  for (const std::size_t page : {0U, 1U, 4U, 7U}) EXPECT_EQ(bytes[page * kPage], 'm') << page;
  guard.forget_hit();
  EXPECT_FALSE(guard.was_hit());
  ::munmap(pool, 8 * kPage);
}

TEST(BusGuard, LostPagesReadAsZerosAndAreTold) {
  MappedPages cut(8);
  MappedPages whole(8);
  const BusGuard guard(cut.start(), cut.size());
  const BusGuard other(whole.start(), whole.size());
  const std::uint32_t before = BusGuard::hits();
  EXPECT_EQ(cut.at(7), 'x');
  cut.cut(3);
  EXPECT_EQ(cut.at(2), 'x');
  EXPECT_FALSE(guard.was_hit());
  EXPECT_EQ(BusGuard::hits(), before);
  EXPECT_EQ(cut.at(5), '\0');
  EXPECT_TRUE(guard.was_hit());
  EXPECT_EQ(BusGuard::hits(), before + 1);
  EXPECT_EQ(cut.at(7), '\0');  // behind the first lost page: no fault of its own
  EXPECT_EQ(BusGuard::hits(), before + 1);
  EXPECT_EQ(cut.at(3), '\0');
  EXPECT_EQ(cut.at(2), 'x');
  EXPECT_EQ(whole.at(7), 'x');
  EXPECT_FALSE(other.was_hit());
}

TEST(BusGuard, AnUnevenEndCountsAsAPage) {
  MappedPages file(2);
  const BusGuard guard(file.start(), kPage + 1);
  file.cut(0);
  EXPECT_EQ(file.at(1), '\0');
  EXPECT_TRUE(guard.was_hit());
}

TEST(BusGuard, ThreadsMayFaultTogether) {
  MappedPages file(256);
  const BusGuard guard(file.start(), file.size());
  file.cut(0);
  std::vector<int> sums(4);
  std::vector<std::thread> threads;
  for (int& sum : sums) {
    threads.emplace_back([&] {
      for (std::size_t page = 256; page-- > 0;) sum += file.at(page);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0), 0);
  EXPECT_TRUE(guard.was_hit());
}

TEST(BusGuard, PlacesAreUsedAgainAndEnd) {
  MappedPages file(1);
  std::list<BusGuard> guards;
  while (guards.emplace_back(file.start(), file.size()).is_active()) {
    ASSERT_LE(guards.size(), BusGuard::kMost);
  }
  EXPECT_FALSE(guards.back().was_hit());
  guards.clear();
  file.cut(0);
  const BusGuard fresh(file.start(), file.size());
  EXPECT_TRUE(fresh.is_active());
  EXPECT_FALSE(fresh.was_hit());
  EXPECT_EQ(file.at(0), '\0');
  EXPECT_TRUE(fresh.was_hit());
}

TEST(BusGuardDeathTest, OtherFaultsAreStillFatal) {
  MappedPages file(2);
  {
    const BusGuard gone(file.start(), file.size());
  }
  file.cut(0);
  EXPECT_DEATH(file.at(1), "");
  EXPECT_DEATH(::raise(SIGBUS), "");
}

TEST(BusGuardDeathTest, OtherFaultsGoToTheHandlerBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process without a guard so far
  MappedPages file(2);
  EXPECT_EXIT(
      {
        ::signal(SIGBUS, [](int) { ::_exit(42); });
        MappedPages guarded(1);
        const BusGuard guard(guarded.start(), guarded.size());
        file.cut(0);
        file.at(1);
      },
      testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace orrery::memory
