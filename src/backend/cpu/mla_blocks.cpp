// Latent attention of blocks (plan/mla.hpp), class b16: the keys and values of a head are expanded
// from the cached latents page by page, just before its queries see them.
#include <algorithm>
#include <cstring>

#include "backend/cpu/attention_output.hpp"
#include "backend/cpu/cache_rows.hpp"
#include "plan/mla.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::int32_t kPageKeys = plan::kPageTokens;

class MlaWriteBlocks : public CpuStep {
 public:
  MlaWriteBlocks(const CompileContext& context, const plan::Step& step)
      : step_(step),
        q_(context.buffer(step.in[0])),
        latent_(context.buffer(step.in[1])),
        out_(context.buffer(step.out[0])),
        cache_(context, step),
        norm_(context.vector(step.w[1])),
        table_(context.rope_table(step)),
        kernels_(*context.kernels->blocks) {
    kernel_ = context.kernel_label(true, "mla_write", plan::kNone);
  }

  std::size_t scratch_bytes() const override { return std::size_t{step_.k_dim} * 32 * 4; }

  // An item is a block's queries or its latents.
  void run(const Worker& worker) const override {
    const std::int32_t blocks = n_blocks(worker.batch->n_tokens);
    worker.spread(2 * blocks, [&](std::int32_t i) {
      if (i % 2 == 0) {
        write_queries(i / 2);
      } else {
        write_latents(*worker.batch, i / 2, reinterpret_cast<float*>(worker.scratch));
      }
    });
  }

 private:
  void write_queries(std::int32_t b) const {
    const float* from = q_.block(b);
    float* to = out_.block(b);
    for (std::uint32_t head = 0; head < step_.heads; ++head) {
      std::memcpy(to, from, std::size_t{step_.nope_dim} * 32 * sizeof(float));
      rotate(from + std::size_t{step_.nope_dim} * 32, b, to + std::size_t{step_.nope_dim} * 32);
      from += (std::size_t{step_.nope_dim} + step_.rope_dim) * 32;
      to += (std::size_t{step_.nope_dim} + step_.rope_dim) * 32;
    }
  }

  void write_latents(const Batch& batch, std::int32_t b, float* scratch) const {
    kernels::NormBlock args{};
    args.x = latent_.block(b);
    args.weight = norm_;
    args.out_f = scratch;
    args.n = step_.v_dim;
    args.eps = step_.eps;
    kernels_.norm(args);
    const std::size_t rank = std::size_t{step_.v_dim} * 32;
    rotate(latent_.block(b) + rank, b, scratch + rank);
    store_block(kernels_, cache_, batch, b, 0, CacheSide::keys, scratch, step_.k_dim);
  }

  void rotate(const float* from, std::int32_t b, float* to) const {
    const std::size_t at = std::size_t{step_.rope_dim} / 2 * 32 * static_cast<std::size_t>(b);
    kernels_.rope({.x = to,
                   .cos = table_.cos + at,
                   .sin = table_.sin + at,
                   .rope_dim = step_.rope_dim,
                   .adjacent = step_.rope == plan::RopeStyle::adjacent,
                   .from = from});
  }

  plan::Step step_;
  BufferRef q_, latent_, out_;
  CacheRows cache_;
  const float* norm_;
  const RopeTable& table_;
  const kernels::BlockKernels& kernels_;
};

class MlaAttentionBlocks : public CpuStep {
 public:
  MlaAttentionBlocks(const CompileContext& context, const plan::Step& step)
      : step_(step),
        q_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        cache_(context, step),
        keys_(context, step.w[0]),
        values_(context, step.w[1] == plan::kNone ? step.w[0] : step.w[1]),
        decode_cache_(context.kernels->rows->decode->decode[type_id(cache_.k_type)]),
        kernels_(*context.kernels->blocks) {
    kernel_ = context.kernel_label(true, "mla_attention", step.w[0]);
  }

  std::size_t scratch_bytes() const override { return Scratch(*this, nullptr).bytes; }

