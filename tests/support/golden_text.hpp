// Golden texts: tests/golden/NAME holds what a function printed when it was last looked at.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "support/paths.hpp"

namespace orrery::testing {

// With ORRERY_UPDATE_GOLDEN set, writes the file instead of comparing.
inline void expect_golden_text(const std::string& name, const std::string& text) {
  const std::string path = test::source_dir() + "/tests/golden/" + name;
  if (std::getenv("ORRERY_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path << " is absent; run with ORRERY_UPDATE_GOLDEN=1";
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
}

}  // namespace orrery::testing
