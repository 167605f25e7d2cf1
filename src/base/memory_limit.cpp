#include "base/memory_limit.hpp"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <vector>

namespace orrery {
namespace {

// The names of one version's files.
struct Version {
  const char* mount;
  std::vector<const char*> limits;
  const char* usage;
  std::vector<std::string_view> cache;  // in memory.stat, of all cgroups below too
};
const Version kVersion1{"/sys/fs/cgroup/memory",
                        {"/memory.limit_in_bytes"},
                        "/memory.usage_in_bytes",
                        {"total_active_file", "total_inactive_file"}};
const Version kVersion2{"/sys/fs/cgroup",
                        {"/memory.max", "/memory.high"},
                        "/memory.current",
                        {"active_file", "inactive_file"}};

// The first number of a file, or `fallback` ("max" is no number).
unsigned long long read_number(const std::string& path, unsigned long long fallback) {
  std::ifstream file(path);
  unsigned long long value = 0;
  return file >> value ? value : fallback;
}

// The sum of the lines of a file "NAME NUMBER" with these names.
unsigned long long read_sum(const std::string& path, const std::vector<std::string_view>& names) {
  std::ifstream file(path);
  std::string name;
  unsigned long long value = 0, sum = 0;
  while (file >> name >> value) {
    if (std::ranges::find(names, name) != names.end()) sum += value;
  }
  return sum;
}

unsigned long long meminfo_available(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string key, unit;
  unsigned long long kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return 0;
}

// What one cgroup leaves, at most `most`.
unsigned long long left_in(const std::string& folder, const Version& version,
                           unsigned long long most) {
  unsigned long long limit = ~0ULL;
  for (const char* name : version.limits) {
    limit = std::min(limit, read_number(folder + name, limit));
  }
  if (limit == ~0ULL) return most;
  const unsigned long long usage = read_number(folder + version.usage, 0);
  const unsigned long long cache = read_sum(folder + "/memory.stat", version.cache);
  const unsigned long long taken = usage - std::min(usage, cache);
  return std::min(most, limit - std::min(limit, taken));
}

bool names_memory(std::string_view controllers) {
  return ("," + std::string(controllers) + ",").find(",memory,") != std::string::npos;
}

}  // namespace

unsigned long long memory_left(const std::string& root) {
  unsigned long long left = meminfo_available(root);
  // Lines "NUMBER:CONTROLLERS:PATH"; version 2 has no controllers. In a container the path may be
  // one that only the host has, and the mount shows the container's own: then that is asked alone.
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (!controllers.empty() && !names_memory(controllers)) continue;
    const Version& version = controllers.empty() ? kVersion2 : kVersion1;
    std::string path = line.substr(second + 1);
    if (path.find("/..") != std::string::npos) path.clear();  // outside of the namespace
    if (path == "/") path.clear();
    while (true) {
      left = left_in(root + version.mount + path, version, left);
      if (path.empty()) break;
      path.erase(std::min(path.rfind('/'), path.size() - 1));
    }
  }
  return left;
}

}  // namespace orrery
