// Sessions that are saved and restored, on a backend whose logits tell whether every page was
// right.
#include "engine/session_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/fake_backend.hpp"
#include "engine/random.hpp"
#include "engine/tiny_executor.hpp"
#include "support/crashing_state_io.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_hybrid.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

Tokens random_tokens(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  Tokens tokens(n);
  for (auto& token : tokens) token = static_cast<text::TokenId>(random.next() % fake::kVocab);
  return tokens;
}

// A process of its own: its pages are empty at the start.
struct Process {
  explicit Process(std::uint64_t budget = 1 << 20, std::uint32_t context = 600)
      : executor(fake::make_executor(backend, context, 2, budget)) {}

  std::unique_ptr<SessionFile> open(storage::StateIo& io, const std::string& path = "s") {
    auto file = SessionFile::open(io, path, kv_identity(*executor, nullptr));
    EXPECT_TRUE(file) << file.error().message;
    return std::move(*file);
  }
  // Tokens that needed no computing.
  std::uint32_t evaluate(const Tokens& tokens) {
    const auto result = session->evaluate(tokens);
    EXPECT_TRUE(result) << result.error().message;
    if (!result) return 0;
    const std::uint64_t hash = fake::expected_hash(tokens);
    for (std::uint32_t v = 0; v < fake::kVocab; ++v) {
      if (result->logits[v] == fake::logit(hash, v)) continue;
      ADD_FAILURE() << "wrong logits";
      break;
    }
    return result->reused;
  }

  fake::Backend backend;
  std::shared_ptr<Executor> executor;
  std::unique_ptr<Session> session = *Session::open(executor);
};

void save(storage::StateIo& io, const Tokens& tokens) {
  Process process;
  process.evaluate(tokens);
  ASSERT_TRUE(process.open(io)->save(*process.session, "text"));
}

Tokens longer(Tokens tokens) {
  tokens.push_back(7);
  return tokens;
}

TEST(SessionFile, ComesBackInAnotherProcessWithoutComputing) {
  test::CrashingStateIo io;
  for (const std::size_t n : {1U, 63U, 64U, 65U, 300U, 599U}) {
    const Tokens tokens = random_tokens(n, n);
    save(io, tokens);
    Process process;
    const auto file = process.open(io);
    EXPECT_EQ(file->text(), "text");
    EXPECT_TRUE(std::ranges::equal(file->tokens(), tokens));
    const Restored restored = file->restore(*process.session);
    EXPECT_EQ(restored.tokens, n);
    EXPECT_EQ(restored.saved, n);
    EXPECT_FALSE(restored.problem);
    EXPECT_GT(restored.read_bytes, 0U);
    EXPECT_EQ(process.evaluate(longer(tokens)), n);
  }
}

TEST(SessionFile, CountsItsPagesInTheBudget) {
  test::CrashingStateIo io;
  const Tokens tokens = random_tokens(200, 3);
  save(io, tokens);
  Process computed, process;
  computed.evaluate(tokens);
  ASSERT_EQ(process.open(io)->restore(*process.session).tokens, 200U);
  EXPECT_EQ(process.executor->kv().committed_bytes(), computed.executor->kv().committed_bytes());
  // Without the memory there is no session, and nothing is held.
  Process small(600);  // two pages of 256 bytes
  const Restored refused = small.open(io)->restore(*small.session);
  EXPECT_EQ(refused.tokens, 0U);
  ASSERT_TRUE(refused.problem);
  EXPECT_EQ(refused.problem->kind, "E_MEMORY");
  EXPECT_EQ(small.executor->kv().pages_in_use(0) + small.executor->kv().pages_in_use(1), 0U);
}

