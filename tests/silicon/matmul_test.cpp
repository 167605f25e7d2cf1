// The benchmark as a whole: which figures it has, and that what is missing is a line.
#include "silicon/matmul.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/dispatch.hpp"
#include "silicon/torch.hpp"

namespace orrery::silicon {
namespace {

MatmulOptions quick(const std::string& isa) {
  MatmulOptions options;
  options.sizes = {16, 32, 160};
  options.threads = 2;
  options.forced_isa = isa;
  options.small_seconds = options.large_seconds = 1e-3;
  return options;
}

bool mentions(const std::vector<std::string>& lines, const std::string& words) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.contains(words); });
}

TEST(Matmul, EveryFigureOfAnEmulatedUnit) {
  const MatmulReport report = run_matmul(quick("emu")).value();
  std::multiset<std::string> found;
  for (const MatmulTime& time : report.times) {
    EXPECT_GT(time.time.best, 0);
    EXPECT_LE(time.time.best, time.time.median);
    EXPECT_EQ(time.threads, time.size <= kHeadSize ? 1 : report.threads);
    if (time.unit == "blas" || time.unit == "torch") continue;
    EXPECT_EQ(time.unit, "emulated");
    EXPECT_GT(time.peak_fraction(), 0);
    found.insert(std::to_string(time.size) + " " + time.path + " " +
                 std::string(name_of(time.type)) + (time.packing ? " with" : ""));
  }
  std::multiset<std::string> expected;
  for (const char* size : {"16", "32", "160"}) {
    for (const char* what :
         {"packed bf16", "blocks f32", "blocks bf16", "blocks int8", "blocks int4"}) {
      const std::string name = std::string(size) + " " + what;
      if (name.starts_with("16 ") && name.contains("int")) continue;
      expected.insert(name);
      if (!name.starts_with("160")) expected.insert(name + " with");  // heads of attention
    }
  }
  EXPECT_EQ(found, expected);
  ASSERT_EQ(report.peaks.size(), 1U);
  EXPECT_EQ(report.peaks[0].kernels, "emu");
  EXPECT_TRUE(mentions(report.missing, "int8 and int4 of 16 x 16"));
}

TEST(Matmul, UnitsAreThoseOfTheMachine) {
  const MatmulReport report = run_matmul(quick("")).value();
  bool tiles = false;
  for (const auto& set : kernels::available_kernels()) tiles |= set.name == "amx";
  std::set<std::string> units;
  for (const UnitPeak& peak : report.peaks) units.insert(peak.unit);
  EXPECT_EQ(units.contains("matrix"), tiles);
  EXPECT_EQ(mentions(report.missing, "matrix: "), !tiles);
  EXPECT_EQ(units.contains("vector"), !mentions(report.missing, "vector: "));
  EXPECT_FALSE(units.contains("emulated"));
}

// A dispatch is a time of its own and has a name of its own.
TEST(Matmul, DispatchLatencyStandsApart) {
  const MatmulReport report = run_matmul(quick("emu")).value();
  EXPECT_GT(report.dispatch.best, 0);
  EXPECT_LE(report.dispatch.best, report.dispatch.median);
  const std::string text = to_text(report);
  EXPECT_NE(text.find("dispatch latency, an empty job to 2 threads and back: "), std::string::npos);
  EXPECT_NE(text.find("heads of attention, 1 thread"), std::string::npos);
  EXPECT_NE(text.find("large products, 2 threads"), std::string::npos);
  EXPECT_NE(text.find("not measured: int8 and int4 of 16 x 16"), std::string::npos) << text;
}

// Emulation would take minutes for a large product.
TEST(Matmul, WhatTakesTooLongIsALine) {
  MatmulOptions options = quick("emu");
  options.sizes = {2048};
  const MatmulReport report = run_matmul(options).value();
  EXPECT_TRUE(mentions(report.missing, "emulated 2048 x 2048: would take "));
}

TEST(Matmul, AnUnknownKernelSetIsAnError) {
  const auto report = run_matmul(quick("abacus"));
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().kind, "E_ISA");
}

TEST(Torch, TimesAreReadAndRubbishIsNot) {
  const auto times = parse_torch("16 f32 1e-06 2e-06\n4096 bf16 0.08 0.09\n");
  ASSERT_TRUE(times.has_value());
  ASSERT_EQ(times->size(), 2U);
  EXPECT_EQ((*times)[1].size, 4096);
  EXPECT_EQ((*times)[1].type, WeightType::bf16);
  EXPECT_EQ((*times)[1].time.best, 0.08);
  EXPECT_EQ((*times)[0].time.median, 2e-6);
  for (const char* rubbish : {"hello", "16 f32", "16 f64 1 1", "0 f32 1 1", "16 f32 nan 1",
                              "16 f32 -1 1", "16 f32 1 1\nTraceback"}) {
    EXPECT_FALSE(parse_torch(rubbish).has_value()) << rubbish;
  }
}

TEST(Timing, BestAndMedianOfSamples) {
  const Timing timing = timing_of({3.0, 1.0, 9.0});
  EXPECT_EQ(timing.best, 1.0);
  EXPECT_EQ(timing.median, 3.0);
}

TEST(Timing, SlowCallsAreTimedTwice) {
  int calls = 0;
  const Timing timing = time_calls(0.0, [&] {
    ++calls;
    const double end = now_seconds() + 1e-3;
    while (now_seconds() < end) {
    }
  });
  EXPECT_EQ(calls, 2);
  EXPECT_GE(timing.best, 1e-3);
}

TEST(Timing, QuickCallsAreTimedTogether) {
  volatile int calls = 0;  // or the loop becomes one addition
  const Timing timing = time_calls(0.05, [&] { calls = calls + 1; });
  EXPECT_GT(calls, 1000);
  EXPECT_LT(timing.best, 20e-6);
}

}  // namespace
}  // namespace orrery::silicon
