#include "server/web_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "support/paths.hpp"

namespace orrery::server {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

std::filesystem::path on_disk(const WebFile& file) {
  const std::string name(file.path == "/" ? "index.html" : file.path.substr(sizeof "/web"));
  return std::filesystem::path(test::source_dir()) / "web" / name;
}

TEST(WebFiles, HoldEveryFileOfTheFolderByteForByte) {
  std::set<std::filesystem::path> held;
  for (const WebFile& file : web_files()) {
    held.insert(on_disk(file));
    EXPECT_EQ(file.bytes, text_of(on_disk(file))) << file.path;
  }
  std::set<std::filesystem::path> there;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() + "/web")) {
    there.insert(entry.path());
  }
  EXPECT_EQ(held, there);
}

TEST(WebFiles, HaveTypesAndTagsOfTheirOwn) {
  std::set<std::string_view> tags;
  for (const WebFile& file : web_files()) {
    EXPECT_THAT(std::string(file.etag), testing::MatchesRegex("\"[0-9a-f]+\"")) << file.path;
    EXPECT_TRUE(tags.insert(file.etag).second) << file.path;
  }
  ASSERT_NE(find_web_file("/"), nullptr);
  EXPECT_EQ(find_web_file("/")->media_type, "text/html; charset=utf-8");
  ASSERT_NE(find_web_file("/web/icon.svg"), nullptr);
  EXPECT_EQ(find_web_file("/web/icon.svg")->media_type, "image/svg+xml");
}

TEST(WebFiles, OnlyTheExactPathFindsOne) {
  for (const char* path : {"", "index.html", "/index.html", "/web", "/web/", "/web//icon.svg",
                           "/web/../web/icon.svg", "/..%5c", "/web/%69con.svg", "/web/icon.svg?a",
                           "/web/../CMakeLists.txt", "/../../../../etc/passwd", "//"}) {
    EXPECT_EQ(find_web_file(path), nullptr) << path;
  }
}

}  // namespace
}  // namespace orrery::server
