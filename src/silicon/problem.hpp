// The operands of a benchmark of products, Y (m, n) = X (m, k) W (n, k)^T, as f32 rows and as files
// have weights.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "kernels/row_kernels.hpp"
#include "memory/region.hpp"

namespace orrery::silicon {

// Weights of a column of the report. int8 and int4 are Q8_0 and Q4_0: blocks of 32 with one scale.
enum class WeightType : std::uint8_t { f32, bf16, int8, int4 };
inline constexpr WeightType kWeightTypes[] = {WeightType::f32, WeightType::bf16, WeightType::int8,
                                              WeightType::int4};
std::string_view name_of(WeightType type);
DType dtype_of(WeightType type);
// Whether rows of k weights are whole blocks.
bool fits(WeightType type, int k);

// What a system library does with X and W, and what class b16 does: operands rounded to bf16.
enum class Precision : std::uint8_t { f32, b16 };

struct Problem {
  int m = 0, n = 0, k = 0;
  memory::Region x_memory, w_memory;

  // E_MEMORY. Values are uniform in [-1, 1); the same seed gives the same ones.
  static Result<Problem> make(int m, int n, int k, std::uint64_t seed = 1);
  const float* x() const { return reinterpret_cast<const float*>(x_memory.data()); }  // (m, k)
  const float* w() const { return reinterpret_cast<const float*>(w_memory.data()); }  // (n, k)

  // The rows of W in that type. f32 is w() itself and gives an empty region.
  Result<memory::Region> encode(WeightType type, const kernels::RowKernels& rows) const;

  // Output (row of X, row of W) in double precision, from operands as they are multiplied, and how
  // far f32 sums of its k products, in any order, may be from it.
  struct Expected {
    double value, bound;
  };
  Expected expected(WeightType type, Precision precision, int x_row, int w_row) const;
};

}  // namespace orrery::silicon
