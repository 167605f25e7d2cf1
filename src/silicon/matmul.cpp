#include "silicon/matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/peak_kernels.hpp"
#include "silicon/blas.hpp"
#include "silicon/product.hpp"
#include "silicon/torch.hpp"

namespace orrery::silicon {
namespace {

// A product that would take longer than this at half of the unit's peak is left out.
constexpr double kLongestSeconds = 3.0;
constexpr int kCheckedOutputs = 16;
constexpr int kPeakRepeats = 5;

struct Unit {
  std::string name;
  kernels::KernelSet set;
  UnitPeak peak;
};

struct Setup {
  std::string unit, kernels, path;
  WeightType type;
  Precision precision;
};

bool is_matrix(const kernels::KernelSet& set) {
  return std::string_view(set.blocks->isa) == "amx";
}
bool is_emulated(const kernels::KernelSet& set) {
  return std::string_view(set.blocks->isa).starts_with("emu");
}

// A peak that was disturbed makes every share of it too good.
double best_rate(ThreadTeam& team, double (*multiply)(int rounds)) {
  double best = 0;
  for (int i = 0; i < kPeakRepeats; ++i) best = std::max(best, multiply_rate(team, multiply));
  return best;
}

class Bench {
 public:
  explicit Bench(const MatmulOptions& options) : options_(options), one_(1), all_(options.threads) {
    report_.threads = all_.size();
  }

  Result<MatmulReport> run() {
    ORRERY_TRY_VOID(find_units());
    blas_ = Blas::open();
    if (blas_ == nullptr) report_.missing.emplace_back("blas: OpenBLAS is not on this machine");
    for (Unit& unit : units_) measure_peak(unit);
    measure_blas_peak();
    report_.dispatch = dispatch_latency(all_);
    for (const int size : options_.sizes) {
      ORRERY_TRY(const Problem problem, Problem::make(size, size, size));
      for (const Unit& unit : units_) ORRERY_TRY_VOID(measure_unit(unit, problem));
    }
    // Its threads keep spinning for a while after a product, so it comes last.
    for (const int size : options_.sizes) {
      if (blas_ == nullptr) break;
      ORRERY_TRY(const Problem problem, Problem::make(size, size, size));
      ORRERY_TRY_VOID(measure_blas(problem));
    }
    measure_torch();
    return std::move(report_);
  }

 private:
  Status find_units() {
    if (!options_.forced_isa.empty()) {
      ORRERY_TRY(const kernels::KernelSet set, kernels::choose_kernels(options_.forced_isa));
      const char* name = is_matrix(set) ? "matrix" : is_emulated(set) ? "emulated" : "vector";
      units_.push_back({name, set, {}});
      return {};
    }
    // Best first, so that the first of a kind is the best of it.
    for (const kernels::KernelSet& set : kernels::available_kernels()) {
      const std::string name = is_matrix(set) ? "matrix" : "vector";
      const auto same = [&](const Unit& unit) { return unit.name == name; };
      if (is_emulated(set) || std::ranges::any_of(units_, same)) continue;
      units_.push_back({name, set, {}});
    }
    for (const auto& [name, what] :
         {std::pair{"matrix", "this processor or build has no AMX tiles"},
          std::pair{"vector", "this processor or build has no vector unit with block kernels"}}) {
      const auto same = [&](const Unit& unit) { return unit.name == name; };
      if (std::ranges::none_of(units_, same)) {
        report_.missing.push_back(fmt::format("{}: {}", name, what));
      }
    }
    return {};
  }

  // The instruction that the unit's products are made of.
  void measure_peak(Unit& unit) {
    const kernels::PeakKernels& peaks = kernels::peak_kernels(unit.set);
    const bool tiles = peaks.multiply_tile != nullptr, bf16 = peaks.multiply_bf16 != nullptr;
    const auto multiply = tiles  ? peaks.multiply_tile
                          : bf16 ? peaks.multiply_bf16
                                 : peaks.multiply_f32;
    unit.peak = {unit.name, unit.set.name,
                 tiles  ? "bf16 tiles"
                 : bf16 ? "bf16 dot"
                        : "f32 fma",
                 best_rate(one_, multiply), best_rate(all_, multiply)};
    report_.peaks.push_back(unit.peak);
  }

  // A BLAS in f32 is held against the best that this machine does in f32, whatever set is forced.
  void measure_blas_peak() {
    for (const kernels::KernelSet& set : kernels::available_kernels()) {
      if (is_emulated(set)) continue;
      const kernels::PeakKernels& peaks = kernels::peak_kernels(set);
      blas_peak_ = {"blas", set.name, "f32 fma", best_rate(one_, peaks.multiply_f32),
                    best_rate(all_, peaks.multiply_f32)};
      return;
    }
  }

