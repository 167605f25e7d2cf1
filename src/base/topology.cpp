#include "base/topology.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "base/memory_limit.hpp"

namespace orrery {
namespace {

int read_int(const std::string& path, int fallback) {
  std::ifstream file(path);
  int value = fallback;
  if (!(file >> value)) return fallback;
  return value;
}

// The first number of a file, or `fallback`.
unsigned long long read_number(const char* path, unsigned long long fallback) {
  std::ifstream file(path);
  unsigned long long value = 0;
  return file >> value ? value : fallback;
}

}  // namespace

std::vector<int> available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(static_cast<std::size_t>(i), &set)) cpus.push_back(i);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

int physical_cores() {
  std::set<std::pair<int, int>> cores;
  for (const int cpu : available_cpus()) {
    const std::string base = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    cores.emplace(read_int(base + "physical_package_id", 0), read_int(base + "core_id", cpu));
  }
  return std::max(1, static_cast<int>(cores.size()));
}

bool pin_thread(int index) {
  const std::vector<int> cpus = available_cpus();
  if (index < 0 || static_cast<std::size_t>(index) >= cpus.size()) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpus[static_cast<std::size_t>(index)]), &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

unsigned long long available_memory() {
  return memory_left("");
}

unsigned long long last_level_cache() {
  // The C library tells the caches of all cores of the package together.
  return 1024 * read_number("/sys/devices/system/cpu/cpu0/cache/index3/size", 0);
}

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
#if defined(__aarch64__)
  return "aarch64";
#else
  return "x86-64";
#endif
}

}  // namespace orrery
