// Kernels of layers with a state, of one instruction set.
// ISAS: emu avx2 avx512 neon
#include "kernels/body/conv.hpp"
#include "kernels/body/state.hpp"
#include "kernels/row_table.hpp"

namespace orrery::kernels {

extern "C" {
constinit const StateKernels ORRERY_KERNEL_NAME(state) = {.conv_row = conv_row,
                                                          .conv_block = conv_block,
                                                          .scan = scan,
                                                          .delta = delta,
                                                          .decay = decay,
                                                          .l2_norm = l2_norm};
}

}  // namespace orrery::kernels