  // An item is a head with some blocks of queries. All of them, so that the head is expanded once,
  // unless there are too few heads for the threads.
  void run(const Worker& worker) const override {
    const std::int32_t blocks = n_blocks(worker.batch->n_tokens), heads = step_.heads;
    const std::int32_t fair = std::min(blocks, (2 * worker.threads + heads - 1) / heads);
    const std::int32_t wanted = (blocks + fair - 1) / fair;
    const std::int32_t per_item = std::min(wanted, kernels::kMaxAttentionUnits);
    const std::int32_t groups = (blocks + per_item - 1) / per_item;
    worker.spread(heads * groups, [&](std::int32_t i) {
      const std::int32_t first = i % groups * per_item;
      attend(worker, static_cast<std::uint32_t>(i / groups), first,
             std::min(per_item, blocks - first));
    });
  }

 private:
  // The matrices of all heads, in place.
  struct Matrices {
    const std::byte* data;
    std::size_t stride;
    int cols;
    void (*decode)(const void* row, int n, float* out);

    Matrices(const CompileContext& context, plan::WeightId id)
        : data(context.weight(id)),
          stride(row_bytes(context.info(id).dtype, context.info(id).cols)),
          cols(static_cast<int>(context.info(id).cols)),
          decode(context.kernels->rows->decode->decode[type_id(context.info(id).dtype)]) {}
    // The rows of a head as floats (rows.count, cols).
    void read(plan::HeadRows rows, float* out) const {
      for (std::uint32_t r = rows.first; r < rows.first + rows.count; ++r, out += cols) {
        decode(data + r * stride, cols, out);
      }
    }
  };

  // What a thread needs for one head.
  struct Scratch {
    std::byte* flash;
    std::byte* key_columns;    // K_h and V_h as B operands
    std::byte* value_columns;  //
    std::byte* latent_rows;    // a page's latents as A operand
    float* latents;            // the same (64, k_dim)
    float* page;               // keys (64, nope + rope) | values (64, v_head)
    float* matrix;             // a head's matrix (nope_dim or v_head, rank), or transposed
    float* block;              // (rank, 32)
    std::size_t bytes;

    Scratch(const MlaAttentionBlocks& s, std::byte* memory) {
      const plan::Step& step = s.step_;
      std::size_t at = 0;
      const auto take = [&](std::size_t size) {
        std::byte* p = memory == nullptr ? nullptr : memory + at;
        at += (size + 63) / 64 * 64;
        return p;
      };
      const auto floats = [&](std::size_t n) { return reinterpret_cast<float*>(take(n * 4)); };
      flash = take(s.kernels_.attention_scratch_bytes(s.key_dim(), step.v_head));
      key_columns = take(columns_bytes(step.nope_dim, step.v_dim));
      value_columns = take(columns_bytes(step.v_head, step.v_dim));
      latent_rows = take(s.kernels_.operand_bytes(kPageKeys, step.v_dim));
      latents = floats(std::size_t{kPageKeys} * step.k_dim);
      page = floats(std::size_t{kPageKeys} * (static_cast<std::size_t>(s.key_dim()) + step.v_head));
      matrix = floats(std::size_t{std::max(step.nope_dim, step.v_head)} * step.v_dim);
      block = floats(std::size_t{step.v_dim} * 32);
      bytes = at;
    }
    // Of X blocks.
    static std::size_t columns_bytes(std::size_t n, std::size_t k) {
      return (n + 31) / 32 * ((k + 31) / 32) * 2048;
    }
  };

  struct Head {
    const MlaAttentionBlocks* step;
    const Batch* batch;
    Scratch scratch;
  };

  static std::size_t type_id(DType type) { return static_cast<std::size_t>(type); }
  int key_dim() const { return step_.nope_dim + step_.rope_dim; }

  void attend(const Worker& worker, std::uint32_t head, std::int32_t b, std::int32_t blocks) const {
    Head work{this, worker.batch, Scratch(*this, worker.scratch)};
    pack_matrices(head, work.scratch);
    const auto k_dim = static_cast<std::uint32_t>(key_dim());
    kernels::AttentionBlock args{};
    args.q = q_.block(b) + std::size_t{head} * k_dim * 32;
    args.q_block_stride = q_.row_bytes * 32 / sizeof(float);
    args.blocks = blocks;
    args.k_dim = key_dim();
    args.v_dim = step_.v_head;
    args.first_position = worker.batch->positions[32 * b];
    args.n_tokens = std::min(32 * blocks, worker.batch->n_tokens - 32 * b);
    args.make_page = expand_page;
    args.context = &work;
    args.k_type = args.v_type = DType::f32;
    args.scale = step_.scale;
    args.scratch = work.scratch.flash;
    set_output(args, out_, b, head * step_.v_head);
    kernels_.attention(args);
  }

