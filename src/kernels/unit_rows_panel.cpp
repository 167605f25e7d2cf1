// Class i8 of one instruction set for many activation rows.
// ISAS: emu avx512
#include "kernels/body/row_panel.hpp"
#include "kernels/row_table.hpp"

namespace orrery::kernels {

#define ORRERY_DEFINE(type, format)                            \
  void ORRERY_KERNEL_NAME(panel_##type)(const MatmulRows& a) { \
    matmul_panels<format>(a);                                  \
  }
ORRERY_FOR_EACH_BLOCK32(ORRERY_DEFINE)
ORRERY_FOR_EACH_BLOCK256(ORRERY_DEFINE)
#undef ORRERY_DEFINE

}  // namespace orrery::kernels
