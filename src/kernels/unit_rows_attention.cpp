// Decode attention of one instruction set.
// ISAS: emu avx2 avx512 neon
#include "kernels/body/row_attention.hpp"
#include "kernels/row_table.hpp"

namespace orrery::kernels {

void ORRERY_KERNEL_NAME(attention_part)(const AttentionPart& a) {
  attention_part(a);
}
void ORRERY_KERNEL_NAME(attention_merge)(const AttentionMerge& a) {
  attention_merge(a);
}

}  // namespace orrery::kernels
