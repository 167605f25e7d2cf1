#include "engine/kv_pages.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/random.hpp"

namespace orrery::engine {
namespace {

plan::CacheGroup full_group(std::uint32_t layers = 1) {
  plan::CacheGroup group;
  group.layers = layers;
  group.kv_heads = 1;
  group.k_dim = 1;
  group.v_dim = 1;
  return group;
}

plan::CacheGroup window_group(std::uint32_t window) {
  plan::CacheGroup group = full_group(3);
  group.kind = plan::CacheKind::window;
  group.window = window;
  return group;
}

std::unique_ptr<KvPages> make(std::vector<plan::CacheGroup> groups, KvOptions options) {
  auto kv = KvPages::create(groups, options);
  EXPECT_TRUE(kv.has_value());
  return std::move(*kv);
}

// The place of one position's tag: four bytes each, 64 to a page.
std::uint32_t* tag(const KvPages& kv, const std::vector<plan::CacheGroup>& groups, SequenceId s,
                   std::size_t group, std::uint32_t position) {
  const std::int32_t page = kv.table(s, group)[position / plan::kPageTokens];
  if (page < 0) return nullptr;
  std::byte* base =
      kv.pools()[group].base + static_cast<std::uint64_t>(page) * groups[group].page_bytes();
  return reinterpret_cast<std::uint32_t*>(base) + position % plan::kPageTokens;
}

TEST(KvPages, CommitsPageByPage) {
  auto kv =
      make({full_group()}, {.sequences = 2, .context = 1000, .slice = 8, .budget_bytes = 1 << 20});
  EXPECT_EQ(kv->stride(), 16);
  EXPECT_EQ(kv->committed_bytes(), 0U);
  const SequenceId s = *kv->open();
  ASSERT_TRUE(kv->extend(s, 64).has_value());
  EXPECT_EQ(kv->committed_bytes(), 256U);
  ASSERT_TRUE(kv->extend(s, 65).has_value());
  EXPECT_EQ(kv->committed_bytes(), 512U);
  EXPECT_EQ(kv->table(s, 0)[2], -1);
  kv->close(s);
  EXPECT_EQ(kv->pages_in_use(0), 0U);
  const SequenceId again = *kv->open();
  ASSERT_TRUE(kv->extend(again, 128).has_value());
  EXPECT_EQ(kv->committed_bytes(), 512U);  // used again
}

TEST(KvPages, LimitsAreErrors) {
  auto kv = make({full_group()}, {.sequences = 2, .context = 300, .slice = 8, .budget_bytes = 600});
  const SequenceId s = *kv->open();
  const SequenceId t = *kv->open();
  EXPECT_EQ(kv->open().error().kind, "E_SEQUENCES");
  EXPECT_EQ(kv->extend(s, 301).error().kind, "E_CONTEXT");
  ASSERT_TRUE(kv->extend(s, 64).has_value());
  EXPECT_EQ(kv->extend(t, 192).error().kind, "E_MEMORY");
  EXPECT_EQ(kv->length(t), 0U);
  EXPECT_EQ(kv->pages_in_use(0), 1U);  // undone
  ASSERT_TRUE(kv->extend(t, 64).has_value());
  kv->truncate(s, 0);
  ASSERT_TRUE(kv->extend(t, 128).has_value());
}

TEST(KvPages, BudgetMovesBetweenGroups) {
  // Pages of 256 and 768 bytes.
  auto kv = make({full_group(), window_group(64)},
                 {.sequences = 4, .context = 640, .slice = 64, .budget_bytes = 4096});
  const SequenceId s = *kv->open();
  ASSERT_TRUE(kv->extend(s, 192).has_value());  // 3 pages of each
  const std::uint64_t before = kv->committed_bytes();
  EXPECT_EQ(before, 3U * (256 + 768));
  kv->drop_behind(s);  // two window pages are free, their memory still counts
  EXPECT_EQ(kv->committed_bytes(), before);
  const SequenceId t = *kv->open();
  ASSERT_TRUE(kv->extend(t, 128).has_value());
  EXPECT_LE(kv->committed_bytes(), kv->budget_bytes());
}

TEST(KvPages, WindowDropsPagesBehind) {
  auto kv = make({window_group(100)},
                 {.sequences = 1, .context = 4096, .slice = 64, .budget_bytes = 1 << 20});
  const SequenceId s = *kv->open();
  for (std::uint32_t length = 64; length <= 4096; length += 64) {
    kv->drop_behind(s);
    ASSERT_TRUE(kv->extend(s, length).has_value());
    for (std::uint32_t p = 0; p < length; ++p) {
      // The slice's first token is at length - 64 and sees back to length - 64 - 99.
      if (p + 100 > length - 64) {
        EXPECT_NE(kv->table(s, 0)[p / 64], -1);
      }
    }
  }
  EXPECT_LE(kv->pages_in_use(0), 5U);
  EXPECT_EQ(kv->reusable(s, 4096), 4096U);
  EXPECT_EQ(kv->reusable(s, 1000), 0U);
  kv->truncate(s, 0);
  EXPECT_EQ(kv->pages_in_use(0), 0U);
}

// Random operations against a model: every position that must be readable still holds the tag that
// its sequence wrote there.
TEST(KvPages, RandomOperationsKeepEveryTag) {
  const std::vector<plan::CacheGroup> groups{full_group(), window_group(90)};
  constexpr std::uint32_t kContext = 700;
  constexpr std::uint32_t kSlice = 128;
  auto kv =
      make(groups, {.sequences = 4, .context = kContext, .slice = kSlice, .budget_bytes = 20000});
  Random random(77);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random.next() % n); };
  std::vector<std::vector<std::uint32_t>> model(4);  // tags of open sequences
  std::vector<SequenceId> open;
  std::uint32_t next_tag = 1;
  int refused = 0;
  const auto verify = [&](SequenceId s) {
    const auto length = static_cast<std::uint32_t>(model[s].size());
    ASSERT_EQ(kv->length(s), length);
    for (std::uint32_t p = 0; p < length; ++p) {
      ASSERT_EQ(*tag(*kv, groups, s, 0, p), model[s][p]);
      if (kv->reusable(s, length) == length && p + 90 > length) {
        ASSERT_EQ(*tag(*kv, groups, s, 1, p), model[s][p]);
      }
    }
  };
  for (int step = 0; step < 20000; ++step) {
    const std::uint32_t action = below(10);
    if (open.empty() || (action == 0 && open.size() < 4)) {
      open.push_back(*kv->open());
      model[open.back()].clear();
      continue;
    }
    const std::size_t which = below(static_cast<std::uint32_t>(open.size()));
    const SequenceId s = open[which];
    const auto length = static_cast<std::uint32_t>(model[s].size());
    if (action == 1) {
      kv->close(s);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (action == 2) {
      const std::uint32_t kept = kv->reusable(s, below(length + 1));
      kv->truncate(s, kept);
      model[s].resize(kept);
    } else if (action == 3 && open.size() < 4) {
      const SequenceId t = *kv->open();
      open.push_back(t);
      const std::uint32_t shared = kv->share_prefix(s, t, below(length + 1));
      model[t].assign(model[s].begin(), model[s].begin() + shared);
    } else {
      kv->drop_behind(s);
      const std::uint32_t longer = length + 1 + below(action < 6 ? 1 : kSlice);
      if (!kv->extend(s, longer)) {
        ++refused;
      } else {
        for (std::uint32_t p = length; p < longer; ++p) {
          model[s].push_back(next_tag);
          for (const std::size_t group : {0UL, 1UL}) *tag(*kv, groups, s, group, p) = next_tag;
          ++next_tag;
        }
      }
    }
    ASSERT_LE(kv->committed_bytes(), kv->budget_bytes());
    if (step % 16 == 0) {
      for (const SequenceId each : open) verify(each);
    }
  }
  EXPECT_GT(refused, 10);
  for (const SequenceId s : open) kv->close(s);
  EXPECT_EQ(kv->pages_in_use(0) + kv->pages_in_use(1), 0U);
}

}  // namespace
}  // namespace orrery::engine
