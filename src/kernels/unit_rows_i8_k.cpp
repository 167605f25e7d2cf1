// Class i8 of one instruction set: weights in blocks of 256.
// ISAS: emu avx2 avx512 neon
#include "kernels/body/row_i8.hpp"
#include "kernels/row_table.hpp"

namespace orrery::kernels {

#define ORRERY_DEFINE(type, format)                             \
  void ORRERY_KERNEL_NAME(matmul_##type)(const MatmulRows& a) { \
    matmul_i8<format>(a);                                       \
  }
ORRERY_FOR_EACH_BLOCK256(ORRERY_DEFINE)
#undef ORRERY_DEFINE

}  // namespace orrery::kernels
