// Every known way to break a safetensors file is refused with its kind of error; the few odd files
// that are allowed open.
#include <gtest/gtest.h>

#include "storage/safetensors.hpp"
#include "support/cpu_clock.hpp"
#include "support/memory_io.hpp"
#include "support/safetensors_catalogue.hpp"

namespace orrery::storage {
namespace {

class SafetensorsCatalogue : public testing::TestWithParam<test::HostileFile> {};

TEST_P(SafetensorsCatalogue, IsHandled) {
  test::MemoryIo io;
  io.files["m.safetensors"] = GetParam().make();
  const test::CpuClock clock;
  const auto opened = Checkpoint::open("m.safetensors", io);
  const double elapsed = clock.milliseconds();
  if (std::string_view(GetParam().kind).empty()) {
    ASSERT_TRUE(opened) << opened.error().message;
    return;
  }
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, GetParam().kind) << opened.error().message;
  EXPECT_TRUE(opened.error().message.starts_with("m.safetensors: at byte "))
      << opened.error().message;
  EXPECT_LE(opened.error().message.size(), 1024U);
  // S32 is a matter of policy: it has to be read up to the limit.
  EXPECT_LT(elapsed, std::string_view(GetParam().name) == "S32" ? 1000 : 100);
}

INSTANTIATE_TEST_SUITE_P(Rows, SafetensorsCatalogue,
                         testing::ValuesIn(test::safetensors_catalogue::kRows),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace orrery::storage
