// kill -9 at any moment of a save, for real: a process commits one version after another and says
// which; whoever opens the file afterwards finds the last one that was said, or the one after it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "engine/kv_versions.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

namespace orrery::engine {
namespace {

// In the child: commits from `version` on until it is killed.
[[noreturn]] void save_on(const std::string& path, int version, int said) {
  KvVersions versions(64 << 10);
  auto file = KvFile::open(storage::system_state_io(), path);
  if (!file) ::_exit(2);
  while (true) {
    if (!versions.commit(**file, version)) ::_exit(3);
    if (::write(said, &version, sizeof version) != sizeof version) ::_exit(4);
    version = version >= 12 ? 0 : version + 1;  // so that the file is made anew now and then
  }
}

TEST(KvFileKill, NoKillLosesACommit) {
  // In memory where that can be: a kill loses nothing that was written, and saves are many.
  const test::TempDir folder(std::filesystem::exists("/dev/shm") ? "/dev/shm" : "");
  const std::string path = folder.file("s");
  KvVersions versions(64 << 10);
  std::mt19937 rng(11);
  int last = -1, saves = 0;
  const int rounds = test::kSanitized ? 30 : 200;
  for (int round = 0; round < rounds; ++round) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_on(path, last >= 12 ? 0 : last + 1, pipe[1]);
    ::close(pipe[1]);
    // Some saves are waited for, however slow the machine is; the kill comes anywhere in the next.
    int said = last;
    for (auto waits = rng() % 3; waits > 0; --waits) {
      if (::read(pipe[0], &said, sizeof said) == sizeof said) ++saves;
    }
    ::usleep(static_cast<useconds_t>(rng() % 5000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself with " << WEXITSTATUS(status);
    while (::read(pipe[0], &said, sizeof said) == sizeof said) ++saves;
    ::close(pipe[0]);

    const auto file = KvFile::open(storage::system_state_io(), path);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_FALSE((*file)->refusal()) << (*file)->refusal()->message;
    const int found = versions.version_of(**file);
    ASSERT_TRUE(found == said || found == (said >= 12 ? 0 : said + 1)) << said << " " << found;
    last = found;
  }
  EXPECT_GT(saves, rounds / 2);
}

}  // namespace
}  // namespace orrery::engine
