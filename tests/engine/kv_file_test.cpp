// The session file by itself: what is committed comes back, whatever fails, is lost or is changed.
#include "engine/kv_file.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/kv_versions.hpp"
#include "support/crashing_state_io.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

namespace orrery::engine {
namespace {

using test::CrashingStateIo;

std::unique_ptr<KvFile> open(storage::StateIo& io, const std::string& path = "s") {
  auto file = KvFile::open(io, path);
  EXPECT_TRUE(file) << file.error().message;
  return file ? std::move(*file) : nullptr;
}

TEST(KvFile, EveryCommitComesBack) {
  CrashingStateIo io;
  KvVersions versions;
  EXPECT_EQ(versions.version_of(*open(io)), -1);
  for (const bool hesitant : {false, true}) {
    io.is_hesitant = hesitant;
    for (int v = 0; v < 6; ++v) {
      const auto file = open(io);
      ASSERT_TRUE(versions.commit(*file, v));
      EXPECT_EQ(versions.version_of(*file), v);
    }
    EXPECT_EQ(versions.version_of(*open(io)), 5);
  }
}

TEST(KvFile, TheRealFileSystemKeepsItForItsOwnerAlone) {
  const test::TempDir folder;
  const std::string path = folder.file("a/b/s");
  KvVersions versions;
  {
    const auto file = open(storage::system_state_io(), path);
    for (int v = 0; v < 3; ++v) ASSERT_TRUE(versions.commit(*file, v));
    const auto second = KvFile::open(storage::system_state_io(), path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, "E_BUSY");
  }
  EXPECT_EQ(versions.version_of(*open(storage::system_state_io(), path)), 2);
  namespace fs = std::filesystem;
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(fs::status(folder.file("a/b")).permissions(), fs::perms::owner_all);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.file("a/b")), {}), 1);
  fs::create_symlink(path, folder.file("link"));
  EXPECT_EQ(KvFile::open(storage::system_state_io(), folder.file("link")).error().kind,
            "E_NOTFILE");
}

TEST(KvFile, AFileThatVanishedOrCameMeanwhileIsSaid) {
  const test::TempDir folder;
  KvVersions versions;
  const auto a = open(storage::system_state_io(), folder.file("s"));
  const auto b = open(storage::system_state_io(), folder.file("s"));  // neither is there yet
  ASSERT_TRUE(versions.commit(*a, 0));
  const Status late = versions.commit(*b, 1);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, "E_BUSY");
  std::filesystem::remove(folder.file("s"));
  ASSERT_TRUE(versions.commit(*a, 1));  // a new file, whole
  EXPECT_TRUE(std::filesystem::exists(folder.file("s")));
  EXPECT_EQ(versions.version_of(*a), 1);
}

TEST(KvFile, SavingAgainWritesWhatIsNewAndGarbageStaysBounded) {
  CrashingStateIo io;
  KvVersions versions(std::uint64_t{256} << 10);
  const auto file = open(io);
  ASSERT_TRUE(versions.commit(*file, 10));  // 7 whole pages and a part of one
  const std::size_t first = io.content("s").size();
  ASSERT_TRUE(versions.commit(*file, 11));
  EXPECT_LT(io.content("s").size() - first, 3 * versions.page_bytes(0));
  std::size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(versions.commit(*file, 10 + i % 2));
    most = std::max(most, io.content("s").size());
  }
  EXPECT_LT(most, 4 * first + (8U << 20));
  EXPECT_EQ(versions.version_of(*file), 11);
}

// Fails the k-th call for every k of five saves: the last commit stands, the next save succeeds.
TEST(KvFile, EveryCallThatFailsLeavesTheLastCommit) {
  for (const bool stays_broken : {false, true}) {
    int failed = 1;
    for (int k = 1; failed > 0; ++k) {
      ASSERT_LT(k, 1000);
      CrashingStateIo io;
      io.fail_call = k;
      io.fail_kind = "E_DISKFULL";
      io.stays_broken = stays_broken;
      KvVersions versions;
      int committed = -1;
      failed = 0;
      {
        const auto file = open(io);
        for (int v = 0; v < 5; ++v) {
          const Status status = versions.commit(*file, v);
          if (status) committed = v;
          if (status) continue;
          EXPECT_EQ(status.error().kind, "E_DISKFULL");
          EXPECT_EQ(versions.version_of(*file), committed) << k;
          ++failed;
        }
      }
      io.fail_call = 0;
      const auto file = open(io);
      // A save whose last sync failed may be there or not; nothing else may.
      const int found = versions.version_of(*file);
      EXPECT_TRUE(found == committed || (stays_broken && found == committed + 1)) << k;
      ASSERT_TRUE(versions.commit(*file, 5));
      EXPECT_EQ(versions.version_of(*file), 5);
    }
  }
}

