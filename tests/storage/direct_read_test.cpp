// Files read past the page cache: by every way that this system has, with every fault.
#include "storage/direct_read.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <vector>

#include "memory/region.hpp"
#include "storage/open_file.hpp"
#include "support/memory_io.hpp"
#include "support/temp_dir.hpp"

namespace orrery::storage {
namespace {

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 2654435761U >> 13U);
  return text;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Answers a read as the test says; without a say, with all that was asked for.
class ScriptedFile final : public DirectFile {
 public:
  explicit ScriptedFile(std::string text) : text_(std::move(text)) {}
  std::deque<std::int64_t> answers;  // bytes at most, or a negative errno; one for each read
  bool unchanged = true;
  std::size_t most_running = 0;

  std::uint64_t size() const override { return text_.size(); }
  std::string_view way() const override { return "script"; }
  Status start(std::uint32_t id, std::uint64_t offset, std::span<std::byte> into) override {
    EXPECT_EQ(offset % kDirectAlignment, 0U);
    EXPECT_EQ(into.size() % kDirectAlignment, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(into.data()) % kDirectAlignment, 0U);
    std::int64_t n = static_cast<std::int64_t>(
        std::min<std::uint64_t>(into.size(), text_.size() - std::min(offset, text_.size())));
    if (!answers.empty()) {
      n = std::min(n, answers.front());
      answers.pop_front();
    }
    if (n > 0) std::memcpy(into.data(), text_.data() + offset, static_cast<std::size_t>(n));
    running_.push_back({id, n});
    most_running = std::max(most_running, running_.size());
    return {};
  }
  Result<Done> wait() override {
    const Done done = running_.back();
    running_.pop_back();
    return done;
  }
  bool is_unchanged() const override { return unchanged; }

