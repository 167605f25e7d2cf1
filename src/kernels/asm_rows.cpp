#include "kernels/asm_rows.hpp"

namespace orrery::kernels {
namespace {

// y = one row of `blocks` Q4_0 blocks times one row of class i8: asm/q4_0_*.S.
#if defined(__x86_64__)
extern "C" void orrery_q4_0_row_avx512(const void* w, const std::int8_t* q, const float* d,
                                       const std::int16_t* sums, long blocks, float* y);
constexpr const char* kName = "avx512_asm";
constexpr auto* kRow = orrery_q4_0_row_avx512;
#elif defined(__aarch64__)
extern "C" void orrery_q4_0_row_dotprod(const void* w, const std::int8_t* q, const float* d,
                                        const std::int16_t* sums, long blocks, float* y);
constexpr const char* kName = "neon_asm";
constexpr auto* kRow = orrery_q4_0_row_dotprod;
#endif

#if defined(__x86_64__) || defined(__aarch64__)
void matmul_q4_0(const MatmulRows& a) {
  const Q8Layout layout = q8_layout(static_cast<std::size_t>(a.k));
  for (int r = 0; r < a.n; ++r) {
    const auto* w = static_cast<const std::byte*>(a.w) + static_cast<std::size_t>(r) * a.w_stride;
    for (int i = 0; i < a.m; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto* x = static_cast<const std::byte*>(a.x) + at * a.x_stride;
      kRow(w, reinterpret_cast<const std::int8_t*>(x),
           reinterpret_cast<const float*>(x + layout.d_offset),
           reinterpret_cast<const std::int16_t*>(x + layout.sums_offset), a.k / 32,
           a.y + at * a.y_stride + r);
    }
  }
}
#endif

}  // namespace

RowKernels with_assembly(const RowKernels& base) {
  RowKernels table = base;
#if defined(__x86_64__) || defined(__aarch64__)
  table.isa = kName;
  table.matmul[static_cast<int>(DType::q4_0)] = matmul_q4_0;
#endif
  return table;
}

}  // namespace orrery::kernels
