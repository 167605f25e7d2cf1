#include "memory/surface.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "memory/huge_pages.hpp"
#include "memory/scripted_calls.hpp"

namespace orrery::memory {
namespace {

using test::ScriptedCalls;

constexpr std::uint64_t kMib = 1 << 20;

TEST(Surface, OnceSealedNothingCanChangeIt) {
  Arena arena;
  Surface surface = *Surface::reserve(arena, 5 * kMib + 1);
  const std::byte* data = surface.data();
  ASSERT_TRUE(surface.make());
  std::memset(surface.data(), 3, surface.size());
  ASSERT_TRUE(surface.seal());
  EXPECT_TRUE(surface.is_sealed());
  EXPECT_EQ(surface.data(), data);
  EXPECT_EQ(surface.data()[5 * kMib], std::byte{3});
  const int fd = surface.file();
  EXPECT_EQ(::mprotect(surface.data(), 4096, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(::write(fd, "x", 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd, 0), -1);
  EXPECT_EQ(::ftruncate(fd, 1 << 30), -1);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(surface.data()[0], std::byte{3});
}

TEST(Surface, HasHugePagesWhereTheKernelMakesThem) {
  Arena arena;
  Surface surface = *Surface::reserve(arena, 8 * kMib);
  ASSERT_TRUE(surface.make());
  if (surface.what() != "memory file, huge pages") GTEST_SKIP() << surface.what();
  std::memset(surface.data(), 1, surface.size());
  EXPECT_EQ(huge_mapped({surface.data(), surface.size()}), 8 * kMib);
}

// What a device or a ring that has registered the buffer looks like: somebody holds a map that can
// be written to.
TEST(Surface, IsNotSealedWhileSomebodyMayWrite) {
  Arena arena;
  Surface surface = *Surface::reserve(arena, 2 * kMib);
  ASSERT_TRUE(surface.make());
  void* other = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, surface.file(), 0);
  ASSERT_NE(other, MAP_FAILED);
  const Status refused = surface.seal();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_BUSY");
  surface.data()[0] = std::byte{1};  // as before
  ::munmap(other, 4096);
  EXPECT_TRUE(surface.seal());
}

TEST(Surface, WithoutMemoryFilesIsPrivateAndProtected) {
  ScriptedCalls calls;
  calls.has_memory_files = false;
  Arena arena(calls);
  Surface surface = *Surface::reserve(arena, 3 * kMib);
  ASSERT_TRUE(surface.make());
  surface.data()[5] = std::byte{5};
  EXPECT_TRUE(surface.seal());
  EXPECT_FALSE(surface.is_sealed());
  EXPECT_EQ(surface.file(), -1);
  EXPECT_NE(surface.what().find("memory files are refused"), std::string::npos);
  EXPECT_DEATH(*static_cast<volatile std::byte*>(surface.data()) = std::byte{1}, "");
}

TEST(Surface, AdoptsOnlyWhatIsSealedAndHasTheSize) {
  Arena arena;
  Surface maker = *Surface::reserve(arena, 3 * kMib);
  ASSERT_TRUE(maker.make());
  maker.data()[7] = std::byte{7};
  Surface taker = *Surface::reserve(arena, 3 * kMib);
  const Status unsealed = taker.adopt(Descriptor(::dup(maker.file())));
  ASSERT_FALSE(unsealed);
  EXPECT_EQ(unsealed.error().kind, "E_SEAL");
  ASSERT_TRUE(maker.seal());
  Surface smaller = *Surface::reserve(arena, 2 * kMib);
  EXPECT_FALSE(smaller.adopt(Descriptor(::dup(maker.file()))));
  EXPECT_FALSE(taker.adopt(Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC))));
  EXPECT_FALSE(taker.adopt(Descriptor()));
  ASSERT_TRUE(taker.adopt(Descriptor(::dup(maker.file()))));
  EXPECT_EQ(taker.data()[7], std::byte{7});
  EXPECT_EQ(arena.use().shared, 6 * kMib);
}

}  // namespace
}  // namespace orrery::memory
