// The benchmark of products: the matrix unit against the vector unit against a system BLAS.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "silicon/problem.hpp"
#include "silicon/timing.hpp"

namespace orrery::silicon {

inline constexpr int kSmallestProduct = 16, kLargestProduct = 4096;
// Up to this size one thread multiplies and packing is measured too: the heads of attention, of
// which every thread has its own.
inline constexpr int kHeadSize = 128;

struct MatmulOptions {
  std::vector<int> sizes = {16, 32, 64, 96, 128, 256, 512, 1024, 2048, 4096};
  int threads = 1;
  std::string forced_isa;      // "": every unit of this machine; a kernel set: that one alone
  double small_seconds = 0.1;  // for one figure, up to kHeadSize
  double large_seconds = 0.5;
};

// One figure. Products are square: m, n and k are the size.
struct MatmulTime {
  std::string unit;     // "matrix", "vector", "emulated", "blas"
  std::string kernels;  // what computes: a kernel set, "OpenBLAS", "torch"
  std::string path;     // "packed", "blocks", "sgemm": see docs/cli.md
  WeightType type = WeightType::f32;
  Precision precision = Precision::b16;
  int size = 0, threads = 1;
  bool packing = false;  // whether the conversion of f32 rows into the operands is in the time
  Timing time;
  double peak = 0;  // operations per second of the unit's registers, by as many threads

  double operations() const { return 2.0 * size * size * size; }
  double gflops() const { return operations() / time.best * 1e-9; }
  double peak_fraction() const { return peak > 0 ? operations() / time.best / peak : 0; }
};

struct UnitPeak {
  std::string unit, kernels, instruction;
  double one = 0, all = 0;  // operations per second of one thread and of all
};

struct MatmulReport {
  int threads = 1;
  std::vector<UnitPeak> peaks;
  std::vector<MatmulTime> times;
  Timing dispatch;                   // of an empty job to all threads and back
  std::vector<std::string> missing;  // what was not measured, and why
};

// E_ISA for an unknown kernel set, E_MEMORY, E_NUMBERS when a product is wrong.
Result<MatmulReport> run_matmul(const MatmulOptions& options);

// Tables for people.
std::string to_text(const MatmulReport& report);

}  // namespace orrery::silicon
