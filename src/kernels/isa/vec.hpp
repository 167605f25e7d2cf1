// The vector vocabulary of the unit that includes this: struct V, one set of members per ISA.
//
// Logical widths are the same everywhere, so that a body has the same bits on every machine:
//   V::F  16 floats          V::I  16 int32
//   V::B  64 bytes           V::Q  16 bytes
// Lane rules: min(a, b) is a < b ? a : b and max(a, b) is a > b ? a : b (b when either is NaN);
// sum() folds lane i with i + 8, then i + 4, i + 2, i + 1. Nothing is contracted.
// A 64-byte B is four 16-byte groups; after dot and reduce, lane 4 g + r is group g of row r.
#pragma once

#if defined(ORRERY_VEC_AVX512)
#include "kernels/isa/vec_avx512.hpp"
#elif defined(ORRERY_VEC_AVX2)
#include "kernels/isa/vec_avx2.hpp"
#elif defined(ORRERY_VEC_NEON)
#include "kernels/isa/vec_neon.hpp"
#else
#include "kernels/isa/vec_emu.hpp"
#endif

// ORRERY_KERNEL_NAME(x): the external name of x in this unit's ISA, e.g. orrery_x_avx512.
#define ORRERY_KERNEL_PASTE2(name, isa) orrery_##name##_##isa
#define ORRERY_KERNEL_PASTE(name, isa) ORRERY_KERNEL_PASTE2(name, isa)
#define ORRERY_KERNEL_NAME(name) ORRERY_KERNEL_PASTE(name, ORRERY_KERNEL_ISA)
#define ORRERY_KERNEL_STRING2(x) #x
#define ORRERY_KERNEL_STRING(x) ORRERY_KERNEL_STRING2(x)
