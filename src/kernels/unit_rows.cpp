// Row kernels of one instruction set: the table, float weights and everything without weights.
// ISAS: emu avx2 avx512 neon
#include "kernels/body/row_cache.hpp"
#include "kernels/body/row_f32.hpp"
#include "kernels/row_table.hpp"

namespace orrery::kernels {

#define ORRERY_DEFINE(type, element)                            \
  void ORRERY_KERNEL_NAME(matmul_##type)(const MatmulRows& a) { \
    matmul_f32<element>(a);                                     \
  }
ORRERY_FOR_EACH_FLOAT(ORRERY_DEFINE)
#undef ORRERY_DEFINE

namespace {

constexpr RowKernels make_table() {
  RowKernels table = {};
  table.isa = ORRERY_KERNEL_STRING(ORRERY_KERNEL_ISA);
#define ORRERY_ENTRY(type, format) \
  table.matmul[static_cast<int>(DType::type)] = ORRERY_KERNEL_NAME(matmul_##type);
  ORRERY_FOR_EACH_FLOAT(ORRERY_ENTRY)
  ORRERY_FOR_EACH_BLOCK32(ORRERY_ENTRY)
  ORRERY_FOR_EACH_BLOCK256(ORRERY_ENTRY)
#undef ORRERY_ENTRY
  table.panels = &ORRERY_KERNEL_NAME(panels);
  table.packed = &ORRERY_KERNEL_NAME(packed);
  table.decode = &ORRERY_KERNEL_NAME(decode);
  table.state = &ORRERY_KERNEL_NAME(state);
  table.quantize_q8 = quantize_q8;
  table.norm = norm;
  table.rope = rope;
  table.store_cache = store_cache_row;
  table.attention_part = ORRERY_KERNEL_NAME(attention_part);
  table.attention_merge = ORRERY_KERNEL_NAME(attention_merge);
  table.activate = activate;
  table.glu = glu;
  table.add = add;
  table.mul = mul;
  table.scale_add = scale_add;
  table.softcap = softcap;
  table.to_f16 = to_f16;
  table.to_bf16 = to_bf16;
  table.from_f16 = from_f16;
  return table;
}

}  // namespace

extern "C" {
extern const RowKernels ORRERY_KERNEL_NAME(rows);
constinit const RowKernels ORRERY_KERNEL_NAME(rows) = make_table();
}

}  // namespace orrery::kernels
