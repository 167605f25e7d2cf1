// attention of rows (class f32): each query row over its sequence in parts of 256 tokens that are
// merged in index order, so that the result does not depend on who computed which part.
#include <algorithm>

#include "backend/cpu/attention_output.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::int32_t kPartTokens = 256;
constexpr std::size_t kCounterBytes = 64;

struct Shape {
  std::uint32_t heads, kv_heads, k_dim, v_dim, g;
  std::size_t head_bytes, page_bytes, layer_offset, v_offset, v_stride;
  std::byte* pool;
  std::size_t group;
  DType k_type, v_type;
  float scale, softcap;
  std::uint32_t window;
  bool chunked, causal;
  const float* sinks;  // (heads) or null

  Shape(const CompileContext& context, const plan::Step& step)
      : heads(step.heads),
        kv_heads(step.kv_heads),
        k_dim(step.k_dim),
        v_dim(step.v_dim),
        g(step.heads / step.kv_heads),
        group(static_cast<std::size_t>(step.group)),
        scale(step.scale),
        softcap(step.softcap),
        window(step.window),
        chunked(step.chunked),
        causal(step.causal),
        sinks(context.vector(step.w[0])) {
    const plan::CacheGroup& cache = context.plan->groups[group];
    head_bytes = cache.head_bytes();
    page_bytes = cache.page_bytes();
    v_offset = cache.v_offset();
    v_stride = cache.v_stride();
    layer_offset = head_bytes * cache.kv_heads * static_cast<std::size_t>(step.group_layer);
    pool = context.bindings->pools[group].base;
    k_type = cache.k_type;
    v_type = cache.v_type;
  }
};

class AttentionRows : public CpuStep {
 public:
  AttentionRows(const CompileContext& context, const plan::Step& step)
      : s_(context, step),
        q_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        threads_(context.threads),
        rope_(context.merged),
        kernels_(*context.kernels->rows) {
    const std::uint64_t tokens =
        std::uint64_t{context.bindings->pools[s_.group].capacity} * plan::kPageTokens;
    max_parts_ = static_cast<std::int32_t>(tokens / kPartTokens) + 2 + sink_parts();
    kernel_ = context.kernel_label(false, "attention", plan::kNone);
  }

  std::size_t scratch_bytes() const override {
    return parts_bytes() + rotated_bytes() + std::size_t{s_.g} * s_.v_dim * 4 +
           kernels::q8_layout(std::size_t{s_.v_dim}).stride;
  }
  std::size_t shared_bytes() const override { return n_shared() * (parts_bytes() + kCounterBytes); }
  void bind_shared(std::byte* shared) override {
    counters_ = shared;
    shared_ = shared + n_shared() * kCounterBytes;
  }

  void run(const Worker& worker) const override {
    const std::int32_t items = worker.batch->n_tokens * static_cast<std::int32_t>(s_.kv_heads);
    if (items <= split_items()) {
      run_split(worker, items);
      return;
    }
    worker.each(items, [&](std::int32_t i) {
      const Item item = make_item(*worker.batch, i, 1);
      for (std::int32_t p = 0; p < item.parts; ++p) compute(worker, item, p, worker.scratch);
      merge(item, worker.scratch, worker);
    });
  }

 private:
  struct Item {
    std::int32_t row, head;          // query row, kv head
    std::uint32_t first_q, g;        // of the query heads that share it
    std::int32_t begin, end;         // positions that the row sees
    std::int32_t first_part, parts;  // blocks of 256 positions that they touch
  };

  // A sink is merged as a part of its own: its score, weight 1 and no values.
  std::int32_t sink_parts() const { return s_.sinks == nullptr ? 0 : 1; }
  // Few rows: all threads share the parts of each (row, head); the one that ends last merges.
  std::int32_t split_items() const { return 4 * threads_; }
  std::size_t n_shared() const { return static_cast<std::size_t>(split_items()); }
  std::size_t part_floats() const { return std::size_t{s_.g} * (s_.v_dim + 2); }
  std::size_t rotated_bytes() const { return (std::size_t{s_.g} * s_.k_dim * 4 + 63) / 64 * 64; }
  std::size_t parts_bytes() const {
    return (static_cast<std::size_t>(max_parts_) * part_floats() * 4 + 63) / 64 * 64;
  }

