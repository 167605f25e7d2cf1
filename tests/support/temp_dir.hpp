// A folder that is removed with everything in it at the end of the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace orrery::test {

class TempDir {
 public:
  // In `parent`; without one where temporary files belong.
  explicit TempDir(const std::filesystem::path& parent = {}) {
    const auto where = parent.empty() ? std::filesystem::temp_directory_path() : parent;
    std::string pattern = (where / "orrery-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes a file, with the folders above it; returns its path.
  std::string write(std::string_view name, std::string_view bytes) const {
    const std::string target = file(name);
    std::filesystem::create_directories(std::filesystem::path(target).parent_path());
    std::ofstream(target, std::ios::binary) << bytes;
    return target;
  }

 private:
  std::string path_;
};

}  // namespace orrery::test
