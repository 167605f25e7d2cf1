// Kernels of layers with a state: against doubles, with equal bits on every instruction set, and
// however the tokens are cut into calls.
#include "kernels/state_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/dispatch.hpp"

namespace orrery::kernels {
namespace {

std::vector<float> random_floats(std::size_t n, std::uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& x : values) x = normal(rng);
  return values;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want[i]), bound * (1.0 + std::abs(want[i]))) << i;
  }
}

TEST(StateKernels, DecayIsExactOverItsRange) {
  std::vector<float> raw;
  for (float x = -90.0F; x < 90.0F; x += 0.37F) raw.push_back(x);
  for (const RowKernels* rows : available_row_kernels()) {
    for (std::size_t i = 0; i < raw.size(); i += 16) {
      const int n = static_cast<int>(std::min<std::size_t>(16, raw.size() - i));
      float dt[16], decay[16];
      rows->state->decay(&raw[i], 0.25F, -0.5F, n, dt, decay);
      for (int t = 0; t < n; ++t) {
        const double x = double{raw[i + static_cast<std::size_t>(t)] + 0.25F};
        const double want = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
        // Below e^-87 the exponential is zero.
        EXPECT_NEAR(dt[t], want, 4e-7 * want + 1e-37) << rows->isa << " at " << x;
        EXPECT_NEAR(decay[t], std::exp(-0.5 * want), 1e-5 * std::exp(-0.5 * want) + 1e-37);
      }
    }
  }
}

TEST(StateKernels, L2NormAgainstDoubles) {
  for (const int n : {1, 16, 24, 128}) {
    const std::vector<float> x = random_floats(static_cast<std::size_t>(n), 3);
    double squares = 1e-6;
    for (const float v : x) squares += double{v} * v;
    std::vector<double> want(x.begin(), x.end());
    for (double& v : want) v *= 0.25 / std::sqrt(squares);
    for (const RowKernels* rows : available_row_kernels()) {
      std::vector<float> got(x.size());
      rows->state->l2_norm(x.data(), n, 1e-6F, 0.25F, got.data());
      expect_near(got, want, 1e-6);
    }
  }
}

// A head with random tokens, and what runs of them give.
struct Head {
  static constexpr int kCount = 11;
  int k, v;
  std::vector<float> q, key, value, decay, beta, start;

  Head(int k_dim, int v_dim) : k(k_dim), v(v_dim) {
    const auto rows = [&](int n, std::uint32_t seed) {
      return random_floats(static_cast<std::size_t>(kCount) * static_cast<std::size_t>(n), seed);
    };
    q = rows(k, 1);
    key = rows(k, 2);
    value = rows(v, 3);
    decay = rows(1, 4);
    beta = rows(1, 5);
    for (float& x : key) x /= std::sqrt(static_cast<float>(k));
    for (float& x : decay) x = 1.0F / (1.0F + std::exp(-x));
    start = random_floats(static_cast<std::size_t>(k * v), 6);
  }

  struct Outcome {
    std::vector<float> out, state;
    bool operator==(const Outcome&) const = default;
  };
  // The tokens in calls of at most `most`, from `start` or, where that is false, from zeros.
  Outcome run(const RowKernels& rows, bool scan, int most, bool from_start) const {
    Outcome o{std::vector<float>(value.size()), std::vector<float>(start.size(), NAN)};
    for (int first = 0; first < kCount; first += most) {
      StateToken tokens[kStateTokens];
      const int n = std::min(most, kCount - first);
      for (int t = 0; t < n; ++t) {
        const int i = first + t;
        tokens[t] = {
            &q[static_cast<std::size_t>(i * k)],     &key[static_cast<std::size_t>(i * k)],
            &value[static_cast<std::size_t>(i * v)], &o.out[static_cast<std::size_t>(i * v)],
            decay[static_cast<std::size_t>(i)],      beta[static_cast<std::size_t>(i)]};
      }
      const float* before = first > 0 ? o.state.data() : from_start ? start.data() : nullptr;
      const StateTokens args{before, o.state.data(), tokens, n, k, v, 0.5F};
      scan ? rows.state->scan(args) : rows.state->delta(args);
    }
    return o;
  }

  std::vector<double> expected(bool scan) const {
    std::vector<double> s(start.begin(), start.end()), out;
    for (int t = 0; t < kCount; ++t) {
      const float *qt = &q[static_cast<std::size_t>(t * k)],
                  *kt = &key[static_cast<std::size_t>(t * k)];
      for (int j = 0; j < v; ++j) {
        const double x = value[static_cast<std::size_t>(t * v + j)],
                     b = beta[static_cast<std::size_t>(t)];
        double known = 0, sum = scan ? 0.5 * x : 0.0;
        for (int i = 0; i < k; ++i)
          s[static_cast<std::size_t>(i * v + j)] *= decay[static_cast<std::size_t>(t)];
        for (int i = 0; i < k && !scan; ++i)
          known += s[static_cast<std::size_t>(i * v + j)] * kt[i];
        for (int i = 0; i < k; ++i) {
          double& cell = s[static_cast<std::size_t>(i * v + j)];
          cell += kt[i] * b * (x - known);
          sum += cell * qt[i];
        }
        out.push_back(sum);
      }
    }
    return out;
  }
};

class Recurrences : public testing::TestWithParam<bool> {};

