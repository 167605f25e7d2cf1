// Speed of the block kernels on one core: blocks_bench [ISA...]. Best of several runs; the share of
// the multiply-add peak that the same core reaches from registers stands beside it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/dispatch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/packed.hpp"

namespace {

using namespace orrery;
using namespace orrery::kernels;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<std::byte, Free>;

// 64-byte aligned, every 16 bits a small half float (also a sane scale of any block type).
Memory allocate(std::size_t bytes) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)));
  std::mt19937 engine(1);
  for (std::size_t i = 0; i + 2 <= bytes; i += 2) {
    const std::uint16_t half = static_cast<std::uint16_t>(0x2400U | (engine() & 0x83FFU));
    std::memcpy(memory.get() + i, &half, 2);
  }
  return memory;
}

// The same with normal floats.
Memory allocate_floats(std::size_t n) {
  Memory memory = allocate(4 * n);
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < n; ++i) reinterpret_cast<float*>(memory.get())[i] = normal(engine);
  return memory;
}

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds of this thread for the fastest of many calls (0.2 s of them): other programs, and other
// tenants of the machine, disturb that little.
double best_time(const std::function<void()>& call) {
  double best = 1e30;
  const double end = thread_seconds() + 0.2;
  for (double start = thread_seconds(); start < end;) {
    call();
    const double now = thread_seconds();
    best = std::min(best, now - start);
    start = now;
  }
  return best;
}

#if defined(__x86_64__)
constexpr int kPeakRounds = 20'000;

// 16 independent chains of multiply-adds in registers (12 where there are 16 registers only).
[[gnu::target("avx512f"), gnu::noinline]] void fma_loop_avx512() {
  for (int i = 0; i < kPeakRounds; ++i) {
    asm volatile(
        ".irp n,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16\n"
        "vfmadd231ps %%zmm0, %%zmm0, %%zmm\\n\n"
        ".endr" ::
            : "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10",
              "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16");
  }
}

[[gnu::target("avx2,fma"), gnu::noinline]] void fma_loop_avx2() {
  for (int i = 0; i < kPeakRounds; ++i) {
    asm volatile(
        ".irp n,1,2,3,4,5,6,7,8,9,10,11,12\n"
        "vfmadd231ps %%ymm0, %%ymm0, %%ymm\\n\n"
        ".endr" ::
            : "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
              "xmm11", "xmm12");
  }
}

// 4 tile products, as a block of 2 x 2 needs them, without loads.
void tile_loop() {
  for (int i = 0; i < kPeakRounds; ++i) {
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n tdpbf16ps %tmm7, %tmm4, %tmm1\n"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n tdpbf16ps %tmm7, %tmm5, %tmm3\n");
  }
}
#endif

// FLOP/s of multiply-adds (AMX: bf16, else f32) from registers, 0 where it is not measured.
double register_peak(const std::string& isa) {
#if defined(__x86_64__)
  if (isa == "avx2") {
    return 2.0 * 12 * 8 * kPeakRounds / best_time(fma_loop_avx2);
  }
  if (isa == "amx") return 2.0 * 32 * 32 * 32 * kPeakRounds / best_time(tile_loop);
  if (isa.starts_with("avx512")) {
    return 2.0 * 16 * 16 * kPeakRounds / best_time(fma_loop_avx512);
  }
#endif
  (void)isa;
  return 0;
}

void report(const char* what, double flops, double seconds, double peak) {
  std::printf("  %-34s %9.3f ms %8.1f GFLOP/s", what, seconds * 1e3, flops / seconds * 1e-9);
  if (peak > 0) std::printf(" %5.0f%% of peak", 100 * flops / seconds / peak);
  std::printf("\n");
}

struct Shape {
  DType type;
  int k, n, m;
  Layout layout = Layout::file;
};

