// Which element types fit into a number of bytes.
#include "engine/fit.hpp"

#include <gtest/gtest.h>

#include "engine/quantize.hpp"
#include "support/memory_io.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::engine {
namespace {

class FitTest : public testing::Test {
 protected:
  FitTest() {
    io.files["in.gguf"] = test::TinyGguf(2).build();
    image = *model::gguf_image(*storage::Checkpoint::open("in.gguf", io));
  }
  Result<Fit> fit(std::uint64_t limit) const { return fit_model(image, needs, limit); }

  test::MemoryIo io;
  model::GgufImage image;
  FitNeeds needs{128, 1000, 500};
};

TEST_F(FitTest, TakesTheLeastLossThatFits) {
  const std::uint64_t all = image_bytes(image, std::nullopt);
  EXPECT_FALSE(fit(all + 1500)->mix);
  const auto q8 = find_mix("Q8_0");
  const std::uint64_t eighth = image_bytes(image, q8);
  EXPECT_LT(eighth, all / 3);
  EXPECT_EQ(fit(all + 1499)->mix->name, "Q8_0");
  EXPECT_EQ(fit(all + 1499)->weights, eighth);
  EXPECT_EQ(fit(eighth + 1500)->mix->name, "Q8_0");
  std::uint64_t weights = eighth;
  int rungs = 1;
  for (auto next = fit(weights + 1499); next; next = fit(weights + 1499)) {
    ASSERT_LT(next->weights, weights);
    EXPECT_EQ(next->weights, image_bytes(image, next->mix));
    weights = next->weights;
    ++rungs;
  }
  EXPECT_GE(rungs, 4);
  const auto refused = fit(weights + 1499);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_MEMORY");
  EXPECT_NE(refused.error().message.find("needs " + std::to_string(weights + 1500)),
            std::string::npos)
      << refused.error().message;
}

TEST_F(FitTest, WhatIsWrittenHasTheBytesThatWereSaid) {
  for (const char* limit : {"Q8_0", "Q5_K_M", "Q3_K_M"}) {
    QuantizeOptions options;
    options.mix = find_mix(limit);
    options.image = options.packed = true;
    const auto report = quantize("in.gguf", "out.gguf", options, io);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->bytes_after, image_bytes(image, options.mix)) << limit;
  }
}

}  // namespace
}  // namespace orrery::engine