TEST_P(Recurrences, AgainstDoublesAndWithEqualBits) {
  for (const auto& [k, v] :
       {std::pair(16, 16), std::pair(24, 20), std::pair(5, 80), std::pair(128, 64)}) {
    const Head head(k, v);
    const std::vector<double> want = head.expected(GetParam());
    const auto first = head.run(*available_row_kernels().front(), GetParam(), 16, true);
    for (const RowKernels* rows : available_row_kernels()) {
      const auto whole = head.run(*rows, GetParam(), 16, true);
      expect_near(whole.out, want, 2e-5);
      EXPECT_EQ(whole, first) << rows->isa;
      for (const int most : {1, 3, 4, 7}) {
        EXPECT_EQ(head.run(*rows, GetParam(), most, true), whole) << rows->isa << " " << most;
      }
    }
  }
}

TEST_P(Recurrences, BeginWithZeros) {
  Head head(24, 20);
  for (const RowKernels* rows : available_row_kernels()) {
    const auto fresh = head.run(*rows, GetParam(), 5, false);
    head.start.assign(head.start.size(), 0.0F);
    EXPECT_EQ(head.run(*rows, GetParam(), 5, true), fresh);
  }
}

INSTANTIATE_TEST_SUITE_P(ScanAndDelta, Recurrences, testing::Bool());

// 45 channels, 4 taps and 32 tokens: rows against doubles, blocks against rows.
struct Convolution {
  static constexpr int kChannels = 45, kTaps = 4, kTokens = 32;
  std::vector<float> x = random_floats(kChannels * kTokens, 1);  // (tokens, channels)
  std::vector<float> gate_in = random_floats(kChannels * kTokens, 2);
  std::vector<float> gate_out = random_floats(kChannels * kTokens, 3);
  std::vector<float> filter = random_floats(kChannels * kTaps, 4);
  std::vector<float> bias = random_floats(kChannels, 5);
  std::vector<float> history = random_floats(kChannels * (kTaps - 1), 6);

  Conv conv(float* state) const {
    return {nullptr,     nullptr,   state, state,     filter.data(),
            bias.data(), kChannels, kTaps, kChannels, ActivationKind::silu};
  }
  std::vector<double> expected() const {
    std::vector<double> out, inputs(history.begin(), history.end());
    for (int i = 0; i < kTokens * kChannels; ++i) {
      inputs.push_back(double{x[static_cast<std::size_t>(i)]} *
                       gate_in[static_cast<std::size_t>(i)]);
    }
    for (int t = 0; t < kTokens; ++t) {
      for (int c = 0; c < kChannels; ++c) {
        double y = bias[static_cast<std::size_t>(c)];
        for (int j = 0; j < kTaps; ++j) {
          y += double{filter[static_cast<std::size_t>(j * kChannels + c)]} *
               inputs[static_cast<std::size_t>((t + j) * kChannels + c)];
        }
        out.push_back(y / (1.0 + std::exp(-y)) *
                      gate_out[static_cast<std::size_t>(t * kChannels + c)]);
      }
    }
    return out;
  }
  std::vector<float> by_rows(const StateKernels& kernels, std::vector<float>& state) const {
    std::vector<float> out(x.size());
    for (std::size_t at = 0; at < x.size(); at += kChannels) {
      ConvRow row{conv(state.data()), &x[at], &out[at]};
      row.conv.gate_in = &gate_in[at];
      row.conv.gate_out = &gate_out[at];
      kernels.conv_row(row);
    }
    return out;
  }
  static std::vector<float> transposed(const std::vector<float>& a, int rows, int cols) {
    std::vector<float> b(a.size());
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        b[static_cast<std::size_t>(c * rows + r)] = a[static_cast<std::size_t>(r * cols + c)];
      }
    }
    return b;
  }
  std::vector<float> by_blocks(const StateKernels& kernels, std::vector<float>& state,
                               std::vector<int> ends) const {
    const std::vector<float> fx = transposed(x, kTokens, kChannels);
    const std::vector<float> fin = transposed(gate_in, kTokens, kChannels);
    const std::vector<float> fout = transposed(gate_out, kTokens, kChannels);
    std::vector<float> out(x.size());
    int begin = 0;
    for (const int end : ends) {
      ConvBlock block{conv(state.data()), fx.data(), out.data(), begin, end};
      block.conv.gate_in = fin.data();
      block.conv.gate_out = fout.data();
      kernels.conv_block(block);
      begin = end;
    }
    return transposed(out, kChannels, kTokens);
  }
};

TEST(StateKernels, ConvolutionAgainstDoublesAndWithEqualBits) {
  const Convolution c;
  const std::vector<double> want = c.expected();
  std::vector<float> first_out;
  for (const RowKernels* rows : available_row_kernels()) {
    std::vector<float> state = c.history;
    const std::vector<float> out = c.by_rows(*rows->state, state);
    expect_near(out, want, 1e-5);
    if (first_out.empty()) first_out = out;
    EXPECT_EQ(out, first_out) << rows->isa;
    for (const std::vector<int>& ends :
         {std::vector{32}, std::vector{16, 32}, std::vector{1, 2, 19, 32}}) {
      std::vector<float> block_state = c.history;
      EXPECT_EQ(c.by_blocks(*rows->state, block_state, ends), out) << rows->isa;
      EXPECT_EQ(block_state, state);
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
