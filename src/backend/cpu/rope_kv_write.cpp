// rope_kv_write: q and k normalised (where the family does) and rotated; k and v into their pages.
#include <algorithm>
#include <cstring>

#include "backend/cpu/cache_rows.hpp"
#include "base/check.hpp"

namespace orrery::backend::cpu {
namespace {

// What rows and blocks share.
struct RopeStep {
  BufferRef q, k, v, out;
  CacheRows cache;
  std::uint32_t heads, kv_heads, k_dim, v_dim;
  plan::QkNorm qk_norm;
  const float* q_norm;
  const float* k_norm;
  float eps, norm_offset;
  const RopeTable* table = nullptr;  // null: no rotation
  int rope_dim;
  bool adjacent;
  plan::QueryGrowth growth;

  RopeStep(const CompileContext& context, const plan::Step& step)
      : q(context.buffer(step.in[0])),
        k(context.buffer(step.in[1])),
        v(context.buffer(step.in[2])),
        out(context.buffer(step.out[0])),
        cache(context, step),
        heads(step.heads),
        kv_heads(step.kv_heads),
        k_dim(step.k_dim),
        v_dim(step.v_dim),
        qk_norm(step.qk_norm),
        q_norm(context.vector(step.w[0])),
        k_norm(context.vector(step.w[1])),
        eps(step.eps),
        norm_offset(step.norm_offset),
        rope_dim(step.rope_dim),
        adjacent(step.rope == plan::RopeStyle::adjacent),
        growth(step.query_growth) {
    if (step.rope != plan::RopeStyle::none) table = &context.rope_table(step);
  }
};

class RopeRows : public CpuStep, public RowRope {
 public:
  RopeRows(const CompileContext& context, const plan::Step& step)
      : s_(context, step), kernels_(*context.kernels->rows) {
    kernel_ = context.kernel_label(false, "rope_kv_write", plan::kNone);
  }

  std::size_t scratch_bytes() const override {
    return std::size_t{std::max(s_.heads, s_.kv_heads)} * std::max(s_.k_dim, s_.v_dim) * 4;
  }

  // One item is all of one row's q, k or v, so that norms over the whole width see all heads.
  void run(const Worker& worker) const override {
    const std::int32_t parts = s_.k ? 3 : 1, items = parts * worker.batch->n_tokens;
    for (std::int32_t i = worker.next(); i < items; i = worker.next()) {
      const std::int32_t row = i / parts, part = i % parts;
      if (part == 0) write_q(*worker.batch, row);
      if (part == 1) write_k(*worker.batch, row, reinterpret_cast<float*>(worker.scratch));
      if (part == 2) write_v(*worker.batch, row);
    }
  }

  const RowRope* rope() const override { return this; }

  void write_q(const Batch& batch, std::int32_t row, std::uint32_t head, float* q) const override {
    const std::uint32_t g = s_.heads / s_.kv_heads;
    normalize(s_.q.row(row) + std::size_t{head} * g * s_.k_dim, s_.q_norm, g, q);
    rotate(q, g, row);
    grow(batch, row, g, q);
  }

  void write_cache(const Batch& batch, std::int32_t row, std::uint32_t head,
                   float* k) const override {
    if (!s_.k) return;
    normalize(s_.k.row(row) + std::size_t{head} * s_.k_dim, s_.k_norm, 1, k);
    rotate(k, 1, row);
    store_k(batch, row, head, k);
    store_v(batch, row, head);
  }

 private:
  void write_q(const Batch& batch, std::int32_t row) const {
    normalize(s_.q.row(row), s_.q_norm, s_.heads, s_.out.row(row));
    rotate(s_.out.row(row), s_.heads, row);
    grow(batch, row, s_.heads, s_.out.row(row));
  }

  void grow(const Batch& batch, std::int32_t row, std::uint32_t n_heads, float* q) const {
    if (s_.growth.rate == 0.0F) return;
    const float factor = s_.growth.at(batch.positions[row]);
    kernels_.scale_add(q, factor, nullptr, static_cast<int>(n_heads * s_.k_dim));
  }

  void write_k(const Batch& batch, std::int32_t row, float* scratch) const {
    normalize(s_.k.row(row), s_.k_norm, s_.kv_heads, scratch);
    rotate(scratch, s_.kv_heads, row);
    for (std::uint32_t h = 0; h < s_.kv_heads; ++h) {
      store_k(batch, row, h, scratch + std::size_t{h} * s_.k_dim);
    }
  }

  void write_v(const Batch& batch, std::int32_t row) const {
    for (std::uint32_t h = 0; h < s_.kv_heads; ++h) store_v(batch, row, h);
  }

  void store_k(const Batch& batch, std::int32_t row, std::uint32_t head, const float* k) const {
    store_row(kernels_, s_.cache, batch, row, head, CacheSide::keys, k, s_.k_dim);
  }
  void store_v(const Batch& batch, std::int32_t row, std::uint32_t head) const {
    store_row(kernels_, s_.cache, batch, row, head, CacheSide::values,
              s_.v.row(row) + std::size_t{head} * s_.v_dim, s_.v_dim);
  }