  // Item i where the query heads of each (row, kv head) are cut into `cuts`.
  Item make_item(const Batch& batch, std::int32_t i, std::int32_t cuts) const {
    Item item{};
    const std::int32_t cut = i % cuts;
    item.row = i / cuts / static_cast<std::int32_t>(s_.kv_heads);
    item.head = i / cuts % static_cast<std::int32_t>(s_.kv_heads);
    const auto first = [&](std::int32_t c) {
      return s_.g * static_cast<std::uint32_t>(c) / static_cast<std::uint32_t>(cuts);
    };
    item.first_q = first(cut);
    item.g = first(cut + 1) - item.first_q;
    const std::int32_t position = batch.positions[item.row];
    const auto window = static_cast<std::int32_t>(s_.window);
    item.end = s_.causal ? position + 1 : batch.positions[batch.n_tokens - 1] + 1;
    if (window != 0) {
      item.begin = s_.chunked ? position - position % window : std::max(0, position + 1 - window);
      item.end = std::min(item.end, position + window);
    }
    item.first_part = item.begin / kPartTokens;
    item.parts = (item.end - 1) / kPartTokens - item.first_part + 1;
    return item;
  }

  // Many query heads on one kv head, and fewer parts than threads: each thread takes some heads and
  // reads the pages for itself. (A merged rope step has its kv head written once.)
  std::int32_t head_cuts(std::int32_t items, std::int32_t parts) const {
    constexpr std::uint32_t kLeastHeads = 4;
    if (rope_ != nullptr || s_.g < 2 * kLeastHeads || parts >= 2 * threads_) return 1;
    const std::int32_t wanted = (2 * threads_ + parts - 1) / parts;
    const std::int32_t most =
        std::min(static_cast<std::int32_t>(s_.g / kLeastHeads), split_items() / items);
    return std::min(wanted, most);
  }

  void run_split(const Worker& worker, std::int32_t rows) const {
    std::int32_t total = 0;
    for (std::int32_t i = 0; i < rows; ++i) total += make_item(*worker.batch, i, 1).parts;
    if (total == 0) return;
    const std::int32_t cuts = head_cuts(rows, total);
    worker.each(total * cuts, [&](std::int32_t n) {
      std::int32_t i = 0;
      std::int32_t part = n;
      Item item = make_item(*worker.batch, 0, cuts);
      while (part >= item.parts) {
        part -= item.parts;
        item = make_item(*worker.batch, ++i, cuts);
      }
      std::byte* parts = shared_ + static_cast<std::size_t>(i) * parts_bytes();
      compute(worker, item, part, parts);
      auto& done = *reinterpret_cast<std::atomic<std::int32_t>*>(
          counters_ + static_cast<std::size_t>(i) * kCounterBytes);
      if (done.fetch_add(1, std::memory_order_acq_rel) == item.parts - 1) {
        done.store(0, std::memory_order_relaxed);
        merge(item, parts, worker);
      }
    });
  }

  // The heads' queries. In place of a merged rope step they are rotated here, by each part for
  // itself, and the new K and V are written by the one part that reads them: the last.
  const float* queries(const Worker& worker, const Item& item, std::int32_t part) const {
    const auto head = static_cast<std::uint32_t>(item.head);
    if (!worker.solo || rope_ == nullptr) {
      return q_.row(item.row) + (std::size_t{head} * s_.g + item.first_q) * s_.k_dim;
    }
    float* rotated = reinterpret_cast<float*>(worker.scratch + parts_bytes());
    if (part == item.parts - 1) rope_->write_cache(*worker.batch, item.row, head, rotated);
    rope_->write_q(*worker.batch, item.row, head, rotated);
    return rotated;
  }

  std::size_t stored_parts(const Item& item) const {
    return static_cast<std::size_t>(item.parts + sink_parts());
  }

