#include "cli/bench_steps.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"

namespace orrery::cli {
namespace {

long involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

StepRow& row_of(StepTable& table, const plan::Plan& plan, const plan::Step& step) {
  const std::string name = plan::step_label(plan, step);
  for (StepRow& row : table.rows) {
    if (row.name == name && row.number_class == step.number_class) return row;
  }
  StepRow& row = table.rows.emplace_back();
  row.name = name;
  row.number_class = step.number_class;
  return row;
}

std::string rate(double amount, double seconds) {
  return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", amount / seconds / 1e9) : "-";
}

void print_row(std::string& text, const StepRow& row, double total) {
  const double part = 100 * row.seconds / total;
  const std::string roof = row.roof.fraction > 0
                               ? fmt::format("{:.0f}% {}", 100 * row.roof.fraction, row.roof.roof)
                               : "-";
  // Without a product the bytes are beside the point: a norm works in the caches.
  const double bytes = row.cost.operations > 0 ? row.cost.bytes : 0;
  text += fmt::format(
      "| {:24} | {:5} | {:>4} | {:>10.1f} | {:>9.1f} | {:>9.3f} | {:>7} | {:>8} | {:>13} | "
      "{:>6.1f}% |\n",
      row.name, plan::class_name(row.number_class), row.runs, row.seconds * 1e6, row.waiting * 1e6,
      row.cost.bytes / 1e6, rate(bytes, row.seconds), rate(row.cost.operations, row.seconds), roof,
      part);
}

void print_rest(std::string& text, const char* name, double seconds, double total) {
  text += fmt::format(
      "| {:24} | {:5} | {:>4} | {:>10.1f} | {:>9} | {:>9} | {:>7} | {:>8} | {:>13} | {:>6.1f}% |\n",
      name, "", "", seconds * 1e6, "", "", "", "", "", 100 * seconds / total);
}

}  // namespace

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

StepSampler::StepSampler(const plan::Plan& plan, backend::Program& program)
    : plan_(plan), program_(program) {
  program_.set_profile(true);
}

StepSampler::~StepSampler() {
  program_.set_profile(false);
}

void StepSampler::begin() {
  switches_ = involuntary_switches();
  start_ = now_seconds();
}

void StepSampler::end(std::vector<plan::Work> work) {
  const double seconds = now_seconds() - start_;
  const bool interrupted = involuntary_switches() != switches_;
  samples_.push_back({seconds, interrupted, program_.take_step_times(), std::move(work)});
}

double StepSampler::own_seconds(const Sample& sample) const {
  double seconds = 0;
  for (std::size_t s = 0; s < sample.steps.size(); ++s) {
    if (plan_.steps[s].op != plan::Op::tap) seconds += sample.steps[s].busy;
  }
  return seconds;
}

void StepSampler::add(StepTable& table, const Sample& sample, double weight) const {
  double inside = 0;
  for (std::size_t s = 0; s < sample.steps.size(); ++s) {
    const plan::Step& step = plan_.steps[s];
    if (step.op == plan::Op::tap) continue;  // does nothing
    const backend::StepTime& time = sample.steps[s];
    StepRow& row = row_of(table, plan_, step);
    row.seconds += weight * time.busy;
    row.waiting += weight * time.waiting;
    for (const plan::Work& work : sample.work) {
      const plan::StepCost cost = plan::step_cost(plan_, step, work);
      row.cost.bytes += weight * cost.bytes;
      row.cost.operations += weight * cost.operations;
    }
    table.barriers += weight * time.waiting;
    inside += time.busy + time.waiting;
  }
  table.seconds += weight * sample.seconds;
  table.bookkeeping += weight * (sample.seconds - inside);
}

StepTable StepSampler::table(const Roofline& roofline) const {
  std::vector<const Sample*> counted;
  for (const Sample& sample : samples_) {
    if (!sample.interrupted) counted.push_back(&sample);
  }
  StepTable table;
  table.interrupted = samples_.size() - counted.size();
  table.undisturbed = !counted.empty();
  if (counted.empty()) {
    for (const Sample& sample : samples_) counted.push_back(&sample);
  }
  if (counted.empty()) return table;
  std::vector<double> overheads;
  for (const Sample* sample : counted) {
    overheads.push_back(1 - own_seconds(*sample) / sample->seconds);
  }
  table.samples = counted.size();
  table.overhead_fraction = median(overheads);
  // Rows are means, so that they add up; of the faster half, so that others' work counts little.
  std::ranges::sort(counted, {}, [](const Sample* sample) { return sample->seconds; });
  table.kept = (counted.size() + 1) / 2;
  for (std::size_t i = 0; i < table.kept; ++i) {
    add(table, *counted[i], 1.0 / static_cast<double>(table.kept));
  }
  for (const plan::Step& step : plan_.steps) {
    if (step.op == plan::Op::tap) continue;
    StepRow& row = row_of(table, plan_, step);
    ++row.runs;
    row.roof = roof_fraction(roofline, row.cost, step.number_class, row.seconds);
  }
  return table;
}

std::string to_text(const StepTable& table, const std::string& title) {
  std::string text = fmt::format("\n{}: {:.3f} ms, mean of the {} fastest of {}\n", title,
                                 table.seconds * 1e3, table.kept, table.samples);
  text += fmt::format(
      "| {:24} | {:5} | {:>4} | {:>10} | {:>9} | {:>9} | {:>7} | {:>8} | {:>13} | {:>7} |\n",
      "step", "class", "runs", "time us", "wait us", "MB", "GB/s", "GFLOP/s", "of the roof",
      "part");
  text += fmt::format(
      "| {:-<24} | {:-<5} | {:->3}: | {:->9}: | {:->8}: | {:->8}: | {:->6}: | {:->7}: | {:->12}: | "
      "{:->6}: |\n",
      "", "", "", "", "", "", "", "", "", "");
  for (const StepRow& row : table.rows) print_row(text, row, table.seconds);
  print_rest(text, "barriers and waiting", table.barriers, table.seconds);
  print_rest(text, "bookkeeping", table.bookkeeping, table.seconds);
  return text;
}

std::string overhead_text(const StepTable& table) {
  return fmt::format(
      "barriers and bookkeeping: {:.1f}% of a decoded token (median of {} tokens {})\n",
      100 * table.overhead_fraction, table.samples,
      table.undisturbed
          ? fmt::format("without an involuntary context switch; {} others", table.interrupted)
          : "with involuntary context switches: there was none without");
}

std::string to_text(const Roofline& roofline) {
  const auto giga = [](double value) {
    return value > 0 ? fmt::format("{:.1f}", value / 1e9) : std::string("none");
  };
  return fmt::format(
      "roofs, by all threads: plain read {} GB/s, prefetched read {} GB/s; multiply-adds in "
      "GFLOP/s: f32 {}, int8 dot {}, bf16 dot {}, bf16 tiles {}\n",
      giga(roofline.plain_read), giga(roofline.prefetched_read), giga(roofline.f32),
      giga(roofline.i8), giga(roofline.bf16), giga(roofline.tile));
}

nlohmann::ordered_json to_json(const StepTable& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const StepRow& row : table.rows) {
    nlohmann::ordered_json entry;
    entry["step"] = row.name;
    entry["class"] = plan::class_name(row.number_class);
    entry["runs"] = row.runs;
    entry["seconds"] = row.seconds;
    entry["waiting_seconds"] = row.waiting;
    entry["bytes"] = row.cost.bytes;
    entry["operations"] = row.cost.operations;
    entry["roof"] = row.roof.roof;
    entry["roof_fraction"] = row.roof.fraction;
    entry["fraction"] = row.seconds / table.seconds;
    rows.push_back(entry);
  }
  return {{"seconds", table.seconds},
          {"barrier_seconds", table.barriers},
          {"bookkeeping_seconds", table.bookkeeping},
          {"overhead_fraction", table.overhead_fraction},
          {"samples", table.samples},
          {"kept", table.kept},
          {"interrupted", table.interrupted},
          {"undisturbed", table.undisturbed},
          {"rows", rows}};
}

nlohmann::ordered_json to_json(const Roofline& roofline) {
  return {{"plain_read_bytes_per_second", roofline.plain_read},
          {"prefetched_read_bytes_per_second", roofline.prefetched_read},
          {"f32_operations_per_second", roofline.f32},
          {"int8_operations_per_second", roofline.i8},
          {"bf16_operations_per_second", roofline.bf16},
          {"tile_operations_per_second", roofline.tile}};
}

}  // namespace orrery::cli
