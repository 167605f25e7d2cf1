// Decode matmul by layout (file, packed): weight bytes per second by type, rows and working set.
//   rows_bench [--isa=avx512] [--types=Q4_1,Q8_0] [--k=576] [--threads=1] [--mb=1,60,400]
//   [--m=1,2,4,8]
// Every line names the kernels, the set and the threads. The time is the best of several passes, in
// processor time of the slowest thread, so that other work on the machine counts little.
#include <fmt/format.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/dispatch.hpp"
#include "tensor/packed.hpp"

namespace {

using namespace orrery;
using namespace orrery::kernels;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string isa,
      types = "Q4_1,Q4_0,Q5_0,Q5_1,Q8_0,Q4_K,Q5_K,Q6_K,Q2_K,Q3_K,IQ4_NL,IQ4_XS,MXFP4,NVFP4,F16";
  std::string mb = "1,60,400", m = "1,2,4,8";
  int k = 0, threads = 1;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const std::string value = arg.substr(std::min(arg.find('=') + 1, arg.size()));
    if (arg.starts_with("--isa=")) o.isa = value;
    if (arg.starts_with("--types=")) o.types = value;
    if (arg.starts_with("--mb=")) o.mb = value;
    if (arg.starts_with("--m=")) o.m = value;
    if (arg.starts_with("--k=")) o.k = std::stoi(value);
    if (arg.starts_with("--threads=")) o.threads = std::stoi(value);
  }
  return o;
}

// Anonymous huge pages filled with bytes that are valid, finite blocks of every type.
std::uint8_t* weights(std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  madvise(p, bytes, MADV_HUGEPAGE);
  auto* w = static_cast<std::uint8_t*>(p);
  std::mt19937 random(1);
  for (std::size_t i = 0; i < bytes; ++i)
    w[i] = static_cast<std::uint8_t>((random() & 0x3B) | 0x20);
  return w;
}

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// All rows once, dealt to the threads in chunks of 64 rows: seconds of the slowest thread.
double pass(const RowKernels& table, DType type, Layout layout, const MatmulRows& all,
            int threads) {
  std::vector<double> seconds(static_cast<std::size_t>(threads));
  const auto work = [&](int thread) {
    const double start = thread_seconds();
    for (int row = thread * 64; row < all.n; row += threads * 64) {
      MatmulRows part = all;
      part.w =
          static_cast<const std::uint8_t*>(all.w) + static_cast<std::size_t>(row) * all.w_stride;
      part.n = std::min(64, all.n - row);
      part.y = all.y + row;
      row_matmul(table, type, layout, part.m)(part);
    }
    seconds[static_cast<std::size_t>(thread)] = thread_seconds() - start;
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  return *std::max_element(seconds.begin(), seconds.end());
}

double best_rate(const RowKernels& table, DType type, Layout layout, const MatmulRows& a,
                 int threads) {
  const double bytes = static_cast<double>(a.w_stride) * a.n;
  double best = 0.0;
  const auto end = Clock::now() + std::chrono::milliseconds(150);
  for (int passes = 0; passes < 3 || Clock::now() < end; ++passes) {
    best = std::max(best, bytes / pass(table, type, layout, a, threads) * 1e-9);
  }
  return best;
}

DType type_by_name(const std::string& name) {
  for (std::uint32_t id = 0; id < 48; ++id) {
    const auto type = dtype_from_id(id);
    if (type && dtype_info(*type).name == name) return *type;
  }
  return DType::f32;
}

void run_type(const Options& o, const KernelSet& set, DType type, Layout layout, std::uint8_t* w) {
  const bool is_k = dtype_info(type).block_len == 256;
  const int k = o.k != 0 ? o.k : is_k ? 1536 : 576;
  const std::uint64_t stride = row_bytes(type, static_cast<std::uint64_t>(k));
  for (const std::string& mb : split(o.mb)) {
    const auto n = static_cast<int>(std::stoull(mb) * 1000000 / stride / 64 * 64);
    std::string line;
    for (const std::string& m_text : split(o.m)) {
      const int m = std::stoi(m_text);
      std::vector<float> input(static_cast<std::size_t>(k), 0.5F);
      const std::size_t q8 = q8_layout(static_cast<std::size_t>(k)).stride;
      const bool floats = !dtype_info(type).is_quantized;
      const std::size_t x_stride = floats ? static_cast<std::size_t>(k) * 4 : q8;
      std::vector<std::uint8_t> x(x_stride * static_cast<std::size_t>(m) + 64);
      for (int i = 0; i < m; ++i) {
        std::uint8_t* row = x.data() + x_stride * static_cast<std::size_t>(i);
        if (floats) {
          std::memcpy(row, input.data(), x_stride);
        } else {
          set.rows->quantize_q8(input.data(), k, row);
        }
      }
      std::vector<float> y(static_cast<std::size_t>(n) * static_cast<std::size_t>(m));
      const MatmulRows a = {
          w, stride, n, k, x.data(), x_stride, m, y.data(), static_cast<std::size_t>(n)};
      line += fmt::format(" m={} {:6.1f}", m, best_rate(*set.rows, type, layout, a, o.threads));
    }
    fmt::print("{:7} {:6} k {:5} {:4} MB, rows {}, {} threads, GB/s:{}\n", dtype_info(type).name,
               layout == Layout::packed ? "packed" : "file", k, mb, set.rows->isa, o.threads, line);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  const auto set = choose_kernels(o.isa);
  if (!set) {
    fmt::print(stderr, "{}\n", set.error().message);
    return 1;
  }
  std::size_t most = 0;
  for (const std::string& mb : split(o.mb)) most = std::max(most, std::stoul(mb) * 1000000 + 4096);
  std::uint8_t* w = weights(most);
  if (w == nullptr) return 1;
  for (const std::string& name : split(o.types)) {
    const DType type = type_by_name(name);
    run_type(o, *set, type, Layout::file, w);
    if (is_packable(type, kPackedRows, 32)) run_type(o, *set, type, Layout::packed, w);
  }
  return 0;
}