 private:
  std::string text_;
  std::vector<Done> running_;
};

// What read_directly says, "" for the right bytes.
std::string outcome(ScriptedFile& file, const std::string& text) {
  const auto target = memory::Region::map((text.size() + 4095) / 4096 * 4096);
  EXPECT_TRUE(target.has_value());
  const Status status = read_directly(file, {target->data(), target->size()}, "m");
  if (!status) return std::string(status.error().kind) + " " + status.error().message;
  EXPECT_EQ(text_of({target->data(), text.size()}), text);
  return "";
}

TEST(DirectRead, SixteenRequestsAreUnderWay) {
  const std::string text = pattern((20U << 20U) + 5);
  ScriptedFile file(text);
  EXPECT_EQ(outcome(file, text), "");
  EXPECT_EQ(file.most_running, 16U);
}

TEST(DirectRead, ShortReadsAndInterruptionsAreResumed) {
  const std::string text = pattern((3U << 20U) + 4097);
  for (const std::int64_t answer : {std::int64_t{4096}, std::int64_t{5000}, std::int64_t{100},
                                    std::int64_t{-EINTR}, std::int64_t{-EAGAIN}}) {
    ScriptedFile file(text);
    file.answers = {answer, answer, answer};
    EXPECT_EQ(outcome(file, text), "") << answer;
  }
}

TEST(DirectRead, RetriesAreBounded) {
  const std::string text = pattern(1U << 20U);
  ScriptedFile busy(text);
  busy.answers.assign(100, -EAGAIN);
  EXPECT_EQ(outcome(busy, text), "E_IO m: at byte 0: the read was put off 4 times");
  ScriptedFile cut(text);
  cut.answers.assign(100, 0);
  cut.answers.front() = 8192 + 7;
  EXPECT_EQ(outcome(cut, text),
            "E_CHANGED m: ends at byte 8192 of 1048576, it was cut while it was read");
}

TEST(DirectRead, AFailingDiskIsAnErrorWithTheByte) {
  const std::string text = pattern(3U << 20U);
  ScriptedFile file(text);
  file.answers = {1 << 20, -EIO};
  EXPECT_EQ(outcome(file, text), "E_IO m: at byte 1048576: cannot read: Input/output error");
}

TEST(DirectRead, AFileThatChangedIsAnError) {
  const std::string text = pattern(4096);
  ScriptedFile file(text);
  file.unchanged = false;
  EXPECT_EQ(outcome(file, text), "E_CHANGED m: was written to while it was read; try again");
}

TEST(DirectRead, EveryCallThatFailsIsAnErrorAndTheNextLoadIsWhole) {
  test::MemoryIo io;
  io.files["m"] = pattern((18U << 20U) + 1);
  int k = 1;
  for (; k < 200; ++k) {
    io.calls = 0;
    io.fail_call = k;
    DirectIo direct(io, false);
    const auto loaded = direct.map("m");
    if (io.calls < k) break;
    EXPECT_FALSE(loaded.has_value()) << k;
  }
  EXPECT_EQ(k, 3 + 2 * 19 + 1);  // info, open, unchanged; start and end of 19 requests
  io.fail_call = 0;
  DirectIo direct(io, false);
  const auto loaded = direct.map("m");
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(text_of((*loaded)->bytes()), io.files["m"]);
  EXPECT_EQ(direct.way().rfind("read by memory into a sealed memory file", 0), 0U) << direct.way();
}

TEST(DirectRead, SmallFilesAreMapped) {
  test::MemoryIo io;
  io.files["m"] = pattern(DirectIo::kLeastDirect - 1);
  DirectIo direct(io, false);
  ASSERT_TRUE(direct.map("m").has_value());
  EXPECT_EQ(direct.way(), "");
}

TEST(DirectRead, AFileLargerThanMemoryIsRefused) {
  const test::TempDir folder;
  const std::string path = folder.write("m", "sparse");
  if (::truncate(path.c_str(), off_t{1} << 43U) != 0) GTEST_SKIP() << "no files of 8 TiB here";
  DirectIo direct(system_io(), false);
  EXPECT_EQ(direct.map(path).error().kind, "E_MEMORY");
}

// Real files, at sizes around a block and a request.
std::string load(DirectFile& file) {
  const auto target = memory::Region::map((file.size() + 4095) / 4096 * 4096);
  const Status status = read_directly(file, {target->data(), target->size()}, "m");
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return std::string(text_of({target->data(), file.size()}));
}

constexpr std::size_t kSizes[] = {
    1, 4095, 4096, 4097, 1U << 20U, (1U << 20U) + 1, (17U << 20U) - 1, 17U << 20U};

TEST(DirectFile, ThisSystemsBestWayGivesTheBytes) {
  const test::TempDir folder;
  for (const std::size_t size : kSizes) {
    const std::string text = pattern(size);
    const auto file = system_io().open_direct(folder.write("m", text), kDirectDepth);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ(load(**file), text) << (*file)->way();
  }
}

TEST(DirectFile, ThreadsGiveTheBytesThroughThePageCacheAndPastIt) {
  const test::TempDir folder;
  for (const std::size_t size : kSizes) {
    const std::string text = pattern(size);
    auto opened = open_regular(folder.write("m", text));
    ASSERT_TRUE(opened.has_value());
    const auto file = make_threads_file(std::move(*opened), false, kDirectDepth);
    ASSERT_TRUE(file.has_value());
    EXPECT_EQ((*file)->way(), "threads through the page cache");
    EXPECT_EQ(load(**file), text);
  }
}

// The filter of many sandboxes and containers.
bool forbid_io_uring() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {std::size(rules), rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(DirectFile, WithoutIoUringThreadsRead) {
  const test::TempDir folder;
  const std::string text = pattern((3U << 20U) + 5);
  const std::string path = folder.write("m", text);
  const auto read_in_sandbox = [&] {
    if (!forbid_io_uring()) ::_exit(77);
    const auto file = system_io().open_direct(path, kDirectDepth);
    const bool by_threads = file && (*file)->way().starts_with("threads");
    ::_exit(by_threads && load(**file) == text ? 0 : 1);
  };
  EXPECT_EXIT(read_in_sandbox(), testing::ExitedWithCode(0), "");
}

TEST(DirectFile, FileSystemsWithoutDirectReadsAreReadThroughTheCache) {
  // tmpfs refuses O_DIRECT on older kernels; both ways give the bytes.
  const std::string path = "/dev/shm/orrery-direct-" + std::to_string(::getpid());
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  if (fd < 0) GTEST_SKIP() << "no /dev/shm to write to";
  const std::string text = pattern((1U << 20U) + 77);
  const ssize_t written = ::write(fd, text.data(), text.size());
  ::close(fd);
  const auto file = system_io().open_direct(path, kDirectDepth);
  ::unlink(path.c_str());
  ASSERT_EQ(written, static_cast<ssize_t>(text.size()));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(load(**file), text);
}

TEST(DirectFile, AWriterIsNoticed) {
  const test::TempDir folder;
  const std::string path = folder.write("m", pattern(5000));
  const auto file = system_io().open_direct(path, kDirectDepth);
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE((*file)->is_unchanged());
  ASSERT_EQ(::truncate(path.c_str(), 4000), 0);
  EXPECT_FALSE((*file)->is_unchanged());
}

TEST(DirectFile, OnlyRegularFilesAreRead) {
  EXPECT_EQ(system_io().open_direct("/dev/zero", 1).error().kind, "E_NOTFILE");
  EXPECT_EQ(system_io().open_direct("/nowhere", 1).error().kind, "E_NOTFOUND");
}

}  // namespace
}  // namespace orrery::storage