// Power is lost at a call; of what was not synced any sector may be missing.
TEST(KvFile, NoPowerCutLosesACommit) {
  int found_later = 0, crashes = 0;
  for (std::uint32_t seed = 0; seed < (test::kSanitized ? 200 : 1500); ++seed) {
    CrashingStateIo io;
    io.is_crash = true;
    io.fail_call = 1 + static_cast<int>(seed % 60);
    io.is_hesitant = seed % 7 == 6;
    KvVersions versions(seed % 2 == 0 ? 1000 : 5000);
    int committed = -1;
    {
      const auto file = open(io);
      for (int v = 0; v < 5 && committed == v - 1; ++v) {
        if (versions.commit(*file, v)) committed = v;
      }
    }
    crashes += committed < 4 ? 1 : 0;
    io.restart(seed);
    io.is_crash = false;
    io.is_hesitant = false;
    const auto file = open(io);
    ASSERT_NE(file, nullptr);
    const int found = versions.version_of(*file);
    ASSERT_TRUE(found == committed || found == committed + 1) << seed << ": " << found;
    found_later += found != committed ? 1 : 0;
    ASSERT_TRUE(versions.commit(*file, 6));
    ASSERT_EQ(versions.version_of(*file), 6);
  }
  EXPECT_GT(crashes, 100);
  EXPECT_GT(found_later, 0);
}

TEST(KvFile, ChangedBytesAreRefusedOrAnOlderSaveCounts) {
  CrashingStateIo io;
  KvVersions versions;
  {
    const auto file = open(io);
    ASSERT_TRUE(versions.commit(*file, 0));
    ASSERT_TRUE(versions.commit(*file, 1));
  }
  const std::string whole = io.content("s");
  std::mt19937 rng(5);
  for (int i = 0; i < 600; ++i) {
    std::string bytes = whole;
    const std::size_t at = i < 64 ? i : i < 200 ? 512 + rng() % 600 : rng() % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng() % 8));
    io.set_content("s", bytes);
    const auto file = KvFile::open(io, "s");
    if (at < 8) {
      ASSERT_FALSE(file);  // something else: it is not replaced
      EXPECT_EQ(file.error().kind, "E_FORMAT");
      continue;
    }
    ASSERT_TRUE(file) << at;
    EXPECT_TRUE(at >= 24 || (*file)->refusal()) << at;
    EXPECT_TRUE((*file)->index() || (*file)->refusal()->kind == "E_SESSION");
    ASSERT_TRUE(versions.commit(**file, 2));
    EXPECT_TRUE(at >= 4096 || versions.version_of(**file) == 2) << at;
  }
  for (const std::size_t n : {0UL, 8UL, 23UL, 600UL, 4095UL, 4096UL, 8000UL, whole.size() - 1}) {
    io.set_content("s", whole.substr(0, n));
    const auto file = open(io);
    const int found = versions.version_of(*file);
    EXPECT_TRUE(found == -1 || found == 0) << n;
    EXPECT_EQ(found == -1, file->refusal().has_value());
  }
}

// Numbers at the ends of their ranges, in an index whose hashes are right.
TEST(KvIndex, HostileNumbersAreRefused) {
  KvIndex index{KvVersions::kIdentity, {1, 2, 3}, {{{0, 4096, 9}}, {{0, 8192, 9}}}, "text"};
  const std::string good = encode_index(index);
  const auto decode = [](std::string_view bytes) {
    return decode_index(std::as_bytes(std::span(bytes.data(), bytes.size())), "s");
  };
  const auto back = decode(good);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->tokens, index.tokens);
  EXPECT_EQ(back->pages, index.pages);
  EXPECT_EQ(back->text, "text");
  for (std::size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(decode(good.substr(0, n))) << n;
  EXPECT_FALSE(decode(good + "x"));
  for (const std::size_t at : {32U, 48U, 52U, 56U, 76U, 80U, 100U}) {
    for (const std::uint64_t value : {~0ULL, 1ULL << 31, 1ULL << 24, 100ULL}) {
      std::string bytes = good;
      std::memcpy(bytes.data() + at, &value, at == 100 ? 8 : 4);
      const auto refused = decode(bytes);
      ASSERT_FALSE(refused) << at;
      EXPECT_EQ(refused.error().kind, "E_SESSION");
    }
  }
}

}  // namespace
}  // namespace orrery::engine
