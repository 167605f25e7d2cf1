// The matmul entry points of one ISA, by type: declared for the table, defined by the units.
// Include only in kernel units, after isa/vec.hpp.
#pragma once

#include "kernels/row_kernels.hpp"
#include "kernels/state_kernels.hpp"

#define ORRERY_FOR_EACH_FLOAT(X) X(f32, ElementF32) X(f16, ElementF16) X(bf16, ElementBf16)
// clang-format off: it takes these lists for code
#define ORRERY_FOR_EACH_BLOCK32(X)                                          \
  X(q4_0, FormatQ4_0) X(q4_1, FormatQ4_1) X(q5_0, FormatQ5_0)               \
  X(q5_1, FormatQ5_1) X(q8_0, FormatQ8_0) X(iq4_nl, FormatIq4Nl)            \
  X(mxfp4, FormatMxfp4) X(nvfp4, FormatNvfp4)
#define ORRERY_FOR_EACH_BLOCK256(X)                                         \
  X(q2_k, FormatQ2K) X(q3_k, FormatQ3K) X(q4_k, FormatQ4K)                  \
  X(q5_k, FormatQ5K) X(q6_k, FormatQ6K) X(iq4_xs, FormatIq4Xs)
// The types that have a packed layout.
#define ORRERY_FOR_EACH_PACKED(X)                                           \
  X(q4_0, FormatQ4_0) X(q4_1, FormatQ4_1) X(q5_0, FormatQ5_0)               \
  X(q5_1, FormatQ5_1) X(q8_0, FormatQ8_0)
// clang-format on

namespace orrery::kernels {

#define ORRERY_DECLARE(type, format) \
  extern "C" void ORRERY_KERNEL_NAME(matmul_##type)(const MatmulRows& a);
ORRERY_FOR_EACH_FLOAT(ORRERY_DECLARE)
ORRERY_FOR_EACH_BLOCK32(ORRERY_DECLARE)
ORRERY_FOR_EACH_BLOCK256(ORRERY_DECLARE)
#undef ORRERY_DECLARE

extern "C" void ORRERY_KERNEL_NAME(attention_part)(const AttentionPart& a);
extern "C" void ORRERY_KERNEL_NAME(attention_merge)(const AttentionMerge& a);
extern "C" const PanelKernels ORRERY_KERNEL_NAME(panels);
extern "C" const PanelKernels ORRERY_KERNEL_NAME(packed);
extern "C" const DecodeKernels ORRERY_KERNEL_NAME(decode);
extern "C" const StateKernels ORRERY_KERNEL_NAME(state);

}  // namespace orrery::kernels
