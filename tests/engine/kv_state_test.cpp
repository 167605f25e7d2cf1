// Pages of state groups: what a sequence can go on from is always the state of just those tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/kv_pages.hpp"
#include "engine/random.hpp"

namespace orrery::engine {
namespace {

plan::CacheGroup full_group() {
  plan::CacheGroup group;
  group.layers = group.kv_heads = group.k_dim = group.v_dim = 1;
  return group;
}

// A state of one number.
plan::CacheGroup state_group(std::uint32_t floats = 1) {
  plan::CacheGroup group;
  group.kind = plan::CacheKind::state;
  group.layers = group.conv_rows = 1;
  group.conv_dim = floats;
  return group;
}

// Sequences whose state is a hash of their tokens, kept where a backend keeps it.
class Hashes {
 public:
  Hashes(std::vector<plan::CacheGroup> groups, KvOptions options) : groups_(std::move(groups)) {
    kv = std::move(*KvPages::create(groups_, options));
    states_ = groups_.size() - 1;
  }

  static std::uint32_t mix(std::uint32_t hash, std::uint32_t token) {
    return (hash ^ token) * 2654435761U + 1;
  }
  static std::uint32_t expected(const std::vector<std::uint32_t>& tokens) {
    std::uint32_t hash = 0;
    for (const std::uint32_t token : tokens) hash = mix(hash, token);
    return hash;
  }

  std::uint32_t& state(SequenceId s, std::uint32_t position) const {
    const std::int32_t page = kv->table(s, states_)[position / plan::kPageTokens];
    EXPECT_GE(page, 0);
    return *reinterpret_cast<std::uint32_t*>(kv->pools()[states_].base +
                                             static_cast<std::uint64_t>(std::max(0, page)) *
                                                 groups_[states_].page_bytes());
  }
  // A run over tokens behind the first `length`, in pages that are there.
  void run(SequenceId s, std::uint32_t length, const std::vector<std::uint32_t>& tokens) const {
    for (std::uint32_t i = 0; i < tokens.size(); ++i) {
      const std::uint32_t p = length + i;
      state(s, p) = mix(p == 0 ? 0 : state(s, p - 1), tokens[i]);
    }
  }
  bool append(SequenceId s, std::vector<std::uint32_t>& held,
              const std::vector<std::uint32_t>& tokens) const {
    const auto length = static_cast<std::uint32_t>(held.size());
    if (!kv->extend(s, length + static_cast<std::uint32_t>(tokens.size()))) return false;
    run(s, length, tokens);
    held.insert(held.end(), tokens.begin(), tokens.end());
    return true;
  }

  std::unique_ptr<KvPages> kv;

