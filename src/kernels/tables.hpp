// The kernel tables that the units export, one for each instruction set they were compiled for.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/row_kernels.hpp"

namespace orrery::kernels {

extern "C" {
extern const RowKernels orrery_rows_emu;
extern const RowKernels orrery_rows_avx2;
extern const RowKernels orrery_rows_avx512;
extern const RowKernels orrery_rows_neon;

// Class i8 for many rows: avx512's, and what takes their place on int8 tiles.
extern const PanelKernels orrery_panels_avx512;
extern const PanelKernels orrery_packed_avx512;
extern const PanelKernels orrery_panels_amx;
extern const PanelKernels orrery_packed_amx;

extern const BlockKernels orrery_blocks_emu_dot;
extern const BlockKernels orrery_blocks_emu_outer;
extern const BlockKernels orrery_blocks_avx2;
extern const BlockKernels orrery_blocks_avx512;
extern const BlockKernels orrery_blocks_avx512_bf16;
extern const BlockKernels orrery_blocks_amx;
}

}  // namespace orrery::kernels
