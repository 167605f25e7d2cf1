#include "cli/read_bandwidth.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/clock.hpp"
#include "base/thread_team.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kPiece = 256 << 10;
constexpr int kRepeats = 5;

struct Job {
  std::vector<std::span<const std::byte>> pieces;
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> sum{0};  // keeps the reads alive
};

std::uint64_t read_piece(std::span<const std::byte> piece) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 64 <= piece.size(); i += 64) {
    std::uint64_t words[8];
    std::memcpy(words, piece.data() + i, 64);
    for (int w = 0; w < 8; ++w) sums[w] += words[w];
  }
  return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

void read_all(void* context, int) {
  Job& job = *static_cast<Job*>(context);
  for (std::size_t i = job.next++; i < job.pieces.size(); i = job.next++) {
    job.sum += read_piece(job.pieces[i]);
  }
}

}  // namespace

double read_bandwidth(const std::vector<std::span<const std::byte>>& spans, int threads) {
  Job job;
  double bytes = 0;
  for (std::span<const std::byte> span : spans) {
    bytes += static_cast<double>(span.size());
    for (std::size_t at = 0; at < span.size(); at += kPiece) {
      job.pieces.push_back(span.subspan(at, std::min(kPiece, span.size() - at)));
    }
  }
  ThreadTeam team(threads);
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    job.next = 0;
    const double start = now_seconds();
    team.run(read_all, &job);
    best = std::max(best, bytes / (now_seconds() - start));
  }
  return best;
}

}  // namespace orrery::cli
