// Class i8 of one instruction set for weights in packed layout.
// ISAS: emu avx2 avx512 neon
#include "kernels/body/row_panel_product.hpp"
#include "kernels/row_table.hpp"

namespace orrery::kernels {
namespace {

constexpr PanelKernels make_table() {
  PanelKernels table = {};
#define ORRERY_ENTRY(type, format) \
  table.matmul[static_cast<int>(DType::type)] = matmul_panels<PackedPanels<format, DType::type>>;
  ORRERY_FOR_EACH_PACKED(ORRERY_ENTRY)
#undef ORRERY_ENTRY
  return table;
}

}  // namespace

extern "C" {
extern const PanelKernels ORRERY_KERNEL_NAME(packed);
constinit const PanelKernels ORRERY_KERNEL_NAME(packed) = make_table();
}

}  // namespace orrery::kernels
