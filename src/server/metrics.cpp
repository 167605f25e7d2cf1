#include "server/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

namespace orrery::server {
namespace {

void describe(std::string& out, std::string_view name, std::string_view type,
              std::string_view help) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

struct ModelMetric {
  std::string_view name, type, help;
  double (*value)(const engine::SchedulerStats&);
};

using Stats = engine::SchedulerStats;

constexpr ModelMetric kModelMetrics[] = {
    {"orrery_requests_running", "gauge", "answers in the making",
     [](const Stats& s) { return double(s.running); }},
    {"orrery_requests_queued", "gauge", "answers that wait for a place",
     [](const Stats& s) { return double(s.queued); }},
    {"orrery_sequences_idle", "gauge", "finished sequences whose pages are kept",
     [](const Stats& s) { return double(s.idle); }},
    {"orrery_requests_total", "counter", "answers asked for",
     [](const Stats& s) { return double(s.requests); }},
    {"orrery_requests_refused_total", "counter", "answers refused because the queue was full",
     [](const Stats& s) { return double(s.refused); }},
    {"orrery_requests_cancelled_total", "counter", "answers whose client went away",
     [](const Stats& s) { return double(s.cancelled); }},
    {"orrery_requests_failed_total", "counter", "answers that ended with an error",
     [](const Stats& s) { return double(s.failed); }},
    {"orrery_requests_preempted_total", "counter", "answers computed again for want of memory",
     [](const Stats& s) { return double(s.preempted); }},
    {"orrery_prompt_tokens_total", "counter", "tokens of prompts",
     [](const Stats& s) { return double(s.prompt_tokens); }},
    {"orrery_cached_tokens_total", "counter", "tokens of prompts found in the cache",
     [](const Stats& s) { return double(s.reused_tokens); }},
    {"orrery_generated_tokens_total", "counter", "tokens of answers",
     [](const Stats& s) { return double(s.new_tokens); }},
    {"orrery_decode_steps_total", "counter", "runs of the model that decode",
     [](const Stats& s) { return double(s.decode_ticks); }},
    {"orrery_prefill_slices_total", "counter", "runs of the model that read prompts",
     [](const Stats& s) { return double(s.prefill_slices); }},
    {"orrery_decode_seconds_total", "counter", "time of the runs that decode",
     [](const Stats& s) { return s.decode_seconds; }},
    {"orrery_prefill_seconds_total", "counter", "time of the runs that read prompts",
     [](const Stats& s) { return s.prefill_seconds; }},
    {"orrery_read_bytes_total", "counter",
     "bytes that the runs must read at least: weights once a run, cached keys and values",
     [](const Stats& s) { return s.read_bytes; }},
    {"orrery_operations_total", "counter",
     "floating point operations of the runs' products and attention, two for a multiply-add",
     [](const Stats& s) { return s.operations; }},
    {"orrery_cache_bytes", "gauge", "memory of cached keys and values",
     [](const Stats& s) { return double(s.cache_bytes); }},
    {"orrery_cache_pages", "gauge", "pages of the cache in use",
     [](const Stats& s) { return double(s.cache_pages); }},
    {"orrery_cache_budget_bytes", "gauge", "what it may grow to",
     [](const Stats& s) { return double(s.cache_budget_bytes); }},
};

struct Snapshot {
  std::shared_ptr<ServedModel> model;
  Stats stats;
};

std::vector<Snapshot> snapshots(const Models& models) {
  std::vector<Snapshot> all;
  for (const auto& model : models.all()) {
    if (model->scheduler != nullptr) all.push_back({model, model->scheduler->stats()});
  }
  return all;
}

void write_step_times(std::string& out, const std::string& labels, const engine::StepTimes& times) {
  constexpr std::string_view kName = "orrery_step_seconds";
  const auto into = std::back_inserter(out);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < times.kBounds.size(); ++i) {
    below += times.counts[i];
    fmt::format_to(into, "{}_bucket{{{},le=\"{}\"}} {}\n", kName, labels, times.kBounds[i], below);
  }
  below += times.counts.back();
  fmt::format_to(into,
                 "{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n",
                 kName, labels, below, times.seconds);
}

void write_steps(std::string& out, const std::vector<Snapshot>& all) {
  describe(out, "orrery_step_seconds", "histogram",
           "time of a step, by kind: a batch of decode alone, or with tokens of prompts in it");
  for (const Snapshot& one : all) {
    const std::string label = fmt::format("model=\"{}\"", one.model->id);
    write_step_times(out, label + ",kind=\"decode\"", one.stats.decode_steps);
    write_step_times(out, label + ",kind=\"prompt\"", one.stats.prompt_steps);
  }
  const auto into = std::back_inserter(out);
  describe(
      out, "orrery_read_bandwidth_bytes_per_second", "gauge",
      "what the model's threads can read of its weights at best, measured once after the first "
      "look at this page, between steps");
  for (const Snapshot& one : all) {
    const double measured = one.model->read_bandwidth;
    if (measured == 0) continue;
    fmt::format_to(into, "orrery_read_bandwidth_bytes_per_second{{model=\"{}\"}} {}\n",
                   one.model->id, measured);
  }
  describe(out, "orrery_decode_bandwidth_ratio", "gauge",
           "part of that bandwidth that the last decode steps, some 50, reached");
  for (const Snapshot& one : all) {
    const double measured = one.model->read_bandwidth;
    if (measured == 0 || one.stats.recent_decode_seconds == 0) continue;
    fmt::format_to(into, "orrery_decode_bandwidth_ratio{{model=\"{}\"}} {}\n", one.model->id,
                   one.stats.recent_decode_bytes / one.stats.recent_decode_seconds / measured);
  }
}

struct PresenceMetric {
  std::string_view name, type, help;
  double (*value)(const ModelStatus&);
};

constexpr PresenceMetric kPresenceMetrics[] = {
    {"orrery_model_loaded", "gauge", "1 while the model is in memory",
     [](const ModelStatus& s) { return double(s.presence == Presence::ready); }},
    {"orrery_model_memory_bytes", "gauge", "of the budget that the model takes, or would take",
     [](const ModelStatus& s) { return double(s.memory_bytes); }},
    {"orrery_model_loads_total", "counter", "times that the model was loaded",
     [](const ModelStatus& s) { return double(s.loads); }},
    {"orrery_model_evictions_total", "counter", "times that the model made room for another",
     [](const ModelStatus& s) { return double(s.evictions); }},
};

void write_models(std::string& out, const Models& models) {
  const auto into = std::back_inserter(out);
  const auto all = models.list();
  for (const PresenceMetric& metric : kPresenceMetrics) {
    describe(out, metric.name, metric.type, metric.help);
    for (const ModelStatus& status : all) {
      if (!status.is_first) continue;
      fmt::format_to(into, "{}{{model=\"{}\"}} {}\n", metric.name, status.id, metric.value(status));
    }
  }
  describe(out, "orrery_models_budget_bytes", "gauge", "memory that models may take; 0: no limit");
  fmt::format_to(into, "orrery_models_budget_bytes {}\n", models.budget_bytes());
  describe(out, "orrery_requests_waiting_for_models", "gauge", "requests that wait for a load");
  fmt::format_to(into, "orrery_requests_waiting_for_models {}\n", models.waiting());
}

}  // namespace

