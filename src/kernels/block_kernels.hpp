// Block kernels: activations feature-major in blocks of 32 tokens, used by prefill (class b16).
//
// Layouts (one 32-token block; m tokens are ceil(m / 32) blocks, the padding tokens are computed
// and ignored; they must stay finite):
//   F block: f32 [feature][32 tokens]; a block of n features is n * 32 floats.
//   X block: bf16 [k / 32][2 groups of 16 tokens][16 pairs of k][16 tokens][2 of the pair]: 2 KiB
//   per
//            32 features; features are padded with zeros to a multiple of 32.
// Weights are the A operand (rows = output features, in file order), activations the B operand, so
// norms, RoPE and activations are vertical (lanes = tokens): no horizontal sums, no transposition.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/row_kernels.hpp"

namespace orrery::kernels {

// out features [row, row + n) of m tokens = epilogue(W x). Rows are unpacked once for up to 512
// tokens, so tokens should be many.
struct MatmulBlocks {
  const void* w;         // n rows of file blocks (rows [row, row + n) of the weight)
  const void* w_up;      // glu: the second weight's rows, else null
  std::size_t w_stride;  // bytes between weight rows (both weights have the same type and stride)
  int row, n, k;         // row is a multiple of 32
  const void* x;         // X blocks of k features
  int m;                 // tokens
  void* scratch;         // 64-byte aligned, matmul_scratch_bytes(k), private to the thread
  const float* bias;     // (n) of these rows, or null
  const float* bias_up;  // (n), or null
  ActivationKind activation;
  float scale;            // y = act(Wx + bias) * scale + residual; glu: act(gate) * up
  const float* residual;  // F blocks of `features` features, or null
  float* out_f;           // F blocks of `features` features, or null
  void* out_x;            // X blocks of `features` features, or null
  int features;           // features of residual and outputs (all rows of the weight)
};

// C = A B, or C += A B, of operands that were prepared: for products so small that to unpack
// one costs more than to multiply it, and for large ones in blocks. Class b16: operands are bf16,
// every sum is f32 in the order of k.
struct MatmulOperands {
  const void* a;  // m rows from pack_rows
  const void* b;  // n columns from pack_columns
  int m, n, k;
  float* c;              // (m, n), c_stride floats apart; written in whole groups of 16 x 16
  std::size_t c_stride;  // at least n rounded up to 16
  int of_k = 0;          // a part of k: what the operands were packed with; 0: k
  bool add = false;      // to what C holds
};

// C = A B of operands as above, whose panels of 32 rows and blocks of 32 columns lie apart so that
// parts of k of neighbours fall into different sets of L2: one of the tasks that a large product is
// split into. Tasks write C around the caches.
struct MatmulTask {
  const void* a;         // panels of m rows
  const void* b;         // blocks of n columns
  std::size_t a_stride;  // bytes between panels
  std::size_t b_stride;  // bytes between blocks
  int m, n, k;
  float* c;              // as in MatmulOperands, 64-byte aligned
  std::size_t c_stride;  // a multiple of 16
  float* sums;           // m x n, both rounded up to 32: 64-byte aligned, private to the thread
  const void* next_a;    // operands of the task that follows, which are fetched; or those of this
  const void* next_b;
};

struct NormBlock {
  const float* x;         // F block of n features
  const float* weight;    // (n) or null
  const float* bias;      // (n) or null
  const float* residual;  // F block or null
  float* out_f;           // F block or null
  void* out_x;            // X block or null
  int n;
  float eps, offset;
  bool layer_norm;
};

// One head of one block, to x: [dim][32] f32 inside an F block; cos/sin are [rope_dim / 2][32].
struct RopeBlock {
  float* x;
  const float* cos;
  const float* sin;
  int rope_dim;
  bool adjacent;
  const float* from = nullptr;  // what is rotated, as x; null: x itself
};

// Where a token's keys or values of one head go.
struct CacheSlot {
  std::byte* bytes;  // the side's, of this head in the token's page; null: a padding token
  int slot;
};
// One head of one block into its pages: x [dim][32] -> rows of tokens (tensor/cache_page.hpp).
struct StoreCacheBlock {
  const float* x;
  int dim;
  const CacheSlot* to;  // (32)
  DType type;
  CacheSide side;
};

// The most (query head, token block) pairs of one attention call.
inline constexpr int kMaxAttentionUnits = 24;
// The widest head.
inline constexpr int kMaxHeadDim = 1024;

// Causal attention of the query heads that share a kv head over consecutive 32-token blocks of
// queries. Every key page is converted once per call, so heads and blocks should be many
// (heads * blocks <= kMaxAttentionUnits); the result of a token does not depend on them.
struct AttentionBlock {
  const float* q;  // [k_dim][32] of the first head and block; head h follows at
                   // + h * k_dim * 32, block b at + b * q_block_stride (floats)
  int k_dim, v_dim;
  int first_position;     // of the first block's first token
  int n_tokens;           // valid tokens (1..32 * blocks)
  int last_key = -1;      // -1: a query sees keys up to its own position p; else up to this one
  std::uint32_t window;   // 0: all; else key positions > p - window and < p + window
  bool chunked = false;   // then key positions from the last multiple of window on
  const std::byte* pool;  // as in AttentionPart
  std::size_t page_bytes, head_offset;
  const std::int32_t* pages;
  // Instead of a pool: the address of a page that is made when its turn comes, once a call and in
  // order; its first `filled` (or all) keys and values are read.
  const std::byte* (*make_page)(void* context, int page, int filled) = nullptr;
  void* context = nullptr;
  DType k_type, v_type;
  float scale, softcap;  // applied to the f32 scores
  void* scratch;         // attention_scratch_bytes(k_dim, v_dim), 64-byte aligned
  float* out_f;          // [v_dim][32] of the first head, heads and blocks as q, or null
  void* out_x;           // X block of all heads, or null
  int out_feature;       // first feature of the first head in out_x (even)
  // (heads) or null: a score that every query sees beside those of its keys, without a value.
  const float* sinks = nullptr;
  int heads = 1, blocks = 1;
  std::size_t q_block_stride = 0;      // floats between blocks of q
  std::size_t out_f_block_stride = 0;  // floats between blocks of out_f
  std::size_t out_x_block_stride = 0;  // bytes between blocks of out_x
  // Features of out_x, if not a multiple of 32: the head that ends there zeroes the padding.
  int out_features = 0;
};

struct BlockKernels {
  const char* isa;  // "emu_dot", "emu_outer", "avx2", "avx512", "avx512_bf16", "amx"
  bool has_tiles;   // a matrix unit multiplies: bf16 is its fastest type for few tokens, too
  int task_rows;    // weight rows of a good task (a multiple of 32)
  std::size_t (*matmul_scratch_bytes)(int k);
  void (*matmul[kMaxDTypeId])(const MatmulBlocks&);  // null where a type has no kernel
  // For weights in packed layout (tensor/packed.hpp); row and n are multiples of 16.
  void (*matmul_packed[kMaxDTypeId])(const MatmulBlocks&);
  void (*to_x)(const float* f_block, int n, void* x_block);
  void (*norm)(const NormBlock&);
  void (*rope)(const RopeBlock&);
  void (*store_cache)(const StoreCacheBlock&);
  std::size_t (*attention_scratch_bytes)(int k_dim, int v_dim);
  void (*attention)(const AttentionBlock&);
  // rows (n_rows <= 32, features), stride floats apart -> F block; missing rows become zero.
  void (*rows_to_block)(const float* rows, std::size_t stride, int n_rows, int features, float* f);
  // token t of an F block -> row (features)
  void (*block_to_row)(const float* f, int t, int features, float* row);
  // Operands of matmul_operands. A: bytes of m rows, and rows (m, k), stride floats apart, to a;
  // groups of 16 rows without one stay as they are.
  std::size_t (*operand_bytes)(int m, int k);
  void (*pack_rows)(const float* rows, std::size_t stride, int m, int k, void* a);
  // B is X blocks of k features; column j comes from row j (n, k), and groups of 16 columns without
  // one stay as they are.
  void (*pack_columns)(const float* rows, std::size_t stride, int n, int k, void* b);
  int operand_step_bytes;  // of 32 k of 32 rows of A; of 32 columns of B they are 2 KiB
  int operand_part_k;      // a part of k that keeps 32 rows of A in L1
  void (*matmul_operands)(const MatmulOperands&);
  void (*matmul_task)(const MatmulTask&);  // null where a matmul of parts of k is as fast
  // Called once by each thread before its first kernel and after its last (tile configuration).
  void (*thread_begin)();
  void (*thread_end)();
};

}  // namespace orrery::kernels