// Random conversations with edits, saved and restored in between: the logits are always those of
// the list, and what is written again is little.
TEST(SessionFile, RandomEditsAndRestartsGiveTheLogitsOfTheList) {
  test::CrashingStateIo io;
  Random random(8);
  Tokens tokens = random_tokens(20, 9);
  auto process = std::make_unique<Process>();
  auto file = process->open(io);
  for (int i = 0; i < 150; ++i) {
    const std::uint64_t what = random.next() % 5;
    if (what == 0) {
      tokens.resize(1 + random.next() % tokens.size());
    } else {
      const Tokens more = random_tokens(1 + random.next() % 90, random.next());
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    if (tokens.size() > 590) tokens.resize(30);
    process->evaluate(tokens);
    if (what == 1) continue;
    ASSERT_TRUE(file->save(*process->session, std::to_string(i)));
    if (what != 2) continue;
    file.reset();
    process = std::make_unique<Process>();
    file = process->open(io);
    EXPECT_EQ(file->text(), std::to_string(i));
    EXPECT_EQ(file->restore(*process->session).tokens, tokens.size());
  }
}

TEST(SessionFile, SavingAgainWritesTheNewPagesAlone) {
  test::CrashingStateIo io;
  Process process;
  const auto file = process.open(io);
  Tokens tokens = random_tokens(400, 1);
  process.evaluate(tokens);
  ASSERT_TRUE(file->save(*process.session, ""));
  const std::size_t first = io.content("s").size();
  ASSERT_TRUE(file->save(*process.session, ""));
  EXPECT_EQ(io.content("s").size(), first);  // nothing is new
  process.evaluate(longer(tokens));
  ASSERT_TRUE(file->save(*process.session, ""));
  // One page of each group and the index.
  EXPECT_LE(io.content("s").size(), first + 4 * 4096);
}

TEST(SessionFile, ADamagedPageCutsThePrefixThere) {
  test::CrashingStateIo io;
  const Tokens tokens = random_tokens(90, 4);  // within the window: two pages of each group
  save(io, tokens);
  const std::string whole = io.content("s");
  for (std::size_t i = 0; i < 4; ++i) {
    std::string bytes = whole;
    bytes[4096 * (i + 1) + 17] ^= 1;
    io.set_content("s", bytes);
    Process process, again;
    auto file = process.open(io);
    const Restored restored = file->restore(*process.session);
    EXPECT_EQ(restored.saved, 90U);
    EXPECT_EQ(restored.tokens, i % 2 == 0 ? 0U : 64U) << i;
    ASSERT_TRUE(restored.problem);
    EXPECT_EQ(restored.problem->kind, "E_SESSION");
    EXPECT_EQ(process.evaluate(longer(tokens)), restored.tokens);
    // What was computed anew is saved in its place.
    ASSERT_TRUE(file->save(*process.session, "mended"));
    file.reset();
    EXPECT_EQ(again.open(io)->restore(*again.session).tokens, 91U);
  }
}

TEST(SessionFile, WhatIsAnothersIsNotUsedButItsTextIs) {
  test::CrashingStateIo io;
  const Tokens tokens = random_tokens(90, 4);
  save(io, tokens);
  Process process;
  KvIdentity mine = kv_identity(*process.executor, nullptr);
  for (std::uint64_t* part : {&mine.model_low, &mine.model_high, &mine.caches, &mine.classes}) {
    ++*part;
    const auto file = SessionFile::open(io, "s", mine);
    ASSERT_TRUE(file);
    const Restored restored = (*file)->restore(*process.session);
    EXPECT_EQ(restored.tokens, 0U);
    ASSERT_TRUE(restored.problem);
    EXPECT_EQ(restored.problem->kind, "E_SESSION");
    EXPECT_EQ((*file)->text(), "text");
    --*part;
  }
}

TEST(SessionFile, ASmallerContextTakesWhatFits) {
  test::CrashingStateIo io;
  const Tokens tokens = random_tokens(90, 4);
  save(io, tokens);
  Process process(1 << 20, 80);
  const Restored restored = process.open(io)->restore(*process.session);
  EXPECT_EQ(restored.tokens, 80U);
  EXPECT_TRUE(restored.problem);
  EXPECT_EQ(process.evaluate(Tokens(tokens.begin(), tokens.begin() + 80)), 79U);
}

TEST(SessionFile, ASaveThatFailsLeavesSessionAndFile) {
  test::CrashingStateIo io;
  Process process;
  const auto file = process.open(io);
  Tokens tokens = random_tokens(100, 4);
  process.evaluate(tokens);
  ASSERT_TRUE(file->save(*process.session, "first"));
  tokens = longer(tokens);
  process.evaluate(tokens);
  io.fail_call = io.calls + 1;
  io.fail_kind = "E_DISKFULL";
  const Status full = file->save(*process.session, "second");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, "E_DISKFULL");
  EXPECT_EQ(file->text(), "first");
  EXPECT_EQ(process.evaluate(longer(tokens)), 101U);
  EXPECT_TRUE(file->save(*process.session, "second"));
  EXPECT_EQ(file->text(), "second");
}

