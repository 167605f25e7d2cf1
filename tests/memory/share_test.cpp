#include "memory/share.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "memory/shared_surface.hpp"

namespace orrery::memory {
namespace {

constexpr std::uint64_t kBytes = 3 << 20;

// Of this test alone, however many run beside it.
std::string unique_name(const char* what) {
  return fmt::format("test-{}-{}", ::getpid(), what);
}

Surface sealed(std::byte value) {
  Surface surface = *Surface::reserve(Arena::process(), kBytes);
  EXPECT_TRUE(surface.make());
  std::memset(surface.data(), static_cast<int>(value), kBytes);
  EXPECT_TRUE(surface.seal());
  return surface;
}

// A process that runs `body` and then waits to be killed; it has said so once this returns.
class Process {
 public:
  explicit Process(const std::function<bool()>& body) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    id_ = ::fork();
    if (id_ == 0) {
      const char said = body() ? 'y' : 'n';
      if (::write(ends[1], &said, 1) == 1) ::pause();
      ::_exit(0);
    }
    ::close(ends[1]);
    char said = 'n';
    did_ = ::read(ends[0], &said, 1) == 1 && said == 'y';
    ::close(ends[0]);
  }
  ~Process() { kill(); }
  bool did() const { return did_; }
  int id() const { return id_; }
  void kill() {
    if (id_ == 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
    id_ = 0;
  }

 private:
  pid_t id_ = 0;
  bool did_ = false;
};

// Static, so that it lives until the process is killed.
bool own(const std::string& name, std::byte value) {
  static Surface surface = sealed(value);
  static Share share(name);
  if (share.receive(kBytes)) return false;
  share.publish(surface.file(), kBytes);
  return true;
}

TEST(Share, AnotherProcessGetsTheFileAndKeepsItWhenTheOwnerIsKilled) {
  const std::string name = unique_name("killed");
  Process owner([&] { return own(name, std::byte{42}); });
  ASSERT_TRUE(owner.did());
  Surface mine = *Surface::reserve(Arena::process(), kBytes);
  Share share(name);
  auto file = share.receive(kBytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(share.owner(), owner.id());
  ASSERT_TRUE(mine.adopt(std::move(*file)));
  share.publish(mine.file(), kBytes);
  EXPECT_EQ(mine.data()[0], std::byte{42});
  owner.kill();
  EXPECT_EQ(mine.data()[kBytes - 1], std::byte{42});
  // This process takes the owner's place: a third gets it from here.
  Process third([&] {
    for (int i = 0; i < 200; ++i) {
      Share asked(name);
      if (asked.receive(kBytes)) return asked.owner() == ::getppid();
      ::usleep(10'000);
    }
    return false;
  });
  EXPECT_TRUE(third.did());
}

TEST(Share, AnOwnerKilledBeforeItIsReadyLeavesTheWorkToTheNext) {
  const std::string name = unique_name("unready");
  Process owner([&] {
    static Share share(name);
    return !share.receive(kBytes);
  });
  ASSERT_TRUE(owner.did());
  Share next(name);
  owner.kill();
  EXPECT_FALSE(next.receive(kBytes));
  // The name is this process's now.
  const Surface surface = sealed(std::byte{1});
  next.publish(surface.file(), kBytes);
  Share after(name);
  EXPECT_TRUE(after.receive(kBytes));
}

TEST(Share, AnotherSizeIsAnotherFile) {
  const std::string name = unique_name("size");
  const Surface surface = sealed(std::byte{1});
  Share owner(name);
  owner.publish(surface.file(), kBytes);
  Share other(name);
  EXPECT_FALSE(other.receive(kBytes - 1));
}

TEST(Share, OnlyProcessesOfTheSameUserAreTrusted) {
  EXPECT_TRUE(is_same_user({.pid = 5, .uid = 1000, .gid = 7}, 1000));
  EXPECT_FALSE(is_same_user({.pid = 5, .uid = 1001, .gid = 7}, 1000));
  EXPECT_FALSE(is_same_user({.pid = 5, .uid = 0, .gid = 7}, 1000));
  EXPECT_FALSE(is_same_user({.pid = 0, .uid = 1000, .gid = 7}, 1000));
}

TEST(SharedSurface, IsFilledOnceInAProcess) {
  const std::string name = unique_name("once");
  int fills = 0;
  const auto fill = [&](SharedSurface& surface) {
    return surface.ready(
        [&]() -> Status {
          ++fills;
          surface.data()[0] = std::byte{8};
          return {};
        },
        [] { return true; }, true);
  };
  const auto a = *SharedSurface::open(name, kBytes);
  const auto b = *SharedSurface::open(name, kBytes);
  EXPECT_EQ(a, b);
  ASSERT_TRUE(fill(*a));
  ASSERT_TRUE(fill(*b));
  EXPECT_EQ(fills, 1);
  EXPECT_EQ(b->data()[0], std::byte{8});
  EXPECT_NE(*SharedSurface::open("", kBytes), *SharedSurface::open("", kBytes));
}

TEST(SharedSurface, AFillThatFailsIsDoneAgain) {
  const auto surface = *SharedSurface::open(unique_name("again"), kBytes);
  const auto right = [] { return true; };
  const auto fails = []() -> Status { return fail("E_IO", "the disk is gone"); };
  EXPECT_EQ(surface->ready(fails, right, false).error().kind, "E_IO");
  EXPECT_TRUE(surface->ready([]() -> Status { return {}; }, right, false));
  EXPECT_EQ(surface->data()[0], std::byte{0});
}

TEST(SharedSurface, WhatAnotherProcessMadeIsLookedAt) {
  for (const bool is_right : {true, false}) {
    const std::string name = unique_name(is_right ? "right" : "wrong");
    Process owner([&] { return own(name, std::byte{42}); });
    ASSERT_TRUE(owner.did());
    const auto surface = *SharedSurface::open(name, kBytes);
    ASSERT_TRUE(surface->ready(
        [&]() -> Status {
          surface->data()[0] = std::byte{7};
          return {};
        },
        [&] { return is_right; }, true));
    EXPECT_EQ(surface->how().contains(" of process "), is_right);
    EXPECT_EQ(surface->data()[0], is_right ? std::byte{42} : std::byte{7});
    EXPECT_EQ(surface->how().find("of process") != std::string::npos, is_right);
  }
}

}  // namespace
}  // namespace orrery::memory
