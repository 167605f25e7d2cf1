// Class i8 of one instruction set for many activation rows.
// ISAS: emu avx2 avx512 neon
#include "kernels/body/row_panel_product.hpp"
#include "kernels/row_table.hpp"

namespace orrery::kernels {
namespace {

constexpr PanelKernels make_table() {
  PanelKernels table = {};
  table.rows = V::kPanelRows;
#define ORRERY_ENTRY(type, format) \
  table.matmul[static_cast<int>(DType::type)] = matmul_panels<UnpackedPanels<format>>;
  ORRERY_FOR_EACH_BLOCK32(ORRERY_ENTRY)
  ORRERY_FOR_EACH_BLOCK256(ORRERY_ENTRY)
#undef ORRERY_ENTRY
  return table;
}

}  // namespace

extern "C" {
extern const PanelKernels ORRERY_KERNEL_NAME(panels);
constinit const PanelKernels ORRERY_KERNEL_NAME(panels) = make_table();
}

}  // namespace orrery::kernels