  void add_sink(const Item& item, std::byte* memory) const {
    const std::size_t n = stored_parts(item) * item.g, at = n - item.g;
    const std::size_t first = static_cast<std::size_t>(item.head) * s_.g + item.first_q;
    float* m = reinterpret_cast<float*>(memory);
    std::copy_n(s_.sinks + first, item.g, m + at);
    std::fill_n(m + n + at, item.g, 1.0F);
    std::fill_n(m + 2 * n + at * s_.v_dim, item.g * s_.v_dim, 0.0F);
  }

  // Layout of the parts of one item: m (parts, g) | l (parts, g) | o (parts, g, v_dim).
  void compute(const Worker& worker, const Item& item, std::int32_t part, std::byte* memory) const {
    const Batch& batch = *worker.batch;
    float* m = reinterpret_cast<float*>(memory);
    float* l = m + stored_parts(item) * item.g;
    float* o = l + stored_parts(item) * item.g;
    const std::int32_t first = (item.first_part + part) * kPartTokens;
    kernels::AttentionPart args{};
    args.q = queries(worker, item, part);
    args.q_stride = s_.k_dim;
    args.g = static_cast<int>(item.g);
    args.k_dim = static_cast<int>(s_.k_dim);
    args.v_dim = static_cast<int>(s_.v_dim);
    args.pool = s_.pool;
    args.page_bytes = s_.page_bytes;
    args.head_offset = s_.layer_offset + static_cast<std::size_t>(item.head) * s_.head_bytes;
    args.v_offset = s_.v_offset;
    args.v_stride = s_.v_stride;
    args.pages = batch.page_tables[s_.group] + batch.row_sequence[item.row] * batch.pages_stride;
    args.begin = std::max(item.begin, first);
    args.end = std::min(item.end, first + kPartTokens);
    args.filled = item.end;
    args.k_type = s_.k_type;
    args.v_type = s_.v_type;
    args.scale = s_.scale;
    args.softcap = s_.softcap;
    args.m = m + static_cast<std::size_t>(part) * item.g;
    args.l = l + static_cast<std::size_t>(part) * item.g;
    args.o = o + static_cast<std::size_t>(part) * item.g * s_.v_dim;
    args.o_stride = s_.v_dim;
    kernels_.attention_part(args);
  }

  void merge(const Item& item, std::byte* memory, const Worker& worker) const {
    if (s_.sinks != nullptr) add_sink(item, memory);
    const std::size_t n = stored_parts(item) * item.g;
    const float* m = reinterpret_cast<const float*>(memory);
    const bool operand = out_.form == plan::Form::q8;
    const std::uint32_t first =
        (static_cast<std::uint32_t>(item.head) * s_.g + item.first_q) * s_.v_dim;
    float* rows = reinterpret_cast<float*>(worker.scratch + parts_bytes() + rotated_bytes());
    float* out = operand ? rows : out_.row(item.row) + first;
    const auto parts = static_cast<int>(stored_parts(item));
    kernels_.attention_merge({m, m + n, m + 2 * n, parts, static_cast<int>(item.g),
                              static_cast<int>(s_.v_dim), out, s_.v_dim});
    if (!operand) return;
    std::byte* temporary = reinterpret_cast<std::byte*>(rows + std::size_t{s_.g} * s_.v_dim);
    for (std::uint32_t h = 0; h < item.g; ++h) {
      store_q8(kernels_, rows + std::size_t{h} * s_.v_dim, first + h * s_.v_dim, s_.v_dim,
               out_.bytes(item.row), out_.cols, temporary);
    }
  }

  Shape s_;
  BufferRef q_, out_;
  int threads_;
  const RowRope* rope_;  // the merged step, or null
  std::int32_t max_parts_ = 0;
  const kernels::RowKernels& kernels_;
  std::byte* counters_ = nullptr;
  std::byte* shared_ = nullptr;
};

class AttentionBlocks : public CpuStep {
 public:
  AttentionBlocks(const CompileContext& context, const plan::Step& step)
      : s_(context, step),
        q_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        kernels_(*context.kernels->blocks) {
    kernel_ = context.kernel_label(true, "attention", plan::kNone);
  }

  std::size_t scratch_bytes() const override {
    return kernels_.attention_scratch_bytes(static_cast<int>(s_.k_dim), static_cast<int>(s_.v_dim));
  }

