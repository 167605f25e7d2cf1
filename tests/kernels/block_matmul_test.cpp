// Block matmul of every type, shape and instruction set against sums in double precision.
#include <map>
#include <string>
#include <utility>

#include "kernels/block_support.hpp"
#include "kernels/block_weights.hpp"
#include "support/sanitized.hpp"

namespace orrery::kernels {
namespace {

constexpr int kMaxRows = 128, kMaxTokens = 70;

double reference_activation(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::silu:
      return x / (1.0 + std::exp(-x));
    case ActivationKind::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::gelu_erf:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case ActivationKind::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case ActivationKind::swiglu_clamped:
      return std::min(x, 7.0) / (1.0 + std::exp(-1.702 * std::min(x, 7.0)));
    case ActivationKind::none:
      break;
  }
  return x;
}

// Weights (rows, k) and activations (kMaxTokens, k) of one type, with exact sums.
struct Problem {
  DType type;
  int k;
  std::size_t stride;
  std::vector<std::byte> w;
  std::vector<float> x;         // (kMaxTokens, k), before rounding
  std::vector<double> y, size;  // (kMaxRows, kMaxTokens): sum w x, sum |w x|

  Problem(DType dtype, int k_, unsigned seed) : type(dtype), k(k_) {
    stride = row_bytes(type, k);
    w = RandomBlocks(seed).make(type, kMaxRows * stride / dtype_info(type).block_bytes);
    x = random_floats(std::size_t(kMaxTokens) * k, seed + 1);
    std::vector<float> row(k);
    for (int r = 0; r < kMaxRows; ++r) {
      decode_row(type, w.data() + r * stride, row.data(), k);
      for (float& v : row) v = rounded_bf16(v);
      for (int t = 0; t < kMaxTokens; ++t) {
        double sum = 0, absolute = 0;
        for (int i = 0; i < k; ++i) {
          const double product = double(row[i]) * rounded_bf16(x[std::size_t(t) * k + i]);
          sum += product, absolute += std::abs(product);
        }
        y.push_back(sum), size.push_back(absolute);
      }
    }
  }
  double exact(int row, int token) const { return y[std::size_t(row) * kMaxTokens + token]; }
  // Any order of k additions, plus the last roundings.
  double bound(int row, int token) const {
    const std::size_t at = std::size_t(row) * kMaxTokens + token;
    return gamma_f32(k + 4) * size[at] + 0x1p-22 * std::abs(y[at]) + 1e-30;
  }
  // X blocks of the first m tokens.
  void fill_x(const BlockKernels& blocks, int m, std::uint16_t* target) const {
    Aligned<float> f(std::size_t(k) * 32);
    for (int b = 0; b < (m + 31) / 32; ++b) {
      for (int i = 0; i < k; ++i) {
        for (int t = 0; t < 32; ++t) {
          const int token = 32 * b + t;
          f[std::size_t(i) * 32 + t] = token < m ? x[std::size_t(token) * k + i] : 1.0F;
        }
      }
      blocks.to_x(f.data(), k, target + std::size_t(b) * round_up(k, 32) * 32);
    }
  }
};

// Its sums are computed once for all instruction sets.
const Problem& shared_problem(DType type, int k) {
  static std::map<std::pair<DType, int>, Problem> problems;
  const unsigned seed = 7 * static_cast<unsigned>(k) + static_cast<unsigned>(type);
  return problems.try_emplace({type, k}, type, k, seed).first->second;
}

MatmulBlocks plain_call(const Problem& p, int n, int m, const void* x, void* scratch, float* out) {
  MatmulBlocks call = {};
  call.w = p.w.data(), call.w_stride = p.stride;
  call.n = n, call.k = p.k, call.x = x, call.m = m, call.scratch = scratch;
  call.scale = 1.0F, call.out_f = out, call.features = n;
  return call;
}

class BlockMatmulTest : public BlockTest {
 protected:
  // The rows in tasks of task_rows.
  void run(const Problem& p, MatmulBlocks call, int task_rows) {
    const int n = call.n;
    const auto* w = static_cast<const std::byte*>(call.w);
    const auto* w_up = static_cast<const std::byte*>(call.w_up);
    const float *bias = call.bias, *bias_up = call.bias_up;
    Aligned<std::byte> scratch(blocks->matmul_scratch_bytes(p.k), std::byte{0xFF});
    call.scratch = scratch.data();
    for (call.row = 0; call.row < n; call.row += task_rows) {
      call.n = std::min(task_rows, n - call.row);
      call.w = w + call.row * p.stride;
      if (w_up != nullptr) call.w_up = w_up + call.row * p.stride;
      if (bias != nullptr) call.bias = bias + call.row;
      if (bias_up != nullptr) call.bias_up = bias_up + call.row;
      blocks->matmul[static_cast<int>(p.type)](call);
    }
  }
  std::vector<float> plain(const Problem& p, int n, int m, int task_rows) {
    Aligned<std::uint16_t> x(round_up(m, 32) * round_up(p.k, 32));
    p.fill_x(*blocks, m, x.data());
    std::vector<float> out(round_up(m, 32) * n, NAN);
    run(p, plain_call(p, n, m, x.data(), nullptr, out.data()), task_rows);
    return out;
  }
};

// Rows and tokens around the edges of tasks and blocks; under a sanitizer one below, at and above.
std::vector<int> row_counts() {
  if (test::kSanitized) return {31, 33, 128};
  return {1, 31, 32, 33, 96, 128};
}
std::vector<int> token_counts() {
  if (test::kSanitized) return {1, 32, 70};
  return {1, 16, 31, 32, 33, 70};
}

TEST_P(BlockMatmulTest, EveryTypeAndShapeMatchesTheReference) {
  for (const DType type : all_weight_types()) {
    ASSERT_NE(blocks->matmul[static_cast<int>(type)], nullptr) << dtype_info(type).name;
    const int block = static_cast<int>(dtype_info(type).block_len);
    for (const int k : {32, 64, 96, 576, 1, 45, 256, 768}) {
      if (k % block != 0 || (block == 1 && k > 600)) continue;
      const Problem& p = shared_problem(type, k);
      for (const int n : row_counts()) {
        for (const int m : token_counts()) {
          const std::vector<float> out = plain(p, n, m, blocks->task_rows);
          for (int r = 0; r < n; ++r) {
            for (int t = 0; t < m; ++t) {
              if (std::abs(f_value(out.data(), n, t, r) - p.exact(r, t)) <= p.bound(r, t)) continue;
              FAIL() << f_value(out.data(), n, t, r) << " for " << p.exact(r, t) << ": "
                     << dtype_info(type).name << " k " << k << " n " << n << " m " << m << " row "
                     << r << " token " << t;
            }
          }
        }
      }
    }
  }
}

TEST_P(BlockMatmulTest, PartsOfKMatchTheReference) {
  const Problem p(DType::q4_k, 4864, 3);
  const std::vector<float> out = plain(p, 128, 70, blocks->task_rows);
  for (int r = 0; r < 128; ++r) {
    for (int t = 0; t < 70; ++t) {
      ASSERT_NEAR(f_value(out.data(), 128, t, r), p.exact(r, t), p.bound(r, t)) << r << " " << t;
    }
  }
}

TEST_P(BlockMatmulTest, BitsDependNeitherOnTasksNorOnTokens) {
  for (const int k : {576, 1536}) {
    const Problem p(DType::q8_0, k, 11);
    const std::vector<float> whole = plain(p, 128, 70, blocks->task_rows);
    const std::vector<float> split = plain(p, 128, 70, 32);
    ASSERT_EQ(std::memcmp(whole.data(), split.data(), whole.size() * 4), 0) << k;
    const std::vector<float> one = plain(p, 128, 1, blocks->task_rows);
    for (int r = 0; r < 128; ++r) {
      ASSERT_EQ(f_value(whole.data(), 128, 0, r), f_value(one.data(), 128, 0, r)) << k;
    }
  }
}

TEST_P(BlockMatmulTest, TokensBeyondOneGroupOfBlocks) {
  const int k = 704, n = 32, m = 32 * 19;  // two parts of K and more than 16 token blocks
  const Problem p(DType::f16, k, 5);
  Aligned<std::uint16_t> x(std::size_t(m) * k);
  for (int b = 0; b < m / 32; ++b) p.fill_x(*blocks, 32, x.data() + std::size_t(b) * 32 * k);
  std::vector<float> out(std::size_t(m) * n, NAN);
  run(p, plain_call(p, n, m, x.data(), nullptr, out.data()), 32);
  for (int r = 0; r < n; ++r) {
    for (int t = 0; t < m; ++t) {
      ASSERT_NEAR(f_value(out.data(), n, t, r), p.exact(r, t % 32), p.bound(r, t % 32));
    }
  }
}

// So many activations that several panels pass them at once.
TEST_P(BlockMatmulTest, BitsOfTokensThatDoNotStayInL2) {
  const int k = 4864, m = 32 * 4;
  const Problem p(DType::q4_k, k, 9);
  Aligned<std::uint16_t> x(std::size_t(m) * k);
  for (int b = 0; b < m / 32; ++b) p.fill_x(*blocks, 32, x.data() + std::size_t(b) * 32 * k);
  std::vector<float> few(32 * 128, NAN), many(std::size_t(m) * 128, NAN);
  run(p, plain_call(p, 128, 32, x.data(), nullptr, few.data()), 128);
  run(p, plain_call(p, 128, m, x.data(), nullptr, many.data()), 128);
  for (int b = 0; b < m / 32; ++b) {
    ASSERT_EQ(std::memcmp(few.data(), many.data() + std::size_t(b) * 32 * 128, 32 * 128 * 4), 0)
        << b;
  }
  for (int r = 0; r < 128; ++r) {
    ASSERT_NEAR(f_value(few.data(), 128, 31, r), p.exact(r, 31), p.bound(r, 31));
  }
}

// Of few token blocks panels are unpacked beside the products.
TEST_P(BlockMatmulTest, BitsOfFewTokens) {
  constexpr int kMany = 96;
  const int n = 112;
  const std::vector<float> bias = random_floats(n, 1);
  const std::vector<float> residual = random_floats(kMany * n, 3);
  for (const auto& [type, k] : {std::pair{DType::q4_k, 768}, std::pair{DType::q6_k, 1280},
                                std::pair{DType::q8_0, 1440}, std::pair{DType::f16, 1100}}) {
    const Problem p(type, k, 17);
    const std::size_t block = 32 * static_cast<std::size_t>(round_up(k, 32));
    Aligned<std::uint16_t> x(kMany / 32 * block);
    for (int b = 0; b < kMany / 32; ++b) p.fill_x(*blocks, 32, x.data() + b * block);
    for (const bool glu : {false, true}) {
      const auto run_all = [&](int m, float* out, std::uint16_t* out_x) {
        MatmulBlocks call = plain_call(p, n, m, x.data(), nullptr, out);
        if (glu) call.w_up = p.w.data() + 16 * p.stride, call.activation = ActivationKind::silu;
        call.bias = bias.data(), call.bias_up = glu ? bias.data() : nullptr;
        call.residual = residual.data(), call.out_x = out_x;
        run(p, call, 64);
      };
      std::vector<float> many(kMany * n, NAN);
      Aligned<std::uint16_t> many_x(kMany * round_up(n, 32));
      run_all(kMany, many.data(), many_x.data());
      for (const int m : {1, 32, 33, 64}) {
        const std::size_t tokens = static_cast<std::size_t>(round_up(m, 32));
        std::vector<float> few(tokens * n, NAN);
        Aligned<std::uint16_t> few_x(tokens * round_up(n, 32));
        run_all(m, few.data(), few_x.data());
        for (int t = 0; t < m; ++t) {
          for (int r = 0; r < n; ++r) {
            ASSERT_EQ(f_value(few.data(), n, t, r), f_value(many.data(), n, t, r))
                << dtype_info(type).name << " m " << m << " glu " << glu << ": " << r << " " << t;
            ASSERT_EQ(x_bits(few_x.data(), n, t, r), x_bits(many_x.data(), n, t, r));
          }
        }
      }
    }
  }
}

TEST_P(BlockMatmulTest, EpilogueAppliesBiasActivationScaleAndResidual) {
  const int k = 96, n = 80, m = 33;
  const Problem p(DType::q5_0, k, 21), up(DType::q5_0, k, 22);
  const std::vector<float> bias = random_floats(n, 1), bias_up = random_floats(n, 2);
  const std::vector<float> residual = random_floats(64 * n, 3);
  Aligned<std::uint16_t> x(64 * k), out_x(64 * 96, 0xFFFF);
  p.fill_x(*blocks, m, x.data());
  for (const bool glu : {false, true}) {
    for (const ActivationKind kind :
         {ActivationKind::none, ActivationKind::silu, ActivationKind::gelu_tanh,
          ActivationKind::gelu_erf, ActivationKind::sigmoid, ActivationKind::swiglu_clamped}) {
      std::vector<float> out(64 * n, NAN);
      MatmulBlocks call = plain_call(p, n, m, x.data(), nullptr, out.data());
      call.bias = bias.data(), call.activation = kind, call.scale = 0.75F;
      call.residual = residual.data(), call.out_x = out_x.data();
      if (glu) call.w_up = up.w.data(), call.bias_up = bias_up.data();
      // The second problem has its own x: its exact sums are taken with the first one's.
      run(p, call, 64);
      std::vector<float> row(k);
      for (int r = 0; r < n; ++r) {
        decode_row(up.type, up.w.data() + r * up.stride, row.data(), k);
        for (int t = 0; t < m; ++t) {
          const double gate = reference_activation(kind, p.exact(r, t) + bias[r]);
          double factor = 1.0;
          if (glu) {
            factor = bias_up[r];
            for (int i = 0; i < k; ++i) {
              factor += double(rounded_bf16(row[i])) * rounded_bf16(p.x[std::size_t(t) * k + i]);
            }
          }
          if (glu && kind == ActivationKind::swiglu_clamped) {
            factor = 1.0 + std::clamp(factor, -7.0, 7.0);
          }
          const double y = gate * factor * 0.75 + f_value(residual.data(), n, t, r);
          const double bound =
              3e-5 * (1.0 + std::abs(gate) + std::abs(factor)) * (1.0 + std::abs(factor));
          ASSERT_NEAR(f_value(out.data(), n, t, r), y, bound) << r << " " << t << " glu " << glu;
          ASSERT_EQ(x_value(out_x.data(), n, t, r), rounded_bf16(f_value(out.data(), n, t, r)));
        }
      }
      for (int r = n; r < 96; ++r) ASSERT_EQ(x_bits(out_x.data(), n, 0, r), 0) << "padding " << r;
    }
  }
}

// Ends that most products have run beside the next product. With both outputs they run after it.
TEST_P(BlockMatmulTest, EndsBesideProductsHaveTheBitsOfThoseAfterThem) {
  struct End {
    bool glu, bias, residual, x;
    ActivationKind activation = ActivationKind::none;
  };
  const int n = 112, m = kMaxTokens;
  const std::vector<float> bias = random_floats(n, 1);
  const std::vector<float> residual = random_floats(round_up(m, 32) * n, 3);
  for (const int k : {32, 96, 320, 1024}) {  // one step, a few, many, parts
    const Problem& p = shared_problem(DType::q5_0, k);
    Aligned<std::uint16_t> x(round_up(m, 32) * k);
    p.fill_x(*blocks, m, x.data());
    for (const End& end : {End{false, false, false, true}, End{false, false, false, false},
                           End{false, true, false, false}, End{false, false, true, false},
                           End{true, false, false, true, ActivationKind::silu},
                           End{true, false, false, true, ActivationKind::gelu_tanh}}) {
      Aligned<std::uint16_t> out_x(round_up(m, 32) * round_up(n, 32), 0xFFFF);
      Aligned<std::uint16_t> x_of_both(out_x.size(), 0xFFFF);
      std::vector<float> out(round_up(m, 32) * n, NAN), both = out;
      MatmulBlocks call = plain_call(p, n, m, x.data(), nullptr, both.data());
      if (end.glu) call.w_up = p.w.data() + 16 * p.stride;
      if (end.bias) call.bias = bias.data();
      if (end.residual) call.residual = residual.data();
      call.activation = end.activation, call.out_x = x_of_both.data();
      run(p, call, 64);
      call.out_f = end.x ? nullptr : out.data(), call.out_x = end.x ? out_x.data() : nullptr;
      run(p, call, 64);
      const std::size_t f_bytes = both.size() * 4, x_bytes = out_x.size() * 2;
      ASSERT_EQ(end.x ? std::memcmp(out_x.data(), x_of_both.data(), x_bytes)
                      : std::memcmp(out.data(), both.data(), f_bytes),
                0)
          << "k " << k << " glu " << end.glu << " bias " << end.bias << " residual "
          << end.residual;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, BlockMatmulTest, kBlockIsas, isa_name);

}  // namespace
}  // namespace orrery::kernels
