// Row kernels whose INT4 unpack and dot are written in assembly, beside the intrinsics ones and
// with the same bits: Q4_0 by AVX-512 VNNI or AArch64 dot products, everything else as in `base`.
#pragma once

#include "kernels/row_kernels.hpp"

namespace orrery::kernels {

// `base` with the assembly body and the name "avx512_asm" or "neon_asm".
RowKernels with_assembly(const RowKernels& base);

}  // namespace orrery::kernels