  Status measure_unit(const Unit& unit, const Problem& problem) {
    if (too_large(unit.name, unit.peak, problem.m)) return {};
    ThreadTeam& team = problem.m <= kHeadSize ? one_ : all_;
    const KernelThreads begun(team, *unit.set.blocks);
    {
      ORRERY_TRY(const auto packed, make_packed_product(problem, *unit.set.blocks, team));
      ORRERY_TRY_VOID(
          measure({unit.name, unit.set.name, "packed", WeightType::bf16, Precision::b16}, problem,
                  *packed, unit.peak));
    }
    for (const WeightType type : kWeightTypes) {
      if (!fits(type, problem.k)) {
        note(fmt::format("int8 and int4 of {0} x {0}: their blocks are 32 weights", problem.m));
        continue;
      }
      ORRERY_TRY(const auto blocks, make_block_product(problem, type, unit.set, team));
      ORRERY_TRY_VOID(measure({unit.name, unit.set.name, "blocks", type, Precision::b16}, problem,
                              *blocks, unit.peak));
    }
    return {};
  }

  Status measure_blas(const Problem& problem) {
    if (too_large("blas", blas_peak_, problem.m)) return {};
    const int threads = problem.m <= kHeadSize ? 1 : all_.size();
    ORRERY_TRY(const auto product, blas_->product(problem, threads));
    return measure({"blas", "OpenBLAS", "sgemm", WeightType::f32, Precision::f32}, problem,
                   *product, blas_peak_);
  }

  void measure_torch() {
    const UnitPeak best = units_.empty() ? UnitPeak{} : units_.front().peak;
    TorchRequest request{
        {}, kHeadSize, all_.size(), options_.small_seconds, options_.large_seconds};
    for (const int size : options_.sizes) {
      if (!too_large("torch", blas_peak_, size)) request.sizes.push_back(size);
    }
    const auto times = time_torch(request);
    if (!times) return report_.missing.push_back("torch: " + times.error().message);
    for (const TorchTime& found : *times) {
      const bool small = found.size <= kHeadSize, f32 = found.type == WeightType::f32;
      const UnitPeak& peak = f32 ? blas_peak_ : best;
      report_.times.push_back(
          {"torch", "torch", "mm", found.type, f32 ? Precision::f32 : Precision::b16, found.size,
           small ? 1 : all_.size(), true, found.time, small ? peak.one : peak.all});
    }
  }

  void note(std::string line) {  // once
    if (std::ranges::find(report_.missing, line) == report_.missing.end()) {
      report_.missing.push_back(std::move(line));
    }
  }

  bool too_large(const std::string& unit, const UnitPeak& peak, int size) {
    const double seconds = 2.0 * size * size * size / (0.5 * peak.all);
    if (peak.all <= 0 || seconds <= kLongestSeconds) return false;
    report_.missing.push_back(
        fmt::format("{} {} x {}: would take {:.0f} s a product", unit, size, size, seconds));
    return true;
  }

  Status measure(const Setup& setup, const Problem& problem, Product& product,
                 const UnitPeak& peak) {
    const bool small = problem.m <= kHeadSize, blas = setup.unit == "blas";
    MatmulTime time;
    time.unit = setup.unit, time.kernels = setup.kernels, time.path = setup.path;
    time.type = setup.type, time.precision = setup.precision;
    time.size = problem.m, time.threads = small ? 1 : all_.size();
    time.peak = small ? peak.one : peak.all;
    const double budget = small ? options_.small_seconds : options_.large_seconds;
    product.pack();
    // A BLAS takes f32 rows, whatever it does with them: its time has packing in it.
    time.packing = blas;
    time.time = time_calls(budget, [&] { product.run(); });
    ORRERY_TRY_VOID(check(time, problem, product));
    report_.times.push_back(time);
    if (!small || blas) return {};
    time.packing = true;
    time.time = time_calls(budget, [&] { product.pack(), product.run(); });
    ORRERY_TRY_VOID(check(time, problem, product));
    report_.times.push_back(time);
    return {};
  }

  // A fast wrong product is no figure: some outputs are compared with sums in double precision.
  Status check(const MatmulTime& time, const Problem& problem, const Product& product) const {
    for (int i = 0; i < kCheckedOutputs; ++i) {
      const int x_row = (7 + i * 1'000'003) % problem.m, w_row = (i * 7'919 + 3) % problem.n;
      const auto expected = problem.expected(time.type, time.precision, x_row, w_row);
      const double found = product.output(x_row, w_row);
      if (std::abs(found - expected.value) <= expected.bound) continue;
      return fail("E_NUMBERS",
                  fmt::format("{} {} {} {} x {}: output ({}, {}) is {} and should be {}", time.unit,
                              time.kernels, name_of(time.type), problem.m, problem.n, x_row, w_row,
                              found, expected.value));
    }
    return {};
  }

  const MatmulOptions& options_;
  ThreadTeam one_, all_;
  std::vector<Unit> units_;
  std::unique_ptr<Blas> blas_;
  UnitPeak blas_peak_;
  MatmulReport report_;
};

}  // namespace

Result<MatmulReport> run_matmul(const MatmulOptions& options) {
  return Bench(options).run();
}

}  // namespace orrery::silicon
