#include "tensor/decode.hpp"
#include "support/paths.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tensor/half.hpp"

namespace orrery {
namespace {

// The records of make_blocks.py.
struct Sample {
  DType type = DType::f32;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

std::vector<Sample> load_samples() {
  std::ifstream file(test::source_dir() + "/tests/tensor/blocks.bin", std::ios::binary);
  const std::vector<char> data(std::istreambuf_iterator<char>(file), {});
  std::vector<Sample> samples;
  std::size_t at = 0;
  while (at + 12 <= data.size()) {
    std::uint32_t head[3];
    std::memcpy(head, data.data() + at, 12);
    at += 12;
    Sample sample;
    sample.type = static_cast<DType>(head[0]);
    sample.values.resize(head[1]);
    sample.bytes.resize(head[2]);
    if (at + head[2] + 4ULL * head[1] > data.size()) return {};
    std::memcpy(sample.bytes.data(), data.data() + at, head[2]);
    at += head[2];
    std::memcpy(sample.values.data(), data.data() + at, 4ULL * head[1]);
    at += 4ULL * head[1];
    samples.push_back(std::move(sample));
  }
  return samples;
}

TEST(Decode, EqualsGgufPyOnRandomBlocks) {
  const std::vector<Sample> samples = load_samples();
  ASSERT_EQ(samples.size(), 17U);
  std::set<DType> seen;
  for (const Sample& sample : samples) {
    SCOPED_TRACE(dtype_info(sample.type).name);
    seen.insert(sample.type);
    ASSERT_TRUE(is_decodable(sample.type));
    ASSERT_EQ(row_bytes(sample.type, sample.values.size()), sample.bytes.size());
    // One byte off, because blocks in files have no alignment.
    std::vector<std::byte> shifted(sample.bytes.size() + 1);
    std::memcpy(shifted.data() + 1, sample.bytes.data(), sample.bytes.size());
    std::vector<float> got(sample.values.size());
    decode_row(sample.type, shifted.data() + 1, got.data(), got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], sample.values[i], 1e-6 * std::abs(sample.values[i])) << "element " << i;
    }
  }
  EXPECT_EQ(seen.size(), 17U);
}

TEST(Decode, KnowsWhatIsNoWeight) {
  EXPECT_FALSE(is_decodable(DType::i32));
  EXPECT_FALSE(is_decodable(DType::f64));
}

TEST(Half, F16RoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = f16_to_f32(half);
    if (std::isnan(wide)) {
      EXPECT_EQ(half & 0x7C00, 0x7C00);
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(wide))));
    } else {
      ASSERT_EQ(f32_to_f16(wide), half);
    }
  }
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24F);
  EXPECT_EQ(f16_to_f32(0x3C00), 1.0F);
  EXPECT_EQ(f16_to_f32(0xFBFF), -65504.0F);
}

// Halfway between two neighbours the even one wins; just above and below the nearer one.
TEST(Half, F16RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (f16_to_f32(low) + f16_to_f32(high)) / 2;
    ASSERT_EQ(f32_to_f16(middle), low % 2 == 0 ? low : high);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0F)), low);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9F)), high);
    ASSERT_EQ(f32_to_f16(-middle), (low % 2 == 0 ? low : high) | 0x8000);
  }
  EXPECT_EQ(f32_to_f16(65519.0F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(f32_to_f16(1e-30F), 0);
}

TEST(Half, Bf16RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(low)), low);
    const float middle = std::bit_cast<float>((bits << 16) | 0x8000U);
    ASSERT_EQ(f32_to_bf16(middle), low % 2 == 0 ? low : high);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>((bits << 16) | 0x7FFFU)), low);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>((bits << 16) | 0x8001U)), high);
  }
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace orrery
