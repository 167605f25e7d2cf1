// Decoders of every element type, for one instruction set.
// ISAS: emu avx2 avx512 neon
#include "kernels/body/row_decode.hpp"
#include "kernels/row_table.hpp"

namespace orrery::kernels {
namespace {

template <class... Weights>
constexpr DecodeKernels make_table() {
  DecodeKernels table = {};
  ((table.decode[static_cast<int>(Weights::kType)] = decode_elements<Weights>), ...);
  table.add_rows = add_rows;
  return table;
}

}  // namespace

extern "C" {
extern const DecodeKernels ORRERY_KERNEL_NAME(decode);
constinit const DecodeKernels ORRERY_KERNEL_NAME(decode) =
    make_table<WeightF32, WeightF16, WeightBf16, WeightQ40, WeightQ41, WeightQ50, WeightQ51,
               WeightQ80, WeightIq4Nl, WeightMxfp4, WeightNvfp4, WeightQ2K, WeightQ3K, WeightQ4K,
               WeightQ5K, WeightQ6K, WeightIq4Xs>();
}

}  // namespace orrery::kernels
