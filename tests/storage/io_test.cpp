// The real file system: only regular files are mapped, and nothing blocks.
#include "storage/io.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "storage/checkpoint.hpp"
#include "support/temp_dir.hpp"

namespace orrery::storage {
namespace {

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string map_kind(const std::string& path) {
  const auto start = std::chrono::steady_clock::now();
  const auto mapped = system_io().map(path);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  return mapped ? "" : std::string(mapped.error().kind);
}

TEST(SystemIo, MapsAtAHugePageCongruentAddress) {
  const test::TempDir folder;
  for (const std::size_t size : {1UL, 4095UL, 4096UL, 4097UL, (2UL << 20) + 1, 5UL << 20}) {
    const std::string text(size, 'm');
    const auto mapped = system_io().map(folder.write("m", text));
    ASSERT_TRUE(mapped) << mapped.error().message;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*mapped)->bytes().data()) % (2UL << 20), 0U);
    EXPECT_EQ(text_of(**mapped), text);
  }
  const auto empty = system_io().map(folder.write("empty", ""));
  ASSERT_TRUE(empty);
  EXPECT_TRUE((*empty)->bytes().empty());
}

TEST(SystemIo, ReleasedPagesComeBackFromTheFile) {
  const test::TempDir folder;
  std::string text(5UL << 20, 'm');
  for (std::size_t i = 0; i < text.size(); i += 4096) text[i] = static_cast<char>(i >> 12U);
  const auto mapped = system_io().map(folder.write("m", text));
  ASSERT_TRUE(mapped) << mapped.error().message;
  ASSERT_EQ(text_of(**mapped), text);
  const auto bytes = (*mapped)->bytes();
  for (const auto part : {bytes, bytes.subspan(100, 50), bytes.subspan(4097, 1UL << 20),
                          bytes.subspan(bytes.size()), bytes.subspan(4096, 4096)}) {
    (*mapped)->release(part);
    EXPECT_EQ(text_of(**mapped), text);
  }
}

TEST(SystemIo, RefusesWhatIsNoRegularFile) {
  const test::TempDir folder;
  ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("loop", folder.file("loop").c_str()), 0);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, folder.file("socket").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(listener);
  EXPECT_EQ(map_kind(folder.path()), "E_NOTFILE");
  EXPECT_EQ(map_kind(folder.file("fifo")), "E_NOTFILE");
  EXPECT_EQ(map_kind(folder.file("socket")), "E_NOTFILE");
  EXPECT_EQ(map_kind("/dev/zero"), "E_NOTFILE");
  EXPECT_EQ(map_kind("/dev/random"), "E_NOTFILE");
  EXPECT_EQ(map_kind(folder.file("loop")), "E_IO");
  EXPECT_EQ(map_kind(folder.file("absent")), "E_NOTFOUND");
  EXPECT_EQ(map_kind(folder.file(std::string(5000, 'n'))), "E_NOTFOUND");
  EXPECT_EQ(map_kind(std::string("a\0b", 3)), "E_NOTFOUND");
  if (::geteuid() != 0) {
    const std::string locked = folder.write("locked", "x");
    ::chmod(locked.c_str(), 0);
    EXPECT_EQ(map_kind(locked), "E_PERM");
  }
}

TEST(SystemIo, SpecialFilesDoNotOpenAsModels) {
  const test::TempDir folder;
  ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);
  for (const std::string& path :
       {folder.file("fifo"), std::string("/dev/zero"), std::string("/proc/self/mem")}) {
    const auto opened = Checkpoint::open(path, system_io());
    ASSERT_FALSE(opened);
    EXPECT_LE(opened.error().message.size(), 1024U);
  }
}

TEST(SystemIo, ReadsSmallFilesUpToALimit) {
  const test::TempDir folder;
  const std::string path = folder.write("t", "hello");
  EXPECT_EQ(system_io().read_file(path, 5).value_or(""), "hello");
  EXPECT_EQ(system_io().read_file(path, 4).error().kind, "E_TOOBIG");
  EXPECT_EQ(system_io().read_file(folder.path(), 4).error().kind, "E_NOTFILE");
}

TEST(SystemIo, ReplacesAndListsFiles) {
  const test::TempDir folder;
  ASSERT_TRUE(system_io().replace_file(folder.file("b"), "one"));
  ASSERT_TRUE(system_io().replace_file(folder.file("b"), "two"));
  folder.write("a/x", "");
  EXPECT_EQ(system_io().read_file(folder.file("b"), 100).value_or(""), "two");
  EXPECT_EQ(*system_io().list(folder.path()), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(system_io().is_directory(folder.file("a")));
  EXPECT_FALSE(system_io().is_directory(folder.file("b")));
  EXPECT_EQ(system_io().info(folder.file("b"))->size, 3U);
  EXPECT_EQ(system_io().replace_file(folder.file("absent/x"), "").error().kind, "E_NOTFOUND");
  EXPECT_EQ(system_io().list(folder.file("absent")).error().kind, "E_NOTFOUND");
}

}  // namespace
}  // namespace orrery::storage
