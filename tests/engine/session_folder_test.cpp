#include "engine/session_folder.hpp"

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace orrery::engine {
namespace {

TEST(SessionFolder, KnowsNames) {
  for (const char* name : {"a", "story-2_b.kv", "A.tmp.b", "0"}) {
    EXPECT_TRUE(is_session_name(name)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string(".a"), std::string("a/b"),
        std::string("a\0b", 3), std::string("a b"), std::string("\xC3\xA9"), std::string("a.tmp"),
        std::string("a\n"), std::string(kMostSessionName + 1, 'a')}) {
    EXPECT_FALSE(is_session_name(name)) << name;
  }
  EXPECT_TRUE(is_session_name(std::string(kMostSessionName, 'a')));
}

TEST(SessionFolder, RemovesWhatWasNotFinished) {
  const test::TempDir folder;
  folder.write("left.tmp", "half of it");
  folder.write("story", "all of it");
  const SessionFolder sessions(folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder.file("left.tmp")));
  EXPECT_TRUE(std::filesystem::exists(folder.file("story")));
  const SessionFolder missing(folder.file("none"));  // is made by the first save
  EXPECT_FALSE(std::filesystem::exists(folder.file("none")));
}

}  // namespace
}  // namespace orrery::engine
