// Class f32 weights and the quantities without weights, against obvious loops with the same bits.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/dispatch.hpp"
#include "tensor/decode.hpp"
#include "tensor/half.hpp"

namespace orrery::kernels {
namespace {

std::uint32_t bits(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

// The reduction tree of class f32: lanes i + 8, i + 4, i + 2, i + 1.
float tree(std::array<float, 16> lanes) {
  for (std::size_t half = 8; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

// 16 lanes by fma in k order; a cut end is filled with zeros.
float dot_f32(const float* w, const float* x, int k) {
  std::array<float, 16> lanes{};
  for (int i = 0; i < (k + 15) / 16 * 16; ++i) {
    const float a = i < k ? w[i] : 0.0F, b = i < k ? x[i] : 0.0F;
    float& lane = lanes[static_cast<std::size_t>(i % 16)];
    lane = std::fma(a, b, lane);
  }
  return tree(lanes);
}

std::vector<float> random_floats(int n, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = normal(random);
  return x;
}

// The floats as bytes of a plain type.
std::vector<std::uint8_t> encode(DType type, const std::vector<float>& x) {
  const std::size_t size = type == DType::f32 ? 4 : 2;
  std::vector<std::uint8_t> bytes(x.size() * size);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint16_t half = type == DType::f16 ? f32_to_f16(x[i]) : f32_to_bf16(x[i]);
    std::memcpy(bytes.data() + i * size, size == 4 ? static_cast<const void*>(&x[i]) : &half, size);
  }
  return bytes;
}

class RowF32 : public ::testing::TestWithParam<DType> {};

TEST_P(RowF32, EveryInstructionSetHasTheBitsOfTheDefinition) {
  std::mt19937 random(1);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const int k : {1, 7, 16, 17, 31, 64, 100, 250}) {
    for (int n = 1; n <= 6; ++n) {
      const int m = 1 + (k + n) % 6;
      const std::vector<std::uint8_t> w = encode(GetParam(), random_floats(n * k, random));
      const std::vector<float> x = random_floats(m * k, random);
      std::vector<float> decoded(static_cast<std::size_t>(n * k));
      decode_row(GetParam(), reinterpret_cast<const std::byte*>(w.data()), decoded.data(),
                 decoded.size());
      // The last weight ends where a page that cannot be read begins.
      void* area =
          mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(area, MAP_FAILED);
      std::uint8_t* end = static_cast<std::uint8_t*>(area) + 2 * page;
      ASSERT_LE(w.size(), 2 * page);
      std::memcpy(end - w.size(), w.data(), w.size());
      ASSERT_EQ(mprotect(end, page, PROT_NONE), 0);
      for (const RowKernels* table : available_row_kernels()) {
        std::vector<float> y(static_cast<std::size_t>(m * n));
        table->matmul[static_cast<int>(GetParam())](
            {end - w.size(), w.size() / static_cast<std::size_t>(n), n, k, x.data(),
             static_cast<std::size_t>(k) * 4, m, y.data(), static_cast<std::size_t>(n)});
        for (int i = 0; i < m; ++i)
          for (int r = 0; r < n; ++r)
            ASSERT_EQ(bits(y[static_cast<std::size_t>(i * n + r)]),
                      bits(dot_f32(decoded.data() + r * k, x.data() + i * k, k)))
                << table->isa << " k " << k << " n " << n << " row " << r;
      }
      munmap(area, 3 * page);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RowF32, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& test) { return std::string(dtype_info(test.param).name); });

// Runs `kernel` on every instruction set and expects equal bits; returns the values.
template <class Kernel>
std::vector<float> same_bits(int n, Kernel kernel) {
  std::vector<float> first;
  for (const RowKernels* table : available_row_kernels()) {
    std::vector<float> y(static_cast<std::size_t>(n) + 1, 77.0F);
    kernel(*table, y.data());
    EXPECT_EQ(y.back(), 77.0F) << table->isa << " wrote past the end";
    y.pop_back();
    if (first.empty()) first = y;
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (!(std::isnan(y[i]) && std::isnan(first[i]))) {
        EXPECT_EQ(bits(y[i]), bits(first[i])) << table->isa << " " << i << " of " << n;
      }
    }
  }
  return first;
}

double exact_activation(ActivationKind kind, double x) {
  if (kind == ActivationKind::silu) return x / (1.0 + std::exp(-x));
  if (kind == ActivationKind::swiglu_clamped) {
    const double gate = std::min(x, 7.0);
    return gate / (1.0 + std::exp(-1.702 * gate));
  }
  if (kind == ActivationKind::gelu_erf) return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
  if (kind == ActivationKind::gelu_tanh) {
    return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

TEST(RowActivation, IsCloseToTheFormulaAndEqualEverywhere) {
  std::vector<float> x;
  for (float v = -100.0F; v <= 100.0F; v += 0.173F) x.push_back(v);
  for (float v = -4.0F; v <= 4.0F; v += 0.0137F) x.push_back(v);
  x.insert(x.end(), {0.0F, -0.0F, 1e-30F, -1e-30F, 3e38F, -3e38F});
  const int n = static_cast<int>(x.size());
  for (const auto kind : {ActivationKind::none, ActivationKind::silu, ActivationKind::gelu_tanh,
                          ActivationKind::gelu_erf, ActivationKind::swiglu_clamped}) {
    const std::vector<float> y = same_bits(n, [&](const RowKernels& table, float* out) {
      std::copy(x.begin(), x.end(), out);
      table.activate(kind, out, n);
    });
    for (int i = 0; i < n; ++i) {
      const double want =
          exact_activation(kind, static_cast<double>(x[static_cast<std::size_t>(i)]));
      // Absolute 2e-7 is the error of the erfc formula times |x| / 2.
      const double bound = 4e-7 * std::abs(want) + 3e-7;
      EXPECT_NEAR(static_cast<double>(y[static_cast<std::size_t>(i)]), want, bound)
          << static_cast<int>(kind) << " at " << x[static_cast<std::size_t>(i)];
    }
  }
}

TEST(RowActivation, NaNStaysNaNAndInfinityIsEqualEverywhere) {
  for (const auto kind :
       {ActivationKind::silu, ActivationKind::gelu_tanh, ActivationKind::gelu_erf}) {
    const std::vector<float> y = same_bits(3, [&](const RowKernels& table, float* out) {
      out[0] = std::nanf(""), out[1] = INFINITY, out[2] = -INFINITY;
      table.activate(kind, out, 3);
    });
    EXPECT_TRUE(std::isnan(y[0]));
    if (kind != ActivationKind::gelu_erf) {
      EXPECT_EQ(y[1], INFINITY);
    }
  }
}

TEST(RowActivation, ClampedSwigluBoundsGateAndFactor) {
  const std::vector<float> gate = {-3.0F, 0.5F, 7.0F, 9.0F, -20.0F};
  const std::vector<float> up = {-9.0F, 2.0F, 6.5F, 100.0F, -0.25F};
  const std::vector<float> y = same_bits(5, [&](const RowKernels& table, float* out) {
    table.glu(ActivationKind::swiglu_clamped, gate.data(), up.data(), out, 5);
  });
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double want = exact_activation(ActivationKind::swiglu_clamped, double{gate[i]}) *
                        (1.0 + std::clamp(double{up[i]}, -7.0, 7.0));
    EXPECT_NEAR(double{y[i]}, want, 1e-6 * (1 + std::abs(want)));
  }
}

TEST(RowElementwise, EveryLengthHasTheBitsOfTheLoop) {
  std::mt19937 random(2);
  for (int n = 1; n <= 50; ++n) {
    const std::vector<float> a = random_floats(n, random), b = random_floats(n, random);
    const auto at = [](const std::vector<float>& v, int i) {
      return v[static_cast<std::size_t>(i)];
    };
    const auto expect = [&](const std::vector<float>& y, auto formula) {
      for (int i = 0; i < n; ++i) EXPECT_EQ(bits(at(y, i)), bits(formula(i))) << i << " of " << n;
    };
    expect(same_bits(n, [&](const RowKernels& t, float* y) { t.add(a.data(), b.data(), y, n); }),
           [&](int i) { return at(a, i) + at(b, i); });
    expect(same_bits(n, [&](const RowKernels& t, float* y) { t.mul(a.data(), b.data(), y, n); }),
           [&](int i) { return at(a, i) * at(b, i); });
    const auto scaled = [&](const float* residual) {
      return same_bits(n, [&](const RowKernels& t, float* y) {
        std::copy(a.begin(), a.end(), y);
        t.scale_add(y, 0.3F, residual, n);
      });
    };
    expect(scaled(b.data()), [&](int i) {
      const float product = at(a, i) * 0.3F;
      return product + at(b, i);
    });
    expect(scaled(nullptr), [&](int i) { return at(a, i) * 0.3F; });
    same_bits(n, [&](const RowKernels& t, float* y) {
      t.glu(ActivationKind::silu, a.data(), b.data(), y, n);
    });
    const std::vector<float> capped = same_bits(n, [&](const RowKernels& t, float* y) {
      for (int i = 0; i < n; ++i) y[i] = at(a, i) * 40.0F;
      t.softcap(y, 30.0F, n);
    });
    for (int i = 0; i < n; ++i)
      EXPECT_NEAR(at(capped, i), 30.0 * std::tanh(static_cast<double>(at(a, i)) * 40.0 / 30.0),
                  3e-5);
  }
}

TEST(RowHalf, ConversionsAgreeWithTheScalarOnes) {
  std::vector<float> x;
  for (std::uint32_t i = 0; i < 0x10000; ++i)
    x.push_back(std::bit_cast<float>(i << 16 | (i * 40503U & 0xFFFFU)));
  const int n = static_cast<int>(x.size()) - 3;
  for (const RowKernels* table : available_row_kernels()) {
    std::vector<std::uint16_t> halves(x.size(), 0x1234);
    table->to_f16(x.data(), halves.data(), n);
    EXPECT_EQ(halves[static_cast<std::size_t>(n)], 0x1234) << "wrote past the end";
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const std::uint16_t want = f32_to_f16(x[i]);
      if (std::isnan(x[i])) {
        EXPECT_GT(halves[i] & 0x7FFFU, 0x7C00U);
      } else {
        ASSERT_EQ(halves[i], want) << table->isa << " " << x[i];
      }
    }
    std::ranges::fill(halves, 0x1234);
    table->to_bf16(x.data(), halves.data(), n);
    EXPECT_EQ(halves[static_cast<std::size_t>(n)], 0x1234) << "wrote past the end";
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      ASSERT_EQ(halves[i], f32_to_bf16(x[i])) << table->isa << " " << x[i];
    }
    std::vector<std::uint16_t> all(0x10000);
    for (std::uint32_t i = 0; i < 0x10000; ++i) all[i] = static_cast<std::uint16_t>(i);
    std::vector<float> back(0x10000, 5.0F);
    table->from_f16(all.data(), back.data(), 0xFFFB);
    EXPECT_EQ(back[0xFFFB], 5.0F);
    for (std::size_t i = 0; i < 0xFFFB; ++i) {
      const float want = f16_to_f32(static_cast<std::uint16_t>(i));
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(back[i]));
      } else {
        ASSERT_EQ(bits(back[i]), bits(want)) << table->isa << " " << i;
      }
    }
  }
}

