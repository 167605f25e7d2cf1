// The block matmul on Apple AMX words, executed by the emulator: against sums in double precision,
// bit for bit against a chain of fma, and with the number of words that the shape demands.
// scripts/test_apple_amx builds and runs it, for AArch64.
#include "kernels/block_support.hpp"
#include "kernels/block_weights.hpp"
#include "support/apple_amx_emulator.hpp"

namespace orrery::kernels {

extern "C" {
extern const BlockKernels orrery_blocks_apple_amx;
}

namespace {

const BlockKernels& kernels = orrery_blocks_apple_amx;

class AppleAmxTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { test::install_apple_amx_emulator(); }
  void SetUp() override { test::reset_apple_amx_counts(); }
};

struct Shape {
  DType type;
  int n, m, k;
};

// w (n, k) in the file's form and rounded to bf16, x (m, k) rounded to bf16.
struct Problem {
  Shape shape;
  std::vector<std::byte> file;
  std::vector<float> w, x;

  explicit Problem(const Shape& s) : shape(s), w(std::size_t(s.n) * s.k) {
    const std::size_t stride = row_bytes(s.type, s.k);
    file = RandomBlocks(s.k).make(s.type, s.n * stride / dtype_info(s.type).block_bytes);
    for (int r = 0; r < s.n; ++r) {
      decode_row(s.type, file.data() + r * stride, w.data() + std::size_t(r) * s.k, s.k);
    }
    x = random_floats(std::size_t(s.m) * s.k, 7);
    for (float& v : w) v = rounded_bf16(v);
    for (float& v : x) v = rounded_bf16(v);
  }

  // F blocks of n features.
  std::vector<float> run() const {
    const auto& [type, n, m, k] = shape;
    const int blocks = (m + 31) / 32;
    Aligned<float> f(std::size_t(blocks) * k * 32);
    fill_f_blocks(x, m, k, 1.0F, f.data());
    Aligned<std::uint16_t> x_blocks(std::size_t(blocks) * round_up(k, 32) * 32);
    for (int b = 0; b < blocks; ++b) {
      kernels.to_x(f.data() + std::size_t(b) * k * 32, k,
                   x_blocks.data() + std::size_t(b) * round_up(k, 32) * 32);
    }
    Aligned<std::byte> scratch(kernels.matmul_scratch_bytes(k), std::byte{0xFF});
    std::vector<float> out(std::size_t(blocks) * 32 * n, NAN);
    MatmulBlocks call = {};
    call.w = file.data(), call.w_stride = row_bytes(type, k);
    call.n = n, call.k = k, call.x = x_blocks.data(), call.m = m, call.scratch = scratch.data();
    call.scale = 1.0F, call.out_f = out.data(), call.features = n;
    kernels.matmul[static_cast<int>(type)](call);
    return out;
  }
};

void expect_reference(const Shape& shape) {
  const auto& [type, n, m, k] = shape;
  const Problem p(shape);
  const std::vector<float> out = p.run();
  for (int r = 0; r < n; ++r) {
    for (int t = 0; t < m; ++t) {
      double sum = 0, size = 0;
      float chain = 0.0F;
      for (int i = 0; i < k; ++i) {
        const float w = p.w[std::size_t(r) * k + i], x = p.x[std::size_t(t) * k + i];
        sum += double(w) * x, size += std::abs(double(w) * x);
        chain = std::fma(w, x, chain);
      }
      const float y = f_value(out.data(), n, t, r);
      ASSERT_NEAR(y, sum, gamma_f32(k) * size)
          << dtype_info(type).name << " row " << r << " token " << t;
      ASSERT_EQ(y, chain) << dtype_info(type).name << " row " << r << " token " << t;
    }
  }
}

TEST_F(AppleAmxTest, ShapesMatchTheReferenceBitForBit) {
  const Shape shapes[] = {{DType::f32, 32, 32, 32},  {DType::f16, 33, 1, 45},
                          {DType::bf16, 40, 33, 64}, {DType::q8_0, 64, 16, 96},
                          {DType::q4_0, 1, 32, 64},  {DType::q6_k, 32, 33, 768}};
  kernels.thread_begin();
  for (const Shape& shape : shapes) expect_reference(shape);
  kernels.thread_end();
}

TEST_F(AppleAmxTest, EveryTypeMatchesTheReferenceBitForBit) {
  kernels.thread_begin();
  for (const DType type : all_weight_types()) expect_reference({type, 5, 3, 256});
  kernels.thread_end();
}

// 32 rows x 32 tokens are four tiles; a k step of 32 is 16 pairs, each with four loads and, for
// every tile, an even and an odd product.
TEST_F(AppleAmxTest, ExecutesTheWordsThatTheShapeDemands) {
  const int k = 768, steps = k / 32, blocks = 2 * 3;  // 24 steps: two parts of K
  kernels.thread_begin();
  Problem({DType::q8_0, 33, 65, k}).run();
  kernels.thread_end();
  const test::AppleAmxCounts counts = test::apple_amx_counts();
  EXPECT_EQ(counts.products, std::uint64_t{blocks * steps * 16 * 4 * 2});
  EXPECT_EQ(counts.load_x, std::uint64_t{blocks * steps * 16 * 2});
  EXPECT_EQ(counts.load_y, std::uint64_t{blocks * steps * 16 * 2});
  EXPECT_EQ(counts.zeros, std::uint64_t{blocks * 4});         // the first part
  EXPECT_EQ(counts.load_z, std::uint64_t{blocks * 64});       // the second part
  EXPECT_EQ(counts.store_z, std::uint64_t{blocks * 64 * 2});  // both
  EXPECT_EQ(counts.set, 1U);
  EXPECT_EQ(counts.clr, 1U);
  std::printf("executed %d products of 16 x 16\n", static_cast<int>(counts.products));
}

// Words as published, with the operand in x0: 0x201000 + 32 operation (+ the immediate of 17).
template <std::uint32_t kWord>
void raw(std::uint64_t operand) {
  asm volatile("mov x0, %0\n.word %c1" ::"r"(operand), "i"(kWord) : "x0", "memory");
}

TEST_F(AppleAmxTest, MisuseAndUnknownWordsEndTheProcess) {
  alignas(128) static float memory[64];
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  EXPECT_DEATH(raw<0x201180>(0), "used while off, word 0x00201180");
  EXPECT_DEATH((raw<0x201220>(0), raw<0x201220>(0)), "set while on");
  EXPECT_DEATH(raw<0x201221>(0), "clr while off");
  EXPECT_DEATH((raw<0x201220>(0), raw<0x2012A0>(0)), "an operation that it does not know");
  EXPECT_DEATH((raw<0x201220>(0), raw<0x201180>(std::uint64_t{1} << 63)), "a mode of fma32");
  EXPECT_DEATH((raw<0x201220>(0), raw<0x201000>((address + 64) | std::uint64_t{1} << 62)),
               "not aligned to 128 bytes");
  EXPECT_DEATH(asm volatile(".word 0"), "no AMX instruction");
}

}  // namespace
}  // namespace orrery::kernels
