// The table of loops at the limits of one instruction set.
// ISAS: emu avx2 avx512 avx512_bf16 amx neon
#include "kernels/body/peaks.hpp"
#include "kernels/peak_kernels.hpp"

#if defined(ORRERY_KERNEL_amx)
#include "kernels/isa/tile_amx.hpp"
#endif

namespace orrery::kernels {
namespace {

#if defined(ORRERY_KERNEL_amx)
// As products use them: each operand tile serves two of four sums.
double multiply_tile(int rounds) {
  alignas(64) std::uint16_t ones[512];
  for (std::uint16_t& one : ones) one = 0x3F80;
  Tile::begin();
  Tile tile;
  tile.zero<0>(), tile.zero<1>(), tile.zero<2>(), tile.zero<3>();
  tile.load_a<0, false>(ones), tile.load_a<1, false>(ones);
  tile.load_b<0, false>(ones), tile.load_b<1, false>(ones);
  for (int r = 0; r < rounds; ++r) {
    tile.mac<0, 0, 0>();
    tile.mac<1, 0, 1>();
    tile.mac<2, 1, 0>();
    tile.mac<3, 1, 1>();
  }
  Tile::end();
  return 2.0 * 4 * 16 * 16 * 32 * rounds;
}
#endif

constexpr PeakKernels make_table() {
  PeakKernels table = {};
  table.isa = ORRERY_KERNEL_STRING(ORRERY_KERNEL_ISA);
  table.read = read;
  table.read_ahead = read_ahead;
  table.multiply_f32 = multiply_f32;
  table.multiply_i8 = multiply_i8;
#if defined(__AVX512BF16__)
  table.multiply_bf16 = multiply_bf16;
#endif
#if defined(ORRERY_KERNEL_amx)
  table.multiply_tile = multiply_tile;
#endif
  return table;
}

}  // namespace

extern "C" {
extern const PeakKernels ORRERY_KERNEL_NAME(peaks);
constinit const PeakKernels ORRERY_KERNEL_NAME(peaks) = make_table();
}

}  // namespace orrery::kernels
