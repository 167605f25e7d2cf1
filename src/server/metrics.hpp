// What the server counts, and how /metrics shows it (the text format of Prometheus). Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "engine/scheduler.hpp"
#include "server/models.hpp"

namespace orrery::server {

// How an answer ended, for metrics and the log.
std::string_view end_name(const engine::RequestEnd& end);

// Counts of values at most each bound, cumulated when written.
class Histogram {
 public:
  static constexpr std::array<double, 12> kBounds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                     0.5,   1,    2.5,   5,    10,  30};
  void add(double seconds);
  void write(std::string& out, std::string_view name, std::string_view help) const;

 private:
  mutable std::mutex mutex_;
  std::array<std::uint64_t, kBounds.size()> counts_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

class Metrics {
 public:
  void count_request(int status);
  void count_answer(const engine::RequestEnd& end);
  // The counters, and the state of the models now.
  std::string text(const Models& models, std::size_t connections, std::size_t waiting_texts) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> requests_;              // by status
  std::map<std::string_view, std::uint64_t> answers_;  // by how they ended
  Histogram first_token_, token_, queue_;
};

}  // namespace orrery::server