  // An item is one kv head's query heads over some adjacent blocks: each page is unpacked once for
  // all of them. Later blocks see more keys and come first, so that what is left at the end is
  // small and nobody waits long.
  void run(const Worker& worker) const override {
    const std::int32_t blocks = n_blocks(worker.batch->n_tokens);
    const std::int32_t units = std::max(1, kernels::kMaxAttentionUnits / heads_per_item());
    // Two items a thread at least, so that nobody waits for a whole one.
    const std::int32_t fair = std::max(1, blocks * head_groups() / (2 * worker.threads));
    const std::int32_t per_item = std::min(units, fair);
    const std::int32_t groups = (blocks + per_item - 1) / per_item;
    worker.each(groups * head_groups(), [&](std::int32_t i) {
      const std::int32_t first = (groups - 1 - i / head_groups()) * per_item;
      attend(worker, first, std::min(per_item, blocks - first), i % head_groups());
    });
  }

 private:
  // Query heads that share a kv head; a part of them where there are very many.
  std::int32_t heads_per_item() const {
    std::int32_t heads = static_cast<std::int32_t>(s_.g);
    while (heads > kernels::kMaxAttentionUnits || static_cast<std::int32_t>(s_.g) % heads != 0)
      --heads;
    return heads;
  }
  std::int32_t head_groups() const {
    return static_cast<std::int32_t>(s_.heads) / heads_per_item();
  }

  void attend(const Worker& worker, std::int32_t b, std::int32_t blocks, std::int32_t group) const {
    const Batch& batch = *worker.batch;
    const std::uint32_t head = static_cast<std::uint32_t>(group * heads_per_item());
    kernels::AttentionBlock args{};
    args.q = q_.block(b) + std::size_t{head} * s_.k_dim * 32;
    args.q_block_stride = q_.row_bytes * 32 / sizeof(float);
    args.heads = heads_per_item();
    args.blocks = blocks;
    args.k_dim = static_cast<int>(s_.k_dim);
    args.v_dim = static_cast<int>(s_.v_dim);
    args.first_position = batch.positions[32 * b];
    args.n_tokens = std::min(32 * blocks, batch.n_tokens - 32 * b);
    args.last_key = s_.causal ? -1 : batch.positions[batch.n_tokens - 1];
    args.window = s_.window;
    args.chunked = s_.chunked;
    args.pool = s_.pool;
    args.page_bytes = s_.page_bytes;
    args.head_offset = s_.layer_offset + std::size_t{head / s_.g} * s_.head_bytes;
    args.pages = batch.page_tables[s_.group] + batch.row_sequence[0] * batch.pages_stride;
    args.k_type = s_.k_type;
    args.v_type = s_.v_type;
    args.scale = s_.scale;
    args.softcap = s_.softcap;
    args.sinks = s_.sinks == nullptr ? nullptr : s_.sinks + head;
    args.scratch = worker.scratch;
    set_output(args, out_, b, head * s_.v_dim);
    kernels_.attention(args);
  }

  Shape s_;
  BufferRef q_, out_;
  const kernels::BlockKernels& kernels_;
};

}  // namespace

StepResult make_attention(const CompileContext& context, const plan::Step& step) {
  const plan::CacheGroup& cache = context.plan->groups[static_cast<std::size_t>(step.group)];
  const bool quantized = is_quantized_cache(cache.k_type) || is_quantized_cache(cache.v_type);
  if (quantized && std::max(step.k_dim, step.v_dim) > kernels::kMaxQuantizedDim) {
    return fail("E_UNSUPPORTED", "the CPU backend has a quantized cache for heads of up to " +
                                     std::to_string(kernels::kMaxQuantizedDim) + " values");
  }
  return std::make_unique<AttentionRows>(context, step);
}

StepResult make_attention_blocks(const CompileContext& context, const plan::Step& step) {
  if (step.v_dim > kernels::kMaxHeadDim) {
    return fail("E_UNSUPPORTED", "the CPU backend has block attention for heads of up to " +
                                     std::to_string(kernels::kMaxHeadDim) + " values; this has " +
                                     std::to_string(step.v_dim));
  }
  return std::make_unique<AttentionBlocks>(context, step);
}

}  // namespace orrery::backend::cpu
