// Class i8 of one instruction set for many activation rows, on int8 tiles.
// ISAS: amx
#include "kernels/body/row_tiles.hpp"
#include "kernels/row_table.hpp"
#include "kernels/tables.hpp"

namespace orrery::kernels {
namespace {

template <class Panels>
void multiply(const MatmulRows& a, void (*dots)(const MatmulRows&)) {
  using Tiles = Int8Tiles<Panels>;
  Tiles::pays(a.m) ? matmul_panels<Panels, Tiles>(a) : dots(a);
}

template <class Format, DType type>
void matmul_packed(const MatmulRows& a) {
  multiply<PackedTilePanels<Format, type>>(a, orrery_packed_avx512.matmul[static_cast<int>(type)]);
}

template <class Format, DType type>
void matmul_file(const MatmulRows& a) {
  auto* const dots = orrery_panels_avx512.matmul[static_cast<int>(type)];
  if constexpr (Format::kGroup == 32) {
    multiply<UnpackedTilePanels<Format>>(a, dots);
  } else {
    dots(a);  // groups of 16 leave half of a tile empty
  }
}

constexpr PanelKernels make_table() {
  PanelKernels table = {};
  table.rows = V::kPanelRows;
#define ORRERY_ENTRY(type, format) \
  table.matmul[static_cast<int>(DType::type)] = matmul_file<format, DType::type>;
  ORRERY_FOR_EACH_BLOCK32(ORRERY_ENTRY)
  ORRERY_FOR_EACH_BLOCK256(ORRERY_ENTRY)
#undef ORRERY_ENTRY
  return table;
}

constexpr PanelKernels make_packed_table() {
  PanelKernels table = {};
#define ORRERY_ENTRY(type, format) \
  table.matmul[static_cast<int>(DType::type)] = matmul_packed<format, DType::type>;
  ORRERY_FOR_EACH_PACKED(ORRERY_ENTRY)
#undef ORRERY_ENTRY
  return table;
}

}  // namespace

extern "C" {
constinit const PanelKernels orrery_panels_amx = make_table();
constinit const PanelKernels orrery_packed_amx = make_packed_table();
}

}  // namespace orrery::kernels
