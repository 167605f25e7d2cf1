#include "base/edit_distance.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("llama", "lamma"), 2U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("qwen2", "qwen3"), 1U);
}

}  // namespace
}  // namespace orrery
