// Class i8 of one instruction set for weights in packed layout.
// ISAS: emu avx2 avx512 neon
#include "kernels/body/row_panel.hpp"
#include "kernels/row_table.hpp"

namespace orrery::kernels {
namespace {

constexpr PanelKernels make_table() {
  PanelKernels table = {};
  const auto set = [&](DType type, void (*kernel)(const MatmulRows&)) {
    table.matmul[static_cast<int>(type)] = kernel;
  };
  set(DType::q4_0, multiply_panels<PackedPanels<FormatQ4_0, false>>);
  set(DType::q4_1, multiply_panels<PackedPanels<FormatQ4_1, false>>);
  set(DType::q5_0, multiply_panels<PackedPanels<FormatQ5_0, true>>);
  set(DType::q5_1, multiply_panels<PackedPanels<FormatQ5_1, true>>);
  set(DType::q8_0, multiply_panels<PackedPanels<FormatQ8_0, false>>);
  return table;
}

}  // namespace

extern "C" {
extern const PanelKernels ORRERY_KERNEL_NAME(packed);
constinit const PanelKernels ORRERY_KERNEL_NAME(packed) = make_table();
}

}  // namespace orrery::kernels
