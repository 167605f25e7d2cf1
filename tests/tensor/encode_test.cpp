// Encoders against the decoders: errors no larger than gguf-py's, hard cases, importance.
#include "tensor/encode.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tensor/decode.hpp"

namespace orrery {
namespace {

constexpr std::size_t kRows = 64, kCols = 1024;

// The same as in make_errors.py.
std::vector<float> numbers() {
  std::uint32_t state = 1;
  std::vector<float> out(kRows * kCols);
  for (float& x : out) {
    std::int32_t total = 0;
    for (int i = 0; i < 4; ++i) {
      state = state * 1664525U + 1013904223U;
      total += static_cast<std::int32_t>(state >> 16);
    }
    x = static_cast<float>(total - 131070) / 65536.0F;
  }
  return out;
}

std::vector<float> round_trip(DType type, const std::vector<float>& x,
                              const float* importance = nullptr) {
  std::vector<std::byte> bytes(row_bytes(type, x.size()) + 1);  // blocks have no alignment
  encode_row(type, x.data(), importance, bytes.data() + 1, x.size());
  std::vector<float> y(x.size());
  decode_row(type, bytes.data() + 1, y.data(), y.size());
  return y;
}

double relative_error(const std::vector<float>& x, const std::vector<float>& y) {
  double off = 0.0, all = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    off += (double{y[i]} - x[i]) * (double{y[i]} - x[i]);
    all += double{x[i]} * x[i];
  }
  return std::sqrt(off / all);
}

struct Bound {
  DType type;
  double gguf_py;  // its error, where it has a quantizer for the type
  double most;     // allowed here
};

class Encode : public testing::TestWithParam<Bound> {};

TEST_P(Encode, ErrsLittleAndLessThanGgufPy) {
  const Bound& bound = GetParam();
  ASSERT_TRUE(is_encodable(bound.type));
  const std::vector<float> x = numbers();
  const double error = relative_error(x, round_trip(bound.type, x));
  RecordProperty("error", std::to_string(error));
  EXPECT_LE(error, bound.most);
  if (bound.gguf_py > 0.0) {
    EXPECT_LT(error, bound.gguf_py);
  }
}

// What was encoded once is written again with almost no further loss.
TEST_P(Encode, KeepsWhatTheTypeCanSay) {
  const std::vector<float> x = numbers();
  const std::vector<float> once = round_trip(GetParam().type, x);
  const double again = relative_error(once, round_trip(GetParam().type, once));
  EXPECT_LE(again, GetParam().most / 4);
}

TEST_P(Encode, TakesHardBlocks) {
  const DType type = GetParam().type;
  const float largest = dtype_info(type).is_quantized ? kMaxEncoded : 65000.0F;
  std::vector<std::vector<float>> rows(7, std::vector<float>(256, 0.0F));
  rows[1].assign(256, 0.75F);  // constant
  rows[2].assign(256, -0.75F);
  rows[3][100] = 3.0F;  // one value
  for (std::size_t i = 0; i < 256; ++i) {
    const float sign = i % 2 == 0 ? 1.0F : -1.0F;
    rows[4][i] = sign * 1e-30F * static_cast<float>(i);
    rows[5][i] = sign * largest;
    rows[6][i] = 1.0F + static_cast<float>(i) / 256.0F;  // far from zero
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    SCOPED_TRACE(r);
    const std::vector<float> y = round_trip(type, rows[r]);
    for (const float v : y) ASSERT_TRUE(std::isfinite(v));
    if (r == 0) {
      EXPECT_EQ(y, rows[0]);
    }
    if (r == 1 || r == 2) {
      EXPECT_LE(relative_error(rows[r], y), 0.15);
    }
    if (r == 3) {
      EXPECT_NEAR(y[100], 3.0F, 0.2F);
    }
    if (r == 6) {
      EXPECT_LE(relative_error(rows[r], y), 0.2);
    }
  }
}

TEST_P(Encode, SparesWhatIsImportant) {
  if (!dtype_info(GetParam().type).is_quantized) GTEST_SKIP() << "no scales to choose";
  const std::vector<float> x = numbers();
  std::vector<float> importance(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) importance[i] = i % 4 == 0 ? 100.0F : 1.0F;
  const std::vector<float> plain = round_trip(GetParam().type, x);
  const std::vector<float> told = round_trip(GetParam().type, x, importance.data());
  double before = 0.0, after = 0.0;
  for (std::size_t i = 0; i < x.size(); i += 4) {
    before += (plain[i] - x[i]) * (plain[i] - x[i]);
    after += (told[i] - x[i]) * (told[i] - x[i]);
  }
  EXPECT_LT(after, 0.99 * before);
}

INSTANTIATE_TEST_SUITE_P(
    Types, Encode,
    testing::Values(Bound{DType::f32, 0.0, 0.0}, Bound{DType::f16, 0.0, 0.0003},
                    Bound{DType::bf16, 0.0, 0.0025}, Bound{DType::q4_0, 0.08144, 0.0775},
                    Bound{DType::q4_1, 0.07555, 0.0685}, Bound{DType::q5_0, 0.04049, 0.0385},
                    Bound{DType::q5_1, 0.03666, 0.0332}, Bound{DType::q8_0, 0.00508, 0.00495},
                    Bound{DType::q2_k, 0.0, 0.262}, Bound{DType::q3_k, 0.0, 0.142},
                    Bound{DType::q4_k, 0.0, 0.0685}, Bound{DType::q5_k, 0.0, 0.0337},
                    Bound{DType::q6_k, 0.0, 0.0168}, Bound{DType::iq4_nl, 0.0, 0.0728},
                    Bound{DType::iq4_xs, 0.0, 0.0733}, Bound{DType::mxfp4, 0.11147, 0.1112},
                    Bound{DType::nvfp4, 0.0, 0.088}),
    [](const auto& test) { return std::string(dtype_info(test.param.type).name); });

TEST(Encode, KnowsEveryTypeThatIsDecoded) {
  for (std::uint32_t id = 0; id < 256; ++id) {
    const std::optional<DType> type = dtype_from_id(id);
    if (type) {
      EXPECT_EQ(is_encodable(*type), is_decodable(*type)) << id;
    }
  }
  EXPECT_EQ(encodable_types().substr(0, 15), "F32, F16, Q4_0,");
}

}  // namespace
}  // namespace orrery