  void normalize(const float* x, const float* weight, std::uint32_t n_heads, float* to) const {
    const std::uint32_t width = n_heads * s_.k_dim;
    if (s_.qk_norm == plan::QkNorm::none) {
      std::memcpy(to, x, std::size_t{width} * 4);
      return;
    }
    const std::uint32_t n = s_.qk_norm == plan::QkNorm::head ? s_.k_dim : width;
    for (std::uint32_t begin = 0; begin < width; begin += n) {
      kernels::NormRow args{};
      args.x = x + begin;
      args.weight = weight;
      args.out = to + begin;
      args.n = static_cast<int>(n);
      args.eps = s_.eps;
      args.offset = s_.norm_offset;
      kernels_.norm(args);
    }
  }

  void rotate(float* x, std::uint32_t n_heads, std::int32_t row) const {
    if (s_.table == nullptr) return;
    const std::size_t half = static_cast<std::size_t>(s_.rope_dim / 2);
    for (std::uint32_t h = 0; h < n_heads; ++h) {
      kernels_.rope({x + std::size_t{h} * s_.k_dim, s_.table->cos + half * row,
                     s_.table->sin + half * row, s_.rope_dim, s_.adjacent});
    }
  }

  RopeStep s_;
  const kernels::RowKernels& kernels_;
};

class RopeBlocks : public CpuStep {
 public:
  RopeBlocks(const CompileContext& context, const plan::Step& step)
      : s_(context, step), kernels_(*context.kernels) {
    kernel_ = context.kernel_label(true, "rope_kv_write", plan::kNone);
  }

  std::size_t scratch_bytes() const override {
    return std::size_t{std::max(s_.heads, s_.kv_heads)} * s_.k_dim * 32 * 4;
  }

  void run(const Worker& worker) const override {
    const std::int32_t blocks = n_blocks(worker.batch->n_tokens);
    // q, k and v of a block apart; with head-wise norms each head could be an item, but 3 items a
    // block keep the threads busy from 64 tokens on.
    const std::int32_t parts = s_.k ? 3 : 1;
    worker.spread(parts * blocks, [&](std::int32_t i) {
      const std::int32_t b = i / parts, part = i % parts;
      float* scratch = reinterpret_cast<float*>(worker.scratch);
      if (part == 0) {
        normalize_rotate(s_.q.block(b), s_.q_norm, s_.heads, b, s_.out.block(b));
        grow(*worker.batch, b);
      }
      if (part == 1) {
        normalize_rotate(s_.k.block(b), s_.k_norm, s_.kv_heads, b, scratch);
        store(*worker.batch, b, scratch, CacheSide::keys);
      }
      if (part == 2) store(*worker.batch, b, s_.v.block(b), CacheSide::values);
    });
  }

 private:
  void normalize_rotate(const float* x, const float* weight, std::uint32_t n_heads, std::int32_t b,
                        float* to) const {
    const std::size_t head = std::size_t{s_.k_dim} * 32;
    const bool whole = s_.qk_norm == plan::QkNorm::width;
    const bool each = s_.qk_norm == plan::QkNorm::head;
    if (whole) normalize(x, weight, n_heads * s_.k_dim, to);
    for (std::uint32_t h = 0; h < n_heads; ++h, x += head, to += head) {
      if (each) normalize(x, weight, s_.k_dim, to);
      rotate(whole || each ? to : x, b, to);
    }
  }

  void normalize(const float* x, const float* weight, std::uint32_t n, float* to) const {
    kernels::NormBlock args{};
    args.x = x;
    args.weight = weight;
    args.out_f = to;
    args.n = static_cast<int>(n);
    args.eps = s_.eps;
    args.offset = s_.norm_offset;
    kernels_.blocks->norm(args);
  }

  void rotate(const float* x, std::int32_t b, float* to) const {
    const std::size_t turned = s_.table == nullptr ? 0 : static_cast<std::size_t>(s_.rope_dim);
    if (x != to) {
      std::memcpy(to + turned * 32, x + turned * 32, (s_.k_dim - turned) * 32 * sizeof(float));
    }
    if (turned == 0) return;
    const std::size_t half = turned / 2 * 32;
    kernels_.blocks->rope({.x = to,
                           .cos = s_.table->cos + half * b,
                           .sin = s_.table->sin + half * b,
                           .rope_dim = s_.rope_dim,
                           .adjacent = s_.adjacent,
                           .from = x});
  }

  void grow(const Batch& batch, std::int32_t b) const {
    if (s_.growth.rate == 0.0F) return;
    float factors[32];
    for (std::int32_t i = 0; i < 32; ++i) {
      factors[i] = s_.growth.at(batch.positions[std::min(32 * b + i, batch.n_tokens - 1)]);
    }
    float* q = s_.out.block(b);
    for (std::size_t f = 0; f < std::size_t{s_.heads} * s_.k_dim; ++f, q += 32) {
      for (std::size_t i = 0; i < 32; ++i) q[i] *= factors[i];
    }
  }

  void store(const Batch& batch, std::int32_t b, const float* x, CacheSide side) const {
    const std::uint32_t dim = side == CacheSide::keys ? s_.k_dim : s_.v_dim;
    for (std::uint32_t h = 0; h < s_.kv_heads; ++h) {
      store_block(*kernels_.blocks, s_.cache, batch, b, h, side, x + std::size_t{h} * dim * 32,
                  dim);
    }
  }

  RopeStep s_;
  kernels::KernelSet kernels_;
};

}  // namespace

StepResult make_rope_kv_write(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<RopeRows>(context, step);
}

StepResult make_rope_kv_write_blocks(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<RopeBlocks>(context, step);
}

}  // namespace orrery::backend::cpu
