#include "model/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/fake_checkpoint.hpp"
#include "model/model.hpp"

namespace orrery::model {
namespace {

using Kind = RopeScaling::Kind;

TEST(Rope, PlainAndLinear) {
  RopeScaling s;
  const std::vector<float> plain = rope_frequencies(s, 10000.0F, 8, 64);
  ASSERT_EQ(plain.size(), 4U);
  EXPECT_FLOAT_EQ(plain[0], 1.0F);
  EXPECT_FLOAT_EQ(plain[1], 0.1F);
  EXPECT_FLOAT_EQ(plain[3], 0.001F);
  s.kind = Kind::linear;
  s.factor = 4.0F;
  EXPECT_FLOAT_EQ(rope_frequencies(s, 10000.0F, 8, 64)[1], 0.025F);
  EXPECT_EQ(rope_mscale(s, 64), 1.0F);
}

// Llama 3.1's parameters: fast pairs stay, slow ones are divided, those between are blended.
TEST(Rope, Llama3) {
  RopeScaling s;
  s.kind = Kind::llama3;
  s.factor = 8.0F;
  s.original_context = 8192;
  const std::vector<float> plain = rope_frequencies({}, 500000.0F, 128, 64);
  const std::vector<float> scaled = rope_frequencies(s, 500000.0F, 128, 64);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * M_PI / plain[i];
    if (wavelength < 8192.0 / 4) {
      EXPECT_FLOAT_EQ(scaled[i], plain[i]);
    } else if (wavelength > 8192.0) {
      EXPECT_FLOAT_EQ(scaled[i], plain[i] / 8);
    } else {
      EXPECT_LT(scaled[i], plain[i]);
      EXPECT_GT(scaled[i], plain[i] / 8);
    }
  }
}

// A ramp between pair floor(8 ln(64 / (32 * 2 pi)) / (2 ln 100)) < 0 and ceil(2.02) = 3.
TEST(Rope, Yarn) {
  RopeScaling s;
  s.kind = Kind::yarn;
  s.factor = 4.0F;
  s.original_context = 64;
  const std::vector<float> plain = rope_frequencies({}, 100.0F, 8, 64);
  const std::vector<float> scaled = rope_frequencies(s, 100.0F, 8, 64);
  for (std::size_t i = 0; i < 4; ++i) {
    const double ramp = static_cast<double>(i) / 3;
    EXPECT_NEAR(scaled[i], plain[i] / 4 * ramp + plain[i] * (1 - ramp), 1e-7);
  }
  EXPECT_NEAR(rope_mscale(s, 64), 0.1 * std::log(4.0) + 1, 1e-6);
  s.attention_factor = 1.5F;
  EXPECT_EQ(rope_mscale(s, 64), 1.5F);
}

TEST(Rope, FactorsFollowTheContext) {
  RopeScaling s;
  s.kind = Kind::factors;
  s.original_context = 64;
  s.short_factors = {1, 2};
  s.long_factors = {4, 8};
  EXPECT_FLOAT_EQ(rope_frequencies(s, 1.0F, 4, 64)[1], 0.5F);
  EXPECT_FLOAT_EQ(rope_frequencies(s, 1.0F, 4, 65)[1], 0.125F);
  EXPECT_EQ(rope_mscale(s, 64), 1.0F);
  EXPECT_NEAR(rope_mscale(s, 128), std::sqrt(1 + std::log(2.0) / std::log(64.0)), 1e-6);
}

TEST(Rope, YarnStretchesTheContext) {
  const auto model = load_model(fake_llama(
      {{"llama.rope.scaling.type", std::string_view("yarn")}, {"llama.rope.scaling.factor", 4.0}}));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->hparams().context_length, 512U);  // 128 as trained
}

TEST(Rope, FactorTensorsMustFit) {
  const auto fake = fake_llama();
  fake->add("rope_freqs.weight", DType::f32, {8});
  // Zeros divide to infinity, which recording refuses.
  const auto zeros = load_model(fake);
  ASSERT_FALSE(zeros);
  EXPECT_EQ(zeros.error().kind, "E_HPARAM");
  fake->replace("rope_freqs.weight", DType::f32, {7});
  const auto wrong = load_model(fake);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, "E_SHAPE");
}

}  // namespace
}  // namespace orrery::model
