#include "memory/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "memory/numa.hpp"
#include "memory/scripted_calls.hpp"

namespace orrery::memory {
namespace {

using test::has_note;
using test::ScriptedCalls;

constexpr std::uint64_t kMib = 1 << 20;

TEST(Arena, RegionsLieInOneRangeAndComeBackToIt) {
  Arena arena;
  std::byte* first = nullptr;
  {
    const Region region = *arena.take(3 * kMib);
    first = region.data();
    const Region other = *arena.take(100);
    EXPECT_LT(std::max(first, other.data()) - std::min(first, other.data()),
              static_cast<std::ptrdiff_t>(Arena::kRange));
    EXPECT_EQ(arena.use().regions, 2U);
    EXPECT_EQ(arena.use().reserved, Arena::kRange);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % kHugePage, 0U);
    std::memset(region.data(), 7, region.size());
  }
  EXPECT_EQ(arena.use().regions, 0U);
  const Region again = *arena.take(3 * kMib);
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(again.data()[kMib], std::byte{0});  // not what was there before
}

// Whatever is taken and given back, regions never touch each other.
TEST(Arena, RandomRegionsKeepApart) {
  ScriptedCalls calls;
  Arena arena(calls, 64 * kMib);  // used up now and then: then regions have ranges of their own
  std::mt19937 random(1);
  std::vector<Region> held;
  for (int i = 0; i < 2000; ++i) {
    if (!held.empty() && random() % 2 == 0) {
      std::swap(held[random() % held.size()], held.back());
      held.pop_back();
      continue;
    }
    const std::uint64_t bytes = random() % 4 == 0 ? random() % (9 * kMib) + 1 : random() % 9000 + 1;
    held.push_back(*arena.take(bytes));
    const Region& made = held.back();
    ASSERT_EQ(made.data()[0], std::byte{0});
    ASSERT_EQ(made.data()[bytes - 1], std::byte{0});
    made.data()[0] = made.data()[bytes - 1] = std::byte{1};
    for (std::size_t r = 0; r + 1 < held.size(); ++r) {
      const Region& other = held[r];
      ASSERT_TRUE(made.data() + bytes + kSmallPage <= other.data() ||
                  other.data() + other.size() + kSmallPage <= made.data());
    }
  }
  held.clear();
  EXPECT_EQ(arena.use().reserved, 64 * kMib);
}

TEST(ArenaDeathTest, GuardsStandWithAndWithoutMarkers) {
  for (const bool has_guards : {true, false}) {
    ScriptedCalls calls;
    calls.has_guards = has_guards;
    Arena arena(calls);
    const Region small = *arena.take(kSmallPage), neighbour = *arena.take(kSmallPage);
    const Region large = *arena.take(3 * kMib), whole = *arena.take(2 * kMib);
    for (const Region* region : {&small, &neighbour, &large, &whole}) {
      volatile std::byte* data = region->data();
      data[region->size() - 1] = std::byte{1};
      EXPECT_DEATH(data[region->size()] = std::byte{1}, "");
      EXPECT_DEATH(data[-1] = std::byte{1}, "");
    }
    EXPECT_EQ(has_note(arena.use().notes, "MADV_GUARD_INSTALL"), !has_guards);
  }
}

TEST(Arena, TakesThePoolOfHugePagesWhileItLasts) {
  ScriptedCalls calls;
  calls.pool = 4 * kMib;
  Arena arena(calls);
  const Region fits = *arena.take(3 * kMib);
  EXPECT_EQ(calls.maps, 1);
  EXPECT_EQ(arena.use().pool, 4 * kMib);
  std::memset(fits.data(), 1, fits.size());
  calls.pool = 0;
  const Region other = *arena.take(3 * kMib);
  EXPECT_EQ(calls.maps, 1);
  EXPECT_EQ(arena.use().huge, 3 * kMib);
  EXPECT_TRUE(has_note(arena.use().notes, "vm.nr_hugepages"));
}

TEST(Arena, SaysWhereThereAreNoHugePages) {
  ScriptedCalls calls;
  calls.has_huge_pages = false;
  Arena arena(calls);
  const Region region = *arena.take(3 * kMib);
  EXPECT_EQ(arena.use().small, 3 * kMib);
  EXPECT_TRUE(has_note(arena.use().notes, "[never]"));
  EXPECT_NE(to_text(arena.use()).find("3.0 in small ones"), std::string::npos);
}

TEST(Arena, SpreadsOverNodesOnlyWhereThereAreSome) {
  EXPECT_EQ(node_mask("0"), 1U);
  EXPECT_EQ(node_mask("0-1,4"), 0b10011U);
  EXPECT_EQ(node_mask("62-70"), 0b11ULL << 62U);
  EXPECT_EQ(node_mask(""), 0U);
  EXPECT_EQ(node_mask("1-"), 0U);
  EXPECT_EQ(node_mask("x"), 0U);
  ScriptedCalls calls;
  Arena arena(calls);
  const Region one = *arena.take(100, Spread::interleaved);
  EXPECT_EQ(calls.interleaved, 0U);
  EXPECT_TRUE(has_note(arena.use().notes, "one memory node"));
  calls.nodes = "0,2";
  const Region local = *arena.take(100);
  EXPECT_EQ(calls.interleaved, 0U);
  const Region two = *arena.take(100, Spread::interleaved);
  EXPECT_EQ(calls.interleaved, 0b101U);
  EXPECT_TRUE(has_note(arena.use().notes, "2 memory nodes"));
}

TEST(Arena, PinsOrSaysHowToRaiseTheLimit) {
  ScriptedCalls calls;
  Arena arena(calls);
  const Region before = *arena.take(100);
  EXPECT_EQ(arena.use().pinned, 0U);
  arena.set_pinning(true);
  const Region pinned = *arena.take(100);
  EXPECT_EQ(arena.use().pinned, kSmallPage);
  arena.pin({pinned.data(), pinned.size()});  // known already
  EXPECT_EQ(arena.use().pinned, kSmallPage);
  alignas(4096) static const std::byte elsewhere[8192] = {};
  arena.pin({elsewhere + 1, 4096});
  EXPECT_EQ(arena.use().pinned, 3 * kSmallPage);
  calls.can_lock = false;
  calls.lockable = 8 * kMib;
  const Region refused = *arena.take(100);
  EXPECT_EQ(arena.use().pinned, 3 * kSmallPage);
  EXPECT_TRUE(has_note(arena.use().notes, "ulimit -l"));
}

TEST(Arena, LimitedAddressesAreTakenOneByOne) {
  ScriptedCalls calls;
  calls.addresses = 1ULL << 40;
  Arena arena(calls);
  std::optional<Region> region = *arena.take(3 * kMib);
  EXPECT_LT(arena.use().reserved, 10 * kMib);
  region.reset();
  EXPECT_EQ(arena.use().reserved, 0U);
  calls.can_protect = false;
  const auto refused = arena.take(3 * kMib);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("ulimit -v"), std::string::npos);
  EXPECT_EQ(arena.use().regions, 0U);
}