TEST(RowNorm, EveryLengthIsRightAndEqualEverywhere) {
  std::mt19937 random(3);
  for (const int n : {1, 5, 16, 17, 40, 64, 576, 577}) {
    const std::vector<float> x = random_floats(n, random), w = random_floats(n, random);
    const std::vector<float> b = random_floats(n, random), r = random_floats(n, random);
    for (int variant = 0; variant < 8; ++variant) {
      const bool layer = (variant & 1) != 0, full = (variant & 2) != 0, offset = (variant & 4) != 0;
      const std::vector<float> y = same_bits(n, [&](const RowKernels& table, float* out) {
        table.norm({x.data(), w.data(), full ? b.data() : nullptr, full ? r.data() : nullptr, out,
                    n, 1e-5F, offset ? 1.0F : 0.0F, layer});
      });
      double mean = 0.0, squares = 0.0;
      for (const float v : x) mean += layer ? static_cast<double>(v) / n : 0.0;
      for (const float v : x) squares += (v - mean) * (v - mean);
      const double scale = 1.0 / std::sqrt(squares / n + 1e-5);
      for (std::size_t i = 0; i < x.size(); ++i) {
        double want = (x[i] - mean) * scale * (w[i] + (offset ? 1.0 : 0.0));
        const double size = std::abs(want) + std::abs(mean * scale * w[i]);
        if (full) want += static_cast<double>(b[i]) + static_cast<double>(r[i]);
        EXPECT_NEAR(static_cast<double>(y[i]), want, 3e-6 * (size + 1.0)) << n << " " << variant;
      }
    }
  }
}