// Fails the k-th read for every k of a restore: the session is refused, or what could not be read
// is computed, and the next restore has all.
TEST(SessionFile, EveryReadOfARestoreMayFail) {
  test::CrashingStateIo io;
  const Tokens tokens = random_tokens(300, 8);
  save(io, tokens);
  int failed = 0;
  for (int k = 1;; ++k) {
    ASSERT_LT(k, 1000);
    Process process;
    io.reads = 0;
    io.fail_read = k;
    {
      const auto file = SessionFile::open(io, "s", kv_identity(*process.executor, nullptr));
      const Restored restored = file ? (*file)->restore(*process.session) : Restored{};
      if (io.reads < k) {
        EXPECT_EQ(restored.tokens, 300U);
        EXPECT_FALSE(restored.problem);
        break;
      }
      ++failed;
      if (file) {
        EXPECT_LT(restored.tokens, 300U) << k;
        EXPECT_TRUE(restored.problem) << k;
        EXPECT_EQ(process.evaluate(longer(tokens)), restored.tokens);
      } else {
        EXPECT_EQ(file.error().kind, "E_IO");
      }
    }
    io.fail_read = 0;
    Process next;
    EXPECT_EQ(next.open(io)->restore(*next.session).tokens, 300U) << k;
  }
  EXPECT_GT(failed, 10);
}

// Real pages of whole system pages, which are mapped.
class MappedSession : public testing::Test {
 protected:
  static constexpr std::uint32_t kTokens = 150;

  std::vector<float> evaluate(Session& of, const Tokens& list) {
    const auto result = of.evaluate(list);
    EXPECT_TRUE(result) << result.error().message;
    reused = result ? result->reused : 0;
    if (!result) return {};
    return {result->logits.begin(), result->logits.end()};
  }
  std::unique_ptr<SessionFile> open(Executor& of) {
    return *SessionFile::open(storage::system_state_io(), path, kv_identity(of, nullptr));
  }

  test::TempDir folder;
  std::string path = folder.file("s");
  std::unique_ptr<backend::Backend> backend = *backend::make_cpu_backend({2, ""});
  TinyModel model{test::TinyLlama{}, false};
  std::shared_ptr<Executor> executor = model.make(*backend, 300, 2, 32);
  std::unique_ptr<Session> session = *Session::open(executor);
  Tokens tokens = random_tokens(kTokens, 6);
  std::uint32_t reused = 0;
};

TEST_F(MappedSession, GoesOnWithTheSameBits) {
  evaluate(*session, tokens);
  {
    const auto file = open(*executor);
    ASSERT_TRUE(file->save(*session, ""));
  }
  const auto other = model.make(*backend, 300, 2, 32);
  const auto restored = *Session::open(other);
  const auto file = open(*other);
  const Restored what = file->restore(*restored);
  EXPECT_EQ(what.tokens, kTokens);
  EXPECT_EQ(what.mapped_bytes, 3 * 131072U);
  EXPECT_EQ(what.read_bytes, 0U);
  EXPECT_EQ(other->kv().committed_bytes(), executor->kv().committed_bytes());
  for (int i = 0; i < 60; ++i) {
    tokens.push_back(i);
    const std::vector<float> expected = evaluate(*session, tokens);
    ASSERT_EQ(evaluate(*restored, tokens), expected) << i;
    EXPECT_EQ(reused, tokens.size() - 1);
    ASSERT_TRUE(i % 20 != 0 || file->save(*restored, ""));  // under its own mapping
  }
  // The pages are memory again, and good for others.
  restored->clear();
  EXPECT_EQ(other->kv().pages_in_use(0), 0U);
  const auto third = *Session::open(other);
  session->clear();
  EXPECT_EQ(evaluate(*third, tokens), evaluate(*session, tokens));
}

