// What is left of memory where a stand-in for the system's files says how much there is.
#include "base/memory_limit.hpp"

#include <gtest/gtest.h>

#include "base/topology.hpp"
#include "support/temp_dir.hpp"

namespace orrery {
namespace {

constexpr unsigned long long kMiB = 1ULL << 20;

class MemoryLeft : public testing::Test {
 protected:
  MemoryLeft() {
    root_.write("proc/meminfo",
                "MemTotal:  9000 kB\nHugePages_Total: 7\nMemAvailable: 1048576 kB\nX: 1 kB\n");
  }
  void process_is_in(const std::string& lines) { root_.write("proc/self/cgroup", lines); }
  void set(const std::string& file, const std::string& text) {
    root_.write("sys/fs/cgroup/" + file, text + "\n");
  }
  unsigned long long left_mib() const { return memory_left(root_.path()) / kMiB; }

  test::TempDir root_;
};

TEST_F(MemoryLeft, WithoutCgroupsItIsWhatTheMachineHas) {
  EXPECT_EQ(left_mib(), 1024U);
  process_is_in("0::/\n");
  EXPECT_EQ(left_mib(), 1024U);
}

TEST_F(MemoryLeft, ALimitOfVersion2) {
  process_is_in("0::/user/app\n");
  set("user/app/memory.max", "max");
  set("user/app/memory.high", "max");
  EXPECT_EQ(left_mib(), 1024U);
  set("user/app/memory.max", std::to_string(600 * kMiB));
  EXPECT_EQ(left_mib(), 600U);
  set("user/app/memory.high", std::to_string(500 * kMiB));
  EXPECT_EQ(left_mib(), 500U);
  set("user/memory.max", std::to_string(400 * kMiB));  // of the one above
  EXPECT_EQ(left_mib(), 400U);
  set("memory.max", std::to_string(300 * kMiB));  // a container's own root
  EXPECT_EQ(left_mib(), 300U);
}

TEST_F(MemoryLeft, WhatIsTakenIsNotLeftButThePageCacheIs) {
  process_is_in("0::/app\n");
  set("app/memory.max", std::to_string(600 * kMiB));
  set("app/memory.current", std::to_string(500 * kMiB));
  EXPECT_EQ(left_mib(), 100U);
  set("app/memory.stat", "anon 1\nactive_file " + std::to_string(100 * kMiB) + "\ninactive_file " +
                             std::to_string(50 * kMiB));
  EXPECT_EQ(left_mib(), 250U);
  set("app/memory.current", std::to_string(900 * kMiB));
  EXPECT_EQ(left_mib(), 0U);
}

TEST_F(MemoryLeft, ALimitOfVersion1) {
  process_is_in("5:cpu,cpuacct:/a\n4:hugetlb,memory:/box/a\n0::/\n");
  set("memory/box/a/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(left_mib(), 1024U);
  set("memory/box/memory.limit_in_bytes", std::to_string(700 * kMiB));
  set("memory/box/memory.usage_in_bytes", std::to_string(300 * kMiB));
  set("memory/box/memory.stat", "active_file 1\ntotal_active_file " + std::to_string(200 * kMiB));
  EXPECT_EQ(left_mib(), 600U);
}

TEST_F(MemoryLeft, APathThatOnlyTheHostHasLeavesTheRoot) {
  process_is_in("0::/../docker/1234\n");
  set("memory.max", std::to_string(200 * kMiB));
  EXPECT_EQ(left_mib(), 200U);
  process_is_in("0:nonsense\nmore\n:::\n0::docker\n");
  EXPECT_EQ(left_mib(), 200U);
}

TEST(AvailableMemory, ThisMachineHasSome) {
  EXPECT_GT(available_memory(), 0U);
}

}  // namespace
}  // namespace orrery
