#include "silicon/product.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "silicon/spread.hpp"

namespace orrery::silicon {
namespace {

// Token blocks (of 32) that prefill's slices of 512 have, and below which threads share them and
// split the rows instead: those of backend/cpu/matmul_blocks.cpp.
constexpr int kSliceBlocks = 16;
constexpr int kShareBlocks = 8;
// Rows and columns of a task of a packed product: with a part of k of both operands it stays in L2.
constexpr int kPackedTask = 256;
// The same where a kernel multiplies a task over all of k and fetches parts of k meanwhile: sums of
// 512 KiB, two parts of the columns and two panels. From this many rows and columns on.
constexpr int kTaskRows = 512, kTaskColumns = 256, kTasksFrom = 768;
// From this many columns on, rows of the result are an odd number of cache lines apart, or those of
// a task would fall into few sets of the caches.
constexpr int kPaddedColumns = 256;

int blocks_of(int n) {
  return (n + 31) / 32;
}
std::size_t size(int n) {
  return static_cast<std::size_t>(n);
}

class BlockProduct : public Product {
 public:
  BlockProduct(const Problem& problem, WeightType type, const kernels::BlockKernels& kernels,
               ThreadTeam& team)
      : problem_(problem),
        kernels_(kernels),
        matmul_(kernels.matmul[static_cast<std::size_t>(dtype_of(type))]),
        spread_(team),
        w_stride_(row_bytes(dtype_of(type), static_cast<std::uint64_t>(problem.k))),
        x_block_bytes_(size(blocks_of(problem.k)) * 2048),
        scratch_bytes_(align_up(kernels.matmul_scratch_bytes(problem.k), 64)) {
    const int fair = problem.n / (2 * spread_.threads());
    rows_ = std::max(32, std::min(kernels.task_rows, fair / 32 * 32));
    const int blocks = blocks_of(problem.m);
    groups_ = std::max({1, (blocks + kSliceBlocks - 1) / kSliceBlocks,
                        std::min(spread_.threads(), blocks / kShareBlocks)});
  }

  Status allocate(WeightType type, const kernels::RowKernels& rows) {
    ORRERY_TRY(w_, problem_.encode(type, rows));
    const std::size_t blocks = size(blocks_of(problem_.m));
    ORRERY_TRY(x_, memory::Region::map(blocks * x_block_bytes_));
    ORRERY_TRY(y_, memory::Region::map(blocks * size(problem_.n) * 32 * sizeof(float)));
    ORRERY_TRY(scratch_, memory::Region::map(size(spread_.threads()) * scratch_bytes_));
    return {};
  }

  void pack() override {
    spread_.run(blocks_of(problem_.m), [&](int block, int) {
      const float* rows = problem_.x() + size(block) * 32 * size(problem_.k);
      kernels_.pack_columns(rows, size(problem_.k), std::min(32, problem_.m - 32 * block),
                            problem_.k, x_.data() + size(block) * x_block_bytes_);
    });
  }

  void run() override {
    const int tasks = (problem_.n + rows_ - 1) / rows_;
    spread_.run(groups_ * tasks, [&](int i, int thread) {  // one group's tasks after the other
      run_task(i / tasks, i % tasks * rows_, thread);
    });
  }

  float output(int x_row, int w_row) const override {
    return y()[(size(x_row / 32) * size(problem_.n) + size(w_row)) * 32 + size(x_row % 32)];
  }

 private:
  float* y() const { return reinterpret_cast<float*>(y_.data()); }  // F blocks of n features

