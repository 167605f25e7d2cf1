// How the program refuses a bad file: one line, exit code 1, at once, and with little memory.
#pragma once

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/cpu_clock.hpp"
#include "support/process.hpp"

namespace orrery::cli {

// What the program takes before it looks at any file: its own pages and its libraries.
inline std::uint64_t bare_memory() {
  static const std::uint64_t bytes = [] {
    // Large blocks of this process go back at once: the memory of a child is never counted as
    // less than what its parent had, so a fat test could not see a thin program.
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    const std::uint64_t peak = test::run_program({"--version"}).peak_memory;
    EXPECT_TRUE(test::kSanitized || peak < (32U << 20)) << "too fat to measure others: " << peak;
    return peak;
  }();
  return bytes;
}

inline std::uint64_t bytes_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return fs::file_size(path, ignored);
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
  }
  return bytes;
}

struct Refusal {
  std::string kind;                  // "E_TRUNC"
  std::string says;                  // a part of the line
  double milliseconds = 100;         // of processor time
  std::uint64_t memory = 16U << 20;  // over the program's own and the file's size
};

// `path` is the file or folder that the command reads: its size is what the memory may grow by.
inline void expect_refused(const std::vector<std::string>& arguments, const std::string& path,
                           const Refusal& expected) {
  SCOPED_TRACE(testing::PrintToString(arguments).substr(0, 200));
  const std::uint64_t bare = bare_memory();
  const test::Outcome outcome = test::run_program(arguments);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  const std::string& line = outcome.err;
  EXPECT_EQ(line.rfind("error[" + expected.kind + "]: ", 0), 0U) << line;
  EXPECT_NE(line.find(expected.says), std::string::npos) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  EXPECT_TRUE(line.ends_with('\n')) << line;
  EXPECT_LE(line.size(), 1024U) << line;
  EXPECT_TRUE(std::all_of(line.begin(), line.end() - 1, [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F;
  })) << line;
  EXPECT_LT(outcome.cpu_milliseconds / test::slowdown(), expected.milliseconds);
  if (test::kSanitized) return;  // sanitizers take memory of their own
  EXPECT_LE(outcome.peak_memory, bare + bytes_of(path) + expected.memory);
}

}  // namespace orrery::cli