TEST_F(MappedSession, AFileThatIsCutUnderItIsAnErrorOnce) {
  const std::vector<float> expected = evaluate(*session, tokens);
  ASSERT_TRUE(open(*executor)->save(*session, ""));
  ASSERT_EQ(open(*executor)->restore(*session).tokens, kTokens);
  ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
  const auto hit = session->evaluate(tokens);
  ASSERT_FALSE(hit);
  EXPECT_EQ(hit.error().kind, "E_CHANGED");
  EXPECT_EQ(evaluate(*session, tokens), expected);
  EXPECT_EQ(reused, 0U);
}

// States: the page of the end, and snapshots to go back to.
TEST(StateSession, EndAndSnapshotsComeBack) {
  test::CrashingStateIo io;
  const auto backend = *backend::make_cpu_backend({2, ""});
  TinyModelOf<test::TinyHybrid> model{test::TinyHybrid{}, true};
  const Tokens tokens = random_tokens(200, 2);
  const auto executor = model.make(*backend, 300, 2, 32);
  const auto other = model.make(*backend, 300, 2, 32);
  const auto session = *Session::open(executor), back = *Session::open(other);
  const KvIdentity identity = kv_identity(*executor, nullptr);
  ASSERT_TRUE(session->evaluate(tokens));
  const auto file = *SessionFile::open(io, "s", identity);
  ASSERT_TRUE(file->save(*session, ""));
  ASSERT_EQ(file->restore(*back).tokens, 200U);
  Tokens edited(tokens.begin(), tokens.begin() + 140);
  for (const Tokens& list : {longer(tokens), edited}) {
    const auto went_on = session->evaluate(list);
    ASSERT_TRUE(went_on);
    const std::vector<float> logits(went_on->logits.begin(), went_on->logits.end());
    const auto result = back->evaluate(list);
    ASSERT_TRUE(result);
    EXPECT_TRUE(std::ranges::equal(result->logits, logits));
    EXPECT_EQ(result->reused, list.size() > 150 ? 200U : 128U);
  }
  // A damaged end: on from the last snapshot.
  const auto full = *SessionFile::open(io, "t", identity);
  const auto evaluated = session->evaluate(tokens);
  ASSERT_TRUE(evaluated);
  const std::vector<float> expected(evaluated->logits.begin(), evaluated->logits.end());
  ASSERT_TRUE(full->save(*session, ""));
  std::string bytes = io.content("t");
  // Flip a byte in every page in turn: never wrong, and at least the snapshots' prefixes are there.
  std::uint32_t least = 200;
  for (std::size_t at = 4096; at + 8192 < bytes.size(); at += 4096) {
    std::string changed = bytes;
    changed[at + 100] ^= 4;
    io.set_content("u", changed);
    const auto damaged = *SessionFile::open(io, "u", identity);
    const Restored restored = damaged->restore(*back);
    least = std::min(least, restored.tokens);
    EXPECT_TRUE(restored.tokens == 200 || restored.tokens % 64 == 0);
    const auto result = back->evaluate(tokens);
    ASSERT_TRUE(result);
    EXPECT_LE(result->reused, restored.tokens);
    EXPECT_TRUE(std::ranges::equal(result->logits, expected));
  }
  EXPECT_LT(least, 200U);
}

}  // namespace
}  // namespace orrery::engine
