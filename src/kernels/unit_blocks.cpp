// The table of block kernels of one instruction set.
// ISAS: emu_dot emu_outer avx2 avx512 avx512_bf16 amx
#include "kernels/body/block_attention.hpp"
#include "kernels/body/block_matmul.hpp"
#include "kernels/body/block_norm.hpp"
#include "kernels/body/block_operands.hpp"
#include "kernels/body/block_tables.hpp"
#include "kernels/body/block_task.hpp"

#if defined(ORRERY_KERNEL_amx)
#include "kernels/isa/tile_amx.hpp"
#elif defined(ORRERY_KERNEL_avx512_bf16)
#include "kernels/isa/tile_avx512_bf16.hpp"
#elif defined(ORRERY_KERNEL_avx512)
#include "kernels/isa/tile_avx512.hpp"
#elif defined(ORRERY_KERNEL_avx2)
#include "kernels/isa/tile_avx2.hpp"
#elif defined(ORRERY_KERNEL_apple_amx)
#include "kernels/isa/tile_apple_amx.hpp"
#elif defined(ORRERY_KERNEL_emu_outer)
#include "kernels/isa/tile_emu_outer.hpp"
#else
#include "kernels/isa/tile_emu_dot.hpp"
#endif

namespace orrery::kernels {
namespace {

#if defined(ORRERY_KERNEL_avx512_bf16) || defined(ORRERY_KERNEL_avx512) || \
    defined(ORRERY_KERNEL_avx2)
using Product = VectorProduct<Lanes>;
constexpr bool kHasTiles = false;
constexpr int kTaskRows = 32;
void begin() {}
void end() {}
#else
using Product = TileProduct<Tile>;
constexpr bool kHasTiles = true;
constexpr int kTaskRows = 256;
void begin() {
  Tile::begin();
}
void end() {
  Tile::end();
}
#endif

using Matmul = BlockMatmul<Product>;
using Flash = BlockFlash<Product>;
using Operands = BlockOperands<Product>;

template <class... Weights>
constexpr void set_matmul(BlockKernels& table) {
  ((table.matmul[static_cast<int>(Weights::kType)] = Matmul::run<Weights>), ...);
}

template <class... Weights>
constexpr void set_packed(BlockKernels& table) {
  ((table.matmul_packed[static_cast<int>(Weights::kType)] = Matmul::run_packed<Weights>), ...);
}

constexpr BlockKernels make_table() {
  BlockKernels table = {};
  table.isa = ORRERY_KERNEL_STRING(ORRERY_KERNEL_ISA);
  table.has_tiles = kHasTiles;
  table.task_rows = kTaskRows;
  table.matmul_scratch_bytes = Matmul::scratch_bytes;
  set_matmul<WeightF32, WeightF16, WeightBf16, WeightQ40, WeightQ41, WeightQ50, WeightQ51,
             WeightQ80, WeightIq4Nl, WeightMxfp4, WeightNvfp4, WeightQ2K, WeightQ3K, WeightQ4K,
             WeightQ5K, WeightQ6K, WeightIq4Xs>(table);
  set_packed<WeightQ40, WeightQ41, WeightQ50, WeightQ51, WeightQ80>(table);
  table.to_x = block_to_x;
  table.norm = block_norm;
  table.rope = block_rope;
  table.store_cache = block_store_cache;
  table.attention_scratch_bytes = Flash::scratch_bytes;
  table.attention = Flash::run;
  table.rows_to_block = block_from_rows;
  table.block_to_row = block_to_row;
  table.operand_bytes = Operands::bytes;
  table.pack_rows = Operands::pack_rows;
  table.pack_columns = Operands::pack_columns;
  table.operand_step_bytes = Product::kStepBytes;
  table.operand_part_k = 32 * Product::kPartSteps;
  table.matmul_operands = Operands::multiply;
  if constexpr (kHasTiles) table.matmul_task = BlockTask<Product>::run;
  table.thread_begin = begin;
  table.thread_end = end;
  return table;
}

}  // namespace

extern "C" {
extern const BlockKernels ORRERY_KERNEL_NAME(blocks);
const BlockKernels ORRERY_KERNEL_NAME(blocks) = make_table();
}

}  // namespace orrery::kernels