TEST(Arena, CommitsDiscardsAndRenews) {
  Arena arena;
  Region region = *arena.reserve(1 * kMib);
  ASSERT_TRUE(region.commit(5000));
  ASSERT_TRUE(region.commit(100));  // there already
  std::memset(region.data(), 9, 8192);
  region.discard(1, 8191);  // one whole page
  EXPECT_EQ(region.data()[4095], std::byte{9});
  EXPECT_EQ(region.data()[4096], std::byte{0});
  EXPECT_TRUE(region.renew(0, 4096));
  EXPECT_EQ(region.data()[0], std::byte{0});
  region.data()[0] = std::byte{1};
  EXPECT_EQ(arena.use().small, 8192U);
}

class Driver : public RangeUser {
 public:
  Status add(std::span<const std::byte> range) override {
    if (refuses) return fail("E_MEMORY", "the device has no room");
    ranges.push_back(range);
    return {};
  }
  void remove(std::span<const std::byte> range) override {
    std::erase_if(ranges, [&](auto known) { return known.data() == range.data(); });
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto range : ranges) sum += range.size();
    return sum;
  }
  std::vector<std::span<const std::byte>> ranges;
  bool refuses = false;
};

TEST(Arena, TellsDevicesOfEveryRange) {
  Arena arena;
  Driver driver;
  Region before = *arena.take(2 * kSmallPage);
  arena.attach(driver);
  EXPECT_EQ(driver.bytes(), 2 * kSmallPage);
  {
    Region grows = *arena.reserve(kMib);
    EXPECT_EQ(driver.bytes(), 2 * kSmallPage);
    ASSERT_TRUE(grows.commit(kSmallPage));
    ASSERT_TRUE(grows.commit(3 * kSmallPage));
    EXPECT_EQ(driver.bytes(), 5 * kSmallPage);
  }
  EXPECT_EQ(driver.bytes(), 2 * kSmallPage);
  driver.refuses = true;
  const Region refused = *arena.take(100);
  EXPECT_TRUE(has_note(arena.use().notes, "no room"));
  arena.detach(driver);
  EXPECT_TRUE(driver.ranges.empty());
  const Region after = *arena.take(100);
  EXPECT_TRUE(driver.ranges.empty());
}

}  // namespace
}  // namespace orrery::memory