  void run_task(int group, int row, int thread) {
    const int blocks = blocks_of(problem_.m);
    const int first = blocks * group / groups_, end = blocks * (group + 1) / groups_;
    kernels::MatmulBlocks call{};
    const void* w = w_.size() == 0 ? static_cast<const void*>(problem_.w()) : w_.data();
    call.w = static_cast<const std::byte*>(w) + size(row) * w_stride_;
    call.w_stride = w_stride_;
    call.row = row;
    call.n = std::min(rows_, problem_.n - row);
    call.k = problem_.k;
    call.x = x_.data() + size(first) * x_block_bytes_;
    call.m = std::min(32 * end, problem_.m) - 32 * first;
    call.scratch = scratch_.data() + size(thread) * scratch_bytes_;
    call.scale = 1.0F;
    call.out_f = y() + size(first) * size(problem_.n) * 32;
    call.features = problem_.n;
    matmul_(call);
  }

  const Problem& problem_;
  const kernels::BlockKernels& kernels_;
  void (*matmul_)(const kernels::MatmulBlocks&);
  Spread spread_;
  std::size_t w_stride_, x_block_bytes_, scratch_bytes_;
  memory::Region w_, x_, y_, scratch_;
  int rows_ = 32;   // of a task
  int groups_ = 1;  // of token blocks
};

class PackedProduct : public Product {
 public:
  PackedProduct(const Problem& problem, const kernels::BlockKernels& kernels, ThreadTeam& team)
      : problem_(problem),
        kernels_(kernels),
        spread_(team),
        whole_k_(kernels.matmul_task != nullptr && problem.m >= kTasksFrom &&
                 problem.n >= kTasksFrom),
        packed_k_(whole_k_ ? apart(problem.k) : problem.k),
        panel_bytes_(kernels.operand_bytes(32, packed_k_)),
        block_bytes_(size(blocks_of(packed_k_)) * 2048),
        c_stride_(align_up(size(problem.n), 16) + (problem.n >= kPaddedColumns ? 16 : 0)) {
    if (whole_k_) rows_ = kTaskRows, columns_ = kTaskColumns;
    const int fair = spread_.threads() == 1 ? 1 : 2 * spread_.threads();
    while (rows_ > 32 && count_tasks() < fair) {
      if (rows_ == columns_) columns_ /= 2;
      rows_ /= 2;
    }
    tasks_ = count_tasks();
  }

  // All in one region, so that a small product's operands do not meet in the same sets of L1.
  Status allocate() {
    const std::size_t a = size(blocks_of(problem_.m)) * panel_bytes_;
    const std::size_t b = size(blocks_of(problem_.n)) * block_bytes_;
    const std::size_t c = align_up(size(problem_.m), 16) * c_stride_ * sizeof(float);
    const std::size_t sums = whole_k_ ? size(spread_.threads()) * sums_floats() : 0;
    ORRERY_TRY(memory_, memory::Region::map(a + b + c + sums * sizeof(float)));
    a_ = memory_.data();
    b_ = a_ + a;
    c_ = reinterpret_cast<float*>(b_ + b);
    sums_ = c_ + c / sizeof(float);
    return {};
  }

  void pack() override {
    const int panels = blocks_of(problem_.m), depth = problem_.k;
    spread_.run(panels + blocks_of(problem_.n), [&](int i, int) {
      const int at = 32 * (i < panels ? i : i - panels);
      if (i < panels) {
        kernels_.pack_rows(problem_.x() + size(at) * size(depth), size(depth),
                           std::min(32, problem_.m - at), depth, a_ + size(i) * panel_bytes_);
      } else {
        kernels_.pack_columns(problem_.w() + size(at) * size(depth), size(depth),
                              std::min(32, problem_.n - at), depth,
                              b_ + size(i - panels) * block_bytes_);
      }
    });
  }

  void run() override {
    if (tasks_ == 1) return run_parts(0, 0);  // of small sizes that is all: nothing may cost more
    spread_.run(tasks_, [&](int i, int thread) { run_task(i, thread); });
  }

  float output(int x_row, int w_row) const override {
    return c_[size(x_row) * c_stride_ + size(w_row)];
  }