 private:
  std::vector<plan::CacheGroup> groups_;
  std::size_t states_;
};

std::vector<std::uint32_t> numbers(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint32_t> tokens(n);
  for (auto& token : tokens) token = static_cast<std::uint32_t>(random.next());
  return tokens;
}

TEST(KvState, GoesOnFromTheEndOrFromSnapshots) {
  Hashes h({state_group()}, {.sequences = 1, .context = 1024, .slice = 512, .budget_bytes = 4096});
  const SequenceId s = *h.kv->open();
  std::vector<std::uint32_t> held;
  ASSERT_TRUE(h.append(s, held, numbers(300, 1)));
  EXPECT_EQ(h.kv->reusable(s, 300), 300U);
  EXPECT_EQ(h.kv->reusable(s, 299), 256U);
  EXPECT_EQ(h.kv->reusable(s, 256), 256U);
  EXPECT_EQ(h.kv->reusable(s, 255), 192U);
  EXPECT_EQ(h.kv->reusable(s, 63), 0U);
  h.kv->truncate(s, 192);
  held.resize(192);
  EXPECT_EQ(h.state(s, 191), Hashes::expected(held));
  EXPECT_EQ(h.kv->reusable(s, 192), 192U);
  ASSERT_TRUE(h.append(s, held, numbers(70, 2)));
  EXPECT_EQ(h.state(s, 261), Hashes::expected(held));
  // Cut inside of a page, its state is lost.
  h.kv->truncate(s, 260);
  EXPECT_EQ(h.kv->reusable(s, 260), 256U);
}

TEST(KvState, TakenBackExtensionsLeaveTheEnd) {
  Hashes h({state_group()}, {.sequences = 1, .context = 1024, .slice = 512, .budget_bytes = 4096});
  const SequenceId s = *h.kv->open();
  ASSERT_TRUE(h.kv->extend(s, 130));
  h.kv->take_back(s, 0);
  EXPECT_EQ(h.kv->pages_in_use(0), 0U);
  std::vector<std::uint32_t> held;
  for (const std::size_t length : {64U, 100U, 128U, 130U}) {
    ASSERT_TRUE(h.append(s, held, numbers(length - held.size(), length)));
    ASSERT_TRUE(h.kv->extend(s, static_cast<std::uint32_t>(length) + 200));
    h.kv->take_back(s, static_cast<std::uint32_t>(length));
    EXPECT_EQ(h.kv->reusable(s, static_cast<std::uint32_t>(length)), length);
    EXPECT_EQ(h.state(s, static_cast<std::uint32_t>(length) - 1), Hashes::expected(held));
  }
}

// The gaps between snapshots grow with their distance from the end.
TEST(KvState, KeepsABoundedNumberOfSnapshotsTheDenserTheNewer) {
  constexpr std::uint32_t kContext = 64 * 1000;
  Hashes h({state_group()},
           {.sequences = 1, .context = kContext, .slice = 512, .budget_bytes = 4096});
  const SequenceId s = *h.kv->open();
  std::vector<std::uint32_t> held;
  while (held.size() + 32 <= kContext) {
    ASSERT_TRUE(h.append(s, held, numbers(32, held.size())));
    ASSERT_LE(h.kv->pages_in_use(0), max_snapshots(state_group()) + 1);
  }
  EXPECT_EQ(h.kv->reusable(s, kContext - 1), kContext - 64);
  // Whatever the length that is gone back to, what must be computed again is in proportion to the
  // distance.
  for (std::uint32_t length = kContext - 64; length > 64 * 64; length -= 64) {
    const std::uint32_t lost = length - h.kv->reusable(s, length);
    EXPECT_LE(lost, 64 + (kContext - length)) << length;
  }
}

TEST(KvState, LargeStatesHaveFewSnapshots) {
  EXPECT_EQ(max_snapshots(state_group()), kMaxSnapshots);
  EXPECT_EQ(max_snapshots(state_group(16U << 20)), 4U);   // 64 MiB
  EXPECT_EQ(max_snapshots(state_group(256U << 20)), 2U);  // 1 GiB
}

TEST(KvState, WithoutMemoryForSnapshotsThereAreNone) {
  Hashes h({state_group()}, {.sequences = 2, .context = 1024, .slice = 512, .budget_bytes = 8});
  const SequenceId s = *h.kv->open(), t = *h.kv->open();
  std::vector<std::uint32_t> held;
  ASSERT_TRUE(h.append(s, held, numbers(300, 1)));  // two pages: the end and one snapshot
  EXPECT_EQ(h.state(s, 299), Hashes::expected(held));
  EXPECT_EQ(h.kv->extend(t, 1).error().kind, "E_MEMORY");
  EXPECT_EQ(h.kv->length(t), 0U);
  ASSERT_TRUE(h.append(s, held, numbers(100, 2)));
  EXPECT_EQ(h.state(s, 399), Hashes::expected(held));
}

// Random operations against a model.
TEST(KvState, RandomOperationsKeepEveryState) {
  constexpr std::uint32_t kContext = 900, kSlice = 200;
  Hashes h({full_group(), state_group()},
           {.sequences = 4, .context = kContext, .slice = kSlice, .budget_bytes = 5000});
  Random random(5);
  const auto below = [&](std::size_t n) { return static_cast<std::uint32_t>(random.next() % n); };
  std::vector<std::vector<std::uint32_t>> held(4);
  std::vector<SequenceId> open;
  int refused = 0, shared = 0;
  for (int step = 0; step < 20000; ++step) {
    const std::uint32_t action = below(10);
    if (open.empty() || (action == 0 && open.size() < 4)) {
      open.push_back(*h.kv->open());
      held[open.back()].clear();
      continue;
    }
    const std::size_t which = below(open.size());
    const SequenceId s = open[which];
    const auto length = static_cast<std::uint32_t>(held[s].size());
    if (action == 1) {
      h.kv->close(s);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    if (action == 2) {
      const std::uint32_t kept = h.kv->reusable(s, below(length + 1));
      h.kv->truncate(s, kept);
      held[s].resize(kept);
    } else if (action == 3 && open.size() < 4) {
      const SequenceId t = *h.kv->open();
      open.push_back(t);
      const std::uint32_t covered = h.kv->share_prefix(s, t, below(length + 1));
      held[t].assign(held[s].begin(), held[s].begin() + covered);
      shared += covered > 0;
    } else if (action == 4) {
      const auto longer = std::min(kContext, length + below(kSlice));
      if (h.kv->extend(s, longer)) h.kv->take_back(s, length);
    } else if (action == 5) {  // a run that fails
      const auto longer = std::min(kContext, length + below(kSlice));
      if (h.kv->extend(s, longer)) h.run(s, length, numbers(longer - length, 9));
      h.kv->truncate(s, length);
      held[s].resize(h.kv->reusable(s, length));
      h.kv->truncate(s, static_cast<std::uint32_t>(held[s].size()));
    } else {
      refused += !h.append(s, held[s], numbers(1 + below(action < 8 ? 3 : kSlice), random.next()));
    }
    ASSERT_LE(h.kv->committed_bytes(), h.kv->budget_bytes());
    for (const SequenceId each : open) {
      const auto n = static_cast<std::uint32_t>(held[each].size());
      ASSERT_EQ(h.kv->length(each), n);
      ASSERT_EQ(h.kv->reusable(each, n), n);
      ASSERT_EQ(n == 0 ? 0 : h.state(each, n - 1), Hashes::expected(held[each])) << step;
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(shared, 10);
  for (const SequenceId s : open) h.kv->close(s);
  EXPECT_EQ(h.kv->pages_in_use(0) + h.kv->pages_in_use(1), 0U);
}

}  // namespace
}  // namespace orrery::engine
