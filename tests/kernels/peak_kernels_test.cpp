// The loops of the rooflines: they read every byte, and count what they do.
#include "kernels/peak_kernels.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/dispatch.hpp"

namespace orrery::kernels {
namespace {

TEST(PeakKernels, ReadsDependOnEveryByte) {
  for (const KernelSet& set : available_kernels()) {
    const PeakKernels& peaks = peak_kernels(set);
    std::vector<std::uint8_t> bytes(1037, 0);  // pieces of 256 and a rest
    EXPECT_EQ(peaks.read(bytes.data(), bytes.size()), 0U);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = 1;
      EXPECT_NE(peaks.read(bytes.data(), bytes.size()), 0U) << peaks.isa << " " << i;
      EXPECT_NE(peaks.read_ahead(bytes.data(), bytes.size()), 0U) << peaks.isa << " " << i;
      bytes[i] = 0;
    }
  }
}

TEST(PeakKernels, OperationsGrowWithTheRounds) {
  for (const KernelSet& set : available_kernels()) {
    const PeakKernels& peaks = peak_kernels(set);
    for (const auto multiply :
         {peaks.multiply_f32, peaks.multiply_i8, peaks.multiply_bf16, peaks.multiply_tile}) {
      if (multiply == nullptr) continue;
      const double one = multiply(1);
      EXPECT_GE(one, 2 * 16) << peaks.isa;
      EXPECT_EQ(multiply(1000), 1000 * one) << peaks.isa;
    }
  }
}

// Each set is held against its own instructions, not against others'.
TEST(PeakKernels, BelongToTheSet) {
  for (const KernelSet& set : available_kernels()) {
    const PeakKernels& peaks = peak_kernels(set);
    const bool tiles = set.name == "amx";
    EXPECT_EQ(peaks.multiply_tile != nullptr, tiles) << set.name;
    EXPECT_EQ(peaks.multiply_bf16 != nullptr, tiles || set.name == "avx512_bf16") << set.name;
    EXPECT_NE(peaks.multiply_f32, nullptr);
    EXPECT_NE(peaks.multiply_i8, nullptr);
    EXPECT_EQ(set.name.rfind(peaks.isa, 0), 0U) << set.name << " " << peaks.isa;
  }
}

}  // namespace
}  // namespace orrery::kernels
