#include "memory/tape.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "memory/region.hpp"

namespace orrery::memory {
namespace {

TEST(Tape, HandsOutLinesUntilTheEnd) {
  const Region region = *Region::map(4096);
  Tape tape({region.data(), 200});
  EXPECT_EQ(tape.take(1), region.data());
  EXPECT_EQ(tape.take(64), region.data() + 64);
  EXPECT_EQ(tape.take(0), region.data() + 128);
  EXPECT_EQ(tape.take(73), nullptr);
  EXPECT_EQ(tape.take(72), region.data() + 128);  // to the last byte
  EXPECT_EQ(tape.take(1), nullptr);
  EXPECT_EQ(tape.take(UINT64_MAX), nullptr);
  EXPECT_EQ(Tape().take(1), nullptr);
}

TEST(Tape, OneStoreFreesWhatAllThreadsTook) {
  constexpr std::size_t kThreads = 4;
  const Region region = *Region::map(kThreads * 4096);
  Generation generation;
  std::vector<Tape> tapes = split({region.data(), region.size()}, kThreads, generation);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        std::byte* const first = tapes[i].take(64);
        EXPECT_EQ(first, region.data() + i * 4096);
        for (int k = 1; k < 64; ++k) std::memset(tapes[i].take(64), k, 64);
        EXPECT_EQ(tapes[i].take(1), nullptr);  // never the neighbour's
      });
    }
    for (std::thread& thread : threads) thread.join();
    generation.end();
  }
}

}  // namespace
}  // namespace orrery::memory