  void pack_matrices(std::uint32_t head, const Scratch& s) const {
    const plan::HeadRows keys = key_rows(step_, head), values = value_rows(step_, head);
    const std::size_t rank = step_.v_dim;
    const int k = step_.v_dim;
    keys_.read(keys, s.matrix);
    if (step_.latent == plan::LatentWeights::joint) {
      kernels_.pack_columns(s.matrix, rank, step_.nope_dim, k, s.key_columns);
    } else {
      pack_transposed(s);
    }
    values_.read(values, s.matrix);
    kernels_.pack_columns(s.matrix, rank, step_.v_head, k, s.value_columns);
  }

  // K_h^T (rank, nope_dim): 32 of its columns are a block of 32 "tokens" with rank features.
  void pack_transposed(const Scratch& s) const {
    const std::size_t nope = step_.nope_dim, rank = step_.v_dim;
    for (std::size_t first = 0; first < nope; first += 32) {
      const std::size_t n = std::min<std::size_t>(32, nope - first);
      std::memset(s.block, 0, rank * 32 * sizeof(float));
      for (std::size_t r = 0; r < rank; ++r) {
        std::memcpy(s.block + r * 32, s.matrix + r * nope + first, n * sizeof(float));
      }
      kernels_.to_x(s.block, step_.v_dim, s.key_columns + Scratch::columns_bytes(first, rank));
    }
  }

  static const std::byte* expand_page(void* context, int page, int filled) {
    const Head& head = *static_cast<const Head*>(context);
    return head.step->expand(head, page, std::min(filled, kPageKeys));
  }

  const std::byte* expand(const Head& head, int page, int n) const {
    const Scratch& s = head.scratch;
    const std::size_t k_dim = static_cast<std::size_t>(key_dim()), width = step_.k_dim;
    const std::byte* rows = cache_.page_at(*head.batch, 0, page);
    for (int t = 0; t < n; ++t) {
      decode_cache_(rows + static_cast<std::size_t>(t) * cache_.k_row_bytes, step_.k_dim,
                    s.latents + static_cast<std::size_t>(t) * width);
    }
    kernels_.pack_rows(s.latents, width, n, step_.v_dim, s.latent_rows);
    float* values = s.page + kPageKeys * k_dim;
    multiply(s, s.key_columns, n, step_.nope_dim, s.page, k_dim);
    multiply(s, s.value_columns, n, step_.v_head, values, step_.v_head);
    for (int t = 0; t < n; ++t) {  // after the product, which writes groups of 16 columns
      std::memcpy(s.page + static_cast<std::size_t>(t) * k_dim + step_.nope_dim,
                  s.latents + static_cast<std::size_t>(t) * width + step_.v_dim,
                  step_.rope_dim * sizeof(float));
    }
    return reinterpret_cast<const std::byte*>(s.page);
  }

  void multiply(const Scratch& s, const std::byte* columns, int m, int n, float* c,
                std::size_t stride) const {
    kernels_.matmul_operands({.a = s.latent_rows,
                              .b = columns,
                              .m = m,
                              .n = n,
                              .k = step_.v_dim,
                              .c = c,
                              .c_stride = stride});
  }

  plan::Step step_;
  BufferRef q_, out_;
  CacheRows cache_;
  Matrices keys_, values_;
  void (*decode_cache_)(const void* row, int n, float* out);
  const kernels::BlockKernels& kernels_;
};

}  // namespace

StepResult make_mla_write_blocks(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<MlaWriteBlocks>(context, step);
}

StepResult make_mla_attention_blocks(const CompileContext& context, const plan::Step& step) {
  // Products write whole groups of 16 columns: into the rotated part of a key, or not at all.
  const int nope = step.nope_dim, v = step.v_head;
  if ((nope + 15) / 16 * 16 > nope + step.rope_dim || v % 16 != 0 || v > kernels::kMaxHeadDim) {
    return fail("E_UNSUPPORTED",
                "the CPU backend has latent attention for values of 16, 32, ... up to " +
                    std::to_string(kernels::kMaxHeadDim) + " elements; this has " +
                    std::to_string(v) + " and keys of " + std::to_string(nope) + " and " +
                    std::to_string(step.rope_dim));
  }
  return std::make_unique<MlaAttentionBlocks>(context, step);
}

}  // namespace orrery::backend::cpu