void Histogram::add(double seconds) {
  const std::lock_guard lock(mutex_);
  ++count_;
  sum_ += seconds;
  const auto* const bound = std::ranges::lower_bound(kBounds, seconds);
  if (bound != kBounds.end()) ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
}

void Histogram::write(std::string& out, std::string_view name, std::string_view help) const {
  describe(out, name, "histogram", help);
  const std::lock_guard lock(mutex_);
  const auto into = std::back_inserter(out);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    below += counts_[i];
    fmt::format_to(into, "{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], below);
  }
  fmt::format_to(into, "{}_bucket{{le=\"+Inf\"}} {}\n{}_sum {}\n{}_count {}\n", name, count_, name,
                 sum_, name, count_);
}

std::string_view end_name(const engine::RequestEnd& end) {
  return end.error ? std::string_view("error") : engine::finish_name(end.finish);
}

void Metrics::count_request(int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[status];
}

void Metrics::count_answer(const engine::RequestEnd& end) {
  {
    const std::lock_guard lock(mutex_);
    ++answers_[end_name(end)];
  }
  queue_.add(end.queue_seconds);
  if (end.new_tokens == 0) return;
  first_token_.add(end.queue_seconds + end.prefill_seconds);
  token_.add(end.decode_seconds / end.new_tokens);
}

std::string Metrics::text(const Models& models, std::size_t connections,
                          std::size_t waiting_texts) const {
  std::string out;
  const auto into = std::back_inserter(out);
  describe(out, "orrery_connections", "gauge", "open connections");
  fmt::format_to(into, "orrery_connections {}\n", connections);
  describe(out, "orrery_texts_queued", "gauge", "requests that wait to be read and tokenized");
  fmt::format_to(into, "orrery_texts_queued {}\n", waiting_texts);
  {
    const std::lock_guard lock(mutex_);
    describe(out, "orrery_http_requests_total", "counter", "requests by the status they got");
    for (const auto& [status, count] : requests_) {
      fmt::format_to(into, "orrery_http_requests_total{{status=\"{}\"}} {}\n", status, count);
    }
    describe(out, "orrery_answers_total", "counter", "answers by how they ended");
    for (const auto& [finish, count] : answers_) {
      fmt::format_to(into, "orrery_answers_total{{finish=\"{}\"}} {}\n", finish, count);
    }
  }
  queue_.write(out, "orrery_queue_seconds", "wait for a place");
  first_token_.write(out, "orrery_time_to_first_token_seconds",
                     "from the request to its first token");
  token_.write(out, "orrery_time_per_token_seconds", "mean time of a token of an answer");
  const std::vector<Snapshot> all = snapshots(models);
  for (const ModelMetric& metric : kModelMetrics) {
    describe(out, metric.name, metric.type, metric.help);
    for (const Snapshot& one : all) {
      fmt::format_to(into, "{}{{model=\"{}\"}} {}\n", metric.name, one.model->id,
                     metric.value(one.stats));
    }
  }
  write_steps(out, all);
  write_models(out, models);
  return out;
}

}  // namespace orrery::server
