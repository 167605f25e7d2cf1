// Where the time of a token or of a prompt goes, step by step: `orrery bench --steps`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "cli/roofline.hpp"
#include "plan/cost.hpp"

namespace orrery::cli {

// Of at least one value; of an even number the upper of the two in the middle.
double median(std::vector<double> values);

// Equal steps of all layers together; means of a sample (a token, a prompt).
struct StepRow {
  std::string name;
  plan::NumberClass number_class = plan::NumberClass::f32;
  int runs = 0;        // steps of a sample
  double seconds = 0;  // the threads' own work, their mean
  double waiting = 0;  // from its end until all threads had ended, likewise
  plan::StepCost cost;
  RoofFraction roof;  // of `seconds`
};

struct StepTable {
  std::vector<StepRow> rows;  // in the order of the plan
  double seconds = 0;         // of a sample, on the clock
  double barriers = 0;        // waiting of all rows
  double bookkeeping = 0;     // outside of steps: waking threads, RoPE angles, the engine's own
  // Median over samples of the part of the time that is not the threads' own work.
  double overhead_fraction = 0;
  std::size_t samples = 0;      // that the median is of
  std::size_t kept = 0;         // the fastest of them: what the rows are means of
  std::size_t interrupted = 0;  // a thread lost its processor
  bool undisturbed = false;     // the interrupted ones are left out; else there was no other
};

// Profiles a program between begin() and end(), sample by sample.
class StepSampler {
 public:
  StepSampler(const plan::Plan& plan, backend::Program& program);
  ~StepSampler();
  StepSampler(const StepSampler&) = delete;
  StepSampler& operator=(const StepSampler&) = delete;

  void begin();
  // `work`: the runs of the program since begin().
  void end(std::vector<plan::Work> work);
  // Samples in which a thread lost its processor do not count, unless all did.
  StepTable table(const Roofline& roofline) const;

 private:
  struct Sample {
    double seconds = 0;
    bool interrupted = false;
    std::vector<backend::StepTime> steps;
    std::vector<plan::Work> work;
  };

  double own_seconds(const Sample& sample) const;
  void add(StepTable& table, const Sample& sample, double weight) const;

  const plan::Plan& plan_;
  backend::Program& program_;
  std::vector<Sample> samples_;
  double start_ = 0;
  long switches_ = 0;
};

// The tables as text; `title` says what a sample is.
std::string to_text(const StepTable& table, const std::string& title);
std::string overhead_text(const StepTable& table);
std::string to_text(const Roofline& roofline);
nlohmann::ordered_json to_json(const StepTable& table);
nlohmann::ordered_json to_json(const Roofline& roofline);

}  // namespace orrery::cli