 private:
  int count_tasks() {
    across_ = (problem_.n + columns_ - 1) / columns_;
    return (problem_.m + rows_ - 1) / rows_ * across_;
  }
  int row_of(int task) const { return task / across_ * rows_; }
  int column_of(int task) const { return task % across_ * columns_; }
  const std::byte* panel(int row) const { return a_ + size(row / 32) * panel_bytes_; }
  const std::byte* block(int column) const { return b_ + size(column / 32) * block_bytes_; }
  std::size_t sums_floats() const { return size(rows_) * size(columns_); }

  // An odd number of parts of k, so that those of neighbours are in different sets of L2.
  int apart(int k) const {
    const int part = kernels_.operand_part_k, parts = (k + part - 1) / part;
    return parts == 1 ? k : (parts + (parts % 2 == 0 ? 1 : 0)) * part;
  }

  void run_task(int task, int thread) {
    if (!whole_k_) return run_parts(row_of(task), column_of(task));
    run_whole(task, std::min(task + 1, tasks_ - 1), thread);
  }

  void run_parts(int row, int column) {
    kernels::MatmulOperands call{};
    call.m = std::min(rows_, problem_.m - row);
    call.n = std::min(columns_, problem_.n - column);
    call.of_k = packed_k_;
    call.c = c_ + size(row) * c_stride_ + size(column);
    call.c_stride = c_stride_;
    const std::byte *a = panel(row), *b = block(column);
    for (int k = 0; k < problem_.k; k += kernels_.operand_part_k) {
      call.k = std::min(kernels_.operand_part_k, problem_.k - k);
      call.a = a + size(k / 32) * size(kernels_.operand_step_bytes);
      call.b = b + size(k / 32) * 2048;
      call.add = k > 0;
      kernels_.matmul_operands(call);
    }
  }

  void run_whole(int task, int next, int thread) {
    const int row = row_of(task), column = column_of(task);
    kernels_.matmul_task({.a = panel(row),
                          .b = block(column),
                          .a_stride = panel_bytes_,
                          .b_stride = block_bytes_,
                          .m = std::min(rows_, problem_.m - row),
                          .n = std::min(columns_, problem_.n - column),
                          .k = problem_.k,
                          .c = c_ + size(row) * c_stride_ + size(column),
                          .c_stride = c_stride_,
                          .sums = sums_ + size(thread) * sums_floats(),
                          .next_a = panel(row_of(next)),
                          .next_b = block(column_of(next))});
  }

  const Problem& problem_;
  const kernels::BlockKernels& kernels_;
  Spread spread_;
  bool whole_k_;  // of a task by one call
  int packed_k_;
  std::size_t panel_bytes_, block_bytes_;           // of 32 rows of A, of 32 columns of B
  std::size_t c_stride_;                            // floats
  int rows_ = kPackedTask, columns_ = kPackedTask;  // of a task
  int across_ = 1, tasks_ = 1;
  memory::Region memory_;
  std::byte* a_ = nullptr;
  std::byte* b_ = nullptr;
  float* c_ = nullptr;
  float* sums_ = nullptr;
};

}  // namespace

ProductResult make_block_product(const Problem& problem, WeightType type,
                                 const kernels::KernelSet& set, ThreadTeam& team) {
  auto product = std::make_unique<BlockProduct>(problem, type, *set.blocks, team);
  ORRERY_TRY_VOID(product->allocate(type, *set.rows));
  return product;
}

ProductResult make_packed_product(const Problem& problem, const kernels::BlockKernels& kernels,
                                  ThreadTeam& team) {
  auto product = std::make_unique<PackedProduct>(problem, kernels, team);
  ORRERY_TRY_VOID(product->allocate());
  return product;
}

KernelThreads::KernelThreads(ThreadTeam& team, const kernels::BlockKernels& kernels)
    : team_(team), end_(kernels.thread_end) {
  call_on_all(kernels.thread_begin);
}

KernelThreads::~KernelThreads() {
  call_on_all(end_);
}

void KernelThreads::call_on_all(void (*function)()) {
  team_.run([](void* context, int) { (*static_cast<void (**)()>(context))(); }, &function);
}

}  // namespace orrery::silicon