void bench_matmul(const BlockKernels& blocks, const Shape& s, double peak) {
  const bool packed = s.layout == Layout::packed;
  const std::size_t stride = row_bytes(s.type, s.k);
  const Memory w = allocate(stride * s.n), x = allocate(std::size_t(s.m) * s.k * 2);
  const Memory scratch = allocate(blocks.matmul_scratch_bytes(s.k));
  const Memory out = allocate(std::size_t(s.m) * s.n * 2);
  MatmulBlocks call = {};
  call.w_stride = stride, call.k = s.k, call.x = x.get(), call.m = s.m, call.scale = 1.0F;
  call.scratch = scratch.get(), call.out_x = out.get(), call.features = s.n;
  const double time = best_time([&] {
    call.n = s.n, call.w = w.get();
    (packed ? blocks.matmul_packed : blocks.matmul)[static_cast<int>(s.type)](call);
  });
  char name[96];
  std::snprintf(name, sizeof name, "matmul %s%s %d -> %d, m %d", dtype_info(s.type).name.data(),
                packed ? " packed" : "", s.k, s.n, s.m);
  report(name, 2.0 * s.k * s.n * s.m, time, peak);
}

// All heads of one layer over `tokens` tokens from position 0.
void bench_attention(const BlockKernels& blocks, int dim, int heads, int tokens, double peak) {
  const std::size_t page_bytes = 64 * 4 * std::size_t(dim);
  const int n_blocks = tokens / 32;
  const Memory pool = allocate(page_bytes * (tokens / 64));
  const Memory q = allocate_floats(std::size_t(tokens) * heads * dim);
  const Memory out = allocate(std::size_t(tokens) * heads * dim * 2);
  const Memory scratch = allocate(blocks.attention_scratch_bytes(dim, dim));
  std::vector<std::int32_t> pages;
  for (int i = 0; i < tokens / 64; ++i) pages.push_back(i);
  AttentionBlock call = {};
  call.k_dim = dim, call.v_dim = dim, call.pool = pool.get(), call.page_bytes = page_bytes;
  call.pages = pages.data(), call.scale = 0.1F, call.scratch = scratch.get(), call.heads = heads;
  call.q_block_stride = std::size_t(heads) * dim * 32;
  call.out_x_block_stride = std::size_t(heads) * dim * 64;
  const int per_call = std::max(1, kMaxAttentionUnits / heads);
  const double time = best_time([&] {
    for (int b = 0; b < n_blocks; b += per_call) {
      call.blocks = std::min(per_call, n_blocks - b);
      call.first_position = 32 * b, call.n_tokens = 32 * call.blocks;
      call.q = reinterpret_cast<const float*>(q.get()) + b * call.q_block_stride;
      call.out_x = out.get() + b * call.out_x_block_stride;
      blocks.attention(call);
    }
  });
  char name[96];
  std::snprintf(name, sizeof name, "attention d %d, %d heads, %d tokens", dim, heads, tokens);
  report(name, 2.0 * tokens * tokens * dim * heads, time, peak);  // causal half
}

}  // namespace

int main(int argc, char** argv) {
  for (const KernelSet& set : available_kernels()) {
    const std::string isa = set.blocks->isa;
    if (argc > 1 && std::find(argv + 1, argv + argc, isa) == argv + argc) continue;
    if (argc == 1 && isa.starts_with("emu")) continue;
    set.blocks->thread_begin();
    const double peak = register_peak(isa);
    std::printf("%s: peak of one core from registers %.1f GFLOP/s\n", isa.c_str(), peak * 1e-9);
    for (const Shape& shape :
         {Shape{DType::f32, 576, 576, 512}, Shape{DType::q4_0, 576, 1536, 512},
          Shape{DType::q4_1, 576, 576, 64}, Shape{DType::q4_0, 576, 576, 32},
          Shape{DType::q6_k, 1536, 576, 32}, Shape{DType::q4_k, 1536, 576, 32},
          Shape{DType::q5_0, 896, 896, 512}, Shape{DType::q8_0, 576, 576, 512},
          Shape{DType::q4_k, 1536, 576, 512}, Shape{DType::q6_k, 4864, 896, 512},
          Shape{DType::iq4_xs, 1536, 576, 512}, Shape{DType::q4_1, 576, 576, 512},
          Shape{DType::q4_1, 576, 576, 512, Layout::packed},
          Shape{DType::q5_0, 896, 896, 512, Layout::packed},
          Shape{DType::q8_0, 576, 576, 512, Layout::packed}}) {
      bench_matmul(*set.blocks, shape, peak);
    }
    bench_attention(*set.blocks, 64, 3, 512, peak);
    bench_attention(*set.blocks, 128, 4, 1024, peak);
    set.blocks->thread_end();
  }
  return 0;
}
