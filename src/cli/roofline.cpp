#include "cli/roofline.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.hpp"
#include "base/thread_team.hpp"
#include "silicon/timing.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kPiece = 256 << 10;
constexpr std::size_t kStretch = 32 << 20;
// Reads of everything: at least so many, more as long as they are quick.
constexpr int kFewestReads = 5;
constexpr int kMostReads = 50;
constexpr double kReadSeconds = 1.0;

using Read = std::uint64_t (*)(const void*, std::size_t);

struct Done {
  std::uint64_t ticks = 0;  // when
  std::size_t bytes = 0;
};

struct ReadJob {
  std::vector<std::span<const std::byte>> pieces;
  std::vector<Done> done;  // (pieces)
  Read read = nullptr;
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> sum{0};  // keeps the reads alive
};

void read_all(void* context, int) {
  ReadJob& job = *static_cast<ReadJob*>(context);
  for (std::size_t i = job.next++; i < job.pieces.size(); i = job.next++) {
    job.sum += job.read(job.pieces[i].data(), job.pieces[i].size());
    job.done[i] = {clock_ticks(), job.pieces[i].size()};
  }
}

// The fastest stretch of kStretch bytes, or the whole where that is less: on a busy machine hardly
// any pass over everything has all threads at work all the time.
double best_stretch(std::vector<Done>& done, std::uint64_t start) {
  std::ranges::sort(done, {}, &Done::ticks);
  double best = 0;
  std::size_t bytes = 0;
  std::size_t first = 0;
  std::uint64_t begin = start;
  for (const Done& last : done) {
    bytes += last.bytes;
    while (bytes - done[first].bytes >= kStretch) {
      bytes -= done[first].bytes;
      begin = done[first++].ticks;
    }
    const bool whole = first == 0 && &last == &done.back();
    if (bytes < kStretch && !whole) continue;
    best = std::max(best, static_cast<double>(bytes) / ticks_to_seconds(last.ticks - begin));
  }
  return best;
}

double read_rate(ThreadTeam& team, ReadJob& job, Read read) {
  job.read = read;
  job.next = 0;
  job.done.resize(job.pieces.size());
  const std::uint64_t start = clock_ticks();
  team.run(read_all, &job);
  return best_stretch(job.done, start);
}

std::vector<std::span<const std::byte>> pieces_of(
    const std::vector<std::span<const std::byte>>& spans) {
  std::vector<std::span<const std::byte>> pieces;
  for (std::span<const std::byte> span : spans) {
    for (std::size_t at = 0; at < span.size(); at += kPiece) {
      pieces.push_back(span.subspan(at, std::min(kPiece, span.size() - at)));
    }
  }
  return pieces;
}

}  // namespace

double Roofline::multiply(plan::NumberClass number_class) const {
  if (number_class == plan::NumberClass::i8) return i8;
  if (number_class == plan::NumberClass::f32) return f32;
  return tile > 0 ? tile : bf16 > 0 ? bf16 : f32;
}

Roofline measure_reads(const std::vector<std::span<const std::byte>>& spans, int threads,
                       const kernels::PeakKernels& peaks) {
  ReadJob job;
  job.pieces = pieces_of(spans);
  ThreadTeam team(threads);
  Roofline roofline;
  const double start = now_seconds();
  // By turns, so that both meet the same neighbours.
  for (int n = 0; n < kFewestReads || (n < kMostReads && now_seconds() - start < kReadSeconds);
       ++n) {
    roofline.plain_read = std::max(roofline.plain_read, read_rate(team, job, peaks.read));
    roofline.prefetched_read =
        std::max(roofline.prefetched_read, read_rate(team, job, peaks.read_ahead));
  }
  return roofline;
}

double measure_reads_beside(const engine::Model& model, const kernels::PeakKernels& peaks) {
  const auto executor = model.executor();
  std::vector<std::span<const std::byte>> all;
  {
    const auto turn = executor->turn();  // they may be packed just now
    all = pieces_of(model.weight_spans());
  }
  ThreadTeam team(model.info().threads);
  const std::size_t most = std::min(all.size(), kStretch / kPiece);
  ReadJob job;
  double best = 0;
  std::size_t next = 0;
  const double start = now_seconds();
  for (int n = 0; n < kMostReads && now_seconds() - start < kReadSeconds; ++n) {
    job.pieces.clear();
    while (job.pieces.size() < most) job.pieces.push_back(all[next++ % all.size()]);
    const auto turn = executor->turn();
    best = std::max(best, read_rate(team, job, n % 2 == 0 ? peaks.read : peaks.read_ahead));
  }
  return best;
}

void measure_products(Roofline& roofline, int threads, const kernels::PeakKernels& peaks) {
  ThreadTeam team(threads);
  roofline.f32 = silicon::multiply_rate(team, peaks.multiply_f32);
  roofline.i8 = silicon::multiply_rate(team, peaks.multiply_i8);
  roofline.bf16 = silicon::multiply_rate(team, peaks.multiply_bf16);
  roofline.tile = silicon::multiply_rate(team, peaks.multiply_tile);
}

RoofFraction roof_fraction(const Roofline& roofline, const plan::StepCost& cost,
                           plan::NumberClass number_class, double seconds) {
  const double read = cost.bytes / roofline.read();
  const double multiply = cost.operations / roofline.multiply(number_class);
  if (seconds <= 0 || cost.operations <= 0) return {};
  return read > multiply ? RoofFraction{read / seconds, "read"}
                         : RoofFraction{multiply / seconds, "multiply"};
}

}  // namespace orrery::cli
