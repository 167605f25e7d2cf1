// Runs the program as a user would and keeps what it said.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/paths.hpp"

namespace orrery::test {

struct Outcome {
  int exit_code = -1;  // 128 + signal for a death by signal
  std::string out, err;
  double cpu_milliseconds = 0;    // of all its threads, in the kernel too
  std::uint64_t peak_memory = 0;  // bytes; at least what this process has when it starts the other
};

inline std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `environment` entries are NAME=VALUE, added to the process's own. kill -9 after so many seconds,
// unless it ended before; 0: never.
inline Outcome run_program(const std::vector<std::string>& arguments, const std::string& input = "",
                           const std::vector<std::string>& environment = {},
                           double kill_after = 0) {
  char folder[] = "/tmp/orrery-test-XXXXXX";
  if (mkdtemp(folder) == nullptr) return {};
  const std::string base = folder;
  std::ofstream(base + "/in", std::ios::binary) << input;
  const pid_t child = fork();
  if (child == 0) {
    for (const std::string& entry : environment) putenv(strdup(entry.c_str()));
    const auto redirect = [&](int to, const std::string& name, int flags) {
      const int file = open((base + name).c_str(), flags, 0600);
      if (file < 0 || dup2(file, to) < 0) _exit(126);
    };
    redirect(0, "/in", O_RDONLY);
    redirect(1, "/out", O_WRONLY | O_CREAT);
    redirect(2, "/err", O_WRONLY | O_CREAT);
    const std::string program_file = program();
    std::vector<char*> argv{const_cast<char*>(program_file.c_str())};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(program_file.c_str(), argv.data());
    _exit(127);
  }
  if (kill_after > 0) {
    usleep(static_cast<useconds_t>(1e6 * kill_after));
    kill(child, SIGKILL);
  }
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  Outcome outcome;
  const auto milliseconds = [](const timeval& t) {
    return 1e3 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_usec);
  };
  outcome.cpu_milliseconds = milliseconds(used.ru_utime) + milliseconds(used.ru_stime);
  outcome.peak_memory = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = slurp(base + "/out");
  outcome.err = slurp(base + "/err");
  std::filesystem::remove_all(base);
  return outcome;
}

}  // namespace orrery::test