TEST(RowNorm, NullWeightsAreOnesAndOutMayBeTheResidual) {
  std::mt19937 random(4);
  const int n = 35;
  const std::vector<float> x = random_floats(n, random), ones(static_cast<std::size_t>(n), 1.0F);
  for (const RowKernels* table : available_row_kernels()) {
    std::vector<float> a = x, b = x;
    table->norm({x.data(), ones.data(), nullptr, a.data(), a.data(), n, 1e-6F, 0.0F, false});
    table->norm({x.data(), nullptr, nullptr, b.data(), b.data(), n, 1e-6F, 0.0F, false});
    EXPECT_EQ(a, b);
  }
}

TEST(RowRope, RotatesPairsInBothOrders) {
  std::mt19937 random(5);
  for (const int dim : {2, 6, 32, 40, 64, 128}) {
    const int half = dim / 2;
    const std::vector<float> x = random_floats(dim, random);
    std::vector<float> c, s;
    for (int i = 0; i < half; ++i) c.push_back(std::cos(0.1F * static_cast<float>(i + 1)));
    for (int i = 0; i < half; ++i) s.push_back(std::sin(0.1F * static_cast<float>(i + 1)));
    for (const bool adjacent : {false, true}) {
      const std::vector<float> y = same_bits(dim, [&](const RowKernels& table, float* out) {
        std::copy(x.begin(), x.end(), out);
        table.rope({out, c.data(), s.data(), dim, adjacent});
      });
      for (int i = 0; i < half; ++i) {
        const auto p = static_cast<std::size_t>(adjacent ? 2 * i : i);
        const auto q = static_cast<std::size_t>(adjacent ? 2 * i + 1 : i + half);
        const auto j = static_cast<std::size_t>(i);
        const float xc = x[p] * c[j], xs = x[p] * s[j], yc = x[q] * c[j], ys = x[q] * s[j];
        EXPECT_EQ(bits(y[p]), bits(xc - ys));
        EXPECT_EQ(bits(y[q]), bits(xs + yc));
      }
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
