// Every known way to break a GGUF container is refused with its kind of error, at once.
#include <gtest/gtest.h>

#include "storage/gguf.hpp"
#include "support/cpu_clock.hpp"
#include "support/gguf_catalogue.hpp"
#include "support/memory_io.hpp"

namespace orrery::storage {
namespace {

class GgufCatalogue : public testing::TestWithParam<test::HostileFile> {};

TEST_P(GgufCatalogue, IsRefused) {
  test::MemoryIo io;
  const std::string bytes = GetParam().make();
  io.files["m.gguf"] = bytes;
  const test::CpuClock clock;
  const auto opened = Checkpoint::open("m.gguf", io);
  const double elapsed = clock.milliseconds();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, GetParam().kind) << opened.error().message;
  EXPECT_TRUE(opened.error().message.starts_with("m.gguf: at byte ")) << opened.error().message;
  EXPECT_LE(opened.error().message.size(), 1024U);
  EXPECT_LT(elapsed, 100);
}

INSTANTIATE_TEST_SUITE_P(Rows, GgufCatalogue, testing::ValuesIn(test::gguf_catalogue::kRows),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace orrery::storage
