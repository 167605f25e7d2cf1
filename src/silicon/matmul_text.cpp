// The report of the benchmark of products as tables for people.
#include <fmt/format.h>

#include <algorithm>

#include "silicon/matmul.hpp"

namespace orrery::silicon {
namespace {

std::string seconds_text(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.1f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  return fmt::format("{:.2f} ms", seconds * 1e3);
}

// What is multiplied, not what is stored.
std::string computed(const MatmulTime& time) {
  if (time.precision == Precision::f32) return "f32 x f32";
  return time.type == WeightType::bf16 ? "bf16 x bf16"
                                       : fmt::format("{} as bf16 x bf16", name_of(time.type));
}

std::string table(const MatmulReport& report, bool heads) {
  std::string text;
  for (const MatmulTime& time : report.times) {
    if ((time.size <= kHeadSize) != heads) continue;
    if (text.empty()) {
      text = fmt::format("{:>5} {:8} {:11} {:7} {:20} {:8} {:>11} {:>11} {:>9} {:>8}\n", "size",
                         "unit", "kernels", "path", "computed", "packing", "best", "median",
                         "GFLOP/s", "of peak");
    }
    text += fmt::format("{:>5} {:8} {:11} {:7} {:20} {:8} {:>11} {:>11} {:>9.1f} {:>7.1f}%\n",
                        time.size, time.unit, time.kernels, time.path, computed(time),
                        time.packing ? "with" : "without", seconds_text(time.time.best),
                        seconds_text(time.time.median), time.gflops(), 100 * time.peak_fraction());
  }
  return text;
}

// The packed products of the heads of attention beside the BLAS.
std::string ratios(const MatmulReport& report) {
  std::string text;
  for (const MatmulTime& rival : report.times) {
    if (rival.unit != "blas" || rival.size > kHeadSize) continue;
    for (const MatmulTime& time : report.times) {
      if (time.size != rival.size || time.path != "packed") continue;
      text += fmt::format("{0} x {0} x {0}: {1} ({2}), {3} packing, is {4:.2f} x {5}\n", time.size,
                          time.unit, time.kernels, time.packing ? "with" : "without",
                          rival.time.best / time.time.best, rival.kernels);
    }
  }
  return text;
}

}  // namespace

std::string to_text(const MatmulReport& report) {
  std::string text;
  for (const UnitPeak& peak : report.peaks) {
    text += fmt::format("peak, {} ({}, {}): {:.1f} GFLOP/s by 1 thread, {:.1f} by {}\n", peak.unit,
                        peak.kernels, peak.instruction, peak.one * 1e-9, peak.all * 1e-9,
                        report.threads);
  }
  const std::string heads = table(report, true), large = table(report, false);
  if (!heads.empty()) text += "\nheads of attention, 1 thread, operands in cache\n" + heads;
  const std::string beside = ratios(report);
  if (!beside.empty()) text += "\n" + beside;
  if (!large.empty()) text += fmt::format("\nlarge products, {} threads\n", report.threads) + large;
  text += fmt::format(
      "\ndispatch latency, an empty job to {} threads and back: {} best, {} median\n",
      report.threads, seconds_text(report.dispatch.best), seconds_text(report.dispatch.median));
  for (const std::string& line : report.missing) text += "not measured: " + line + "\n";
  return text;
}

}  // namespace orrery::silicon
