// orrery bench: tokens per second of prefill and decode, beside what the memory allows.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "base/clock.hpp"
#include "cli/app.hpp"
#include "cli/model_arg.hpp"
#include "cli/open_model.hpp"
#include "cli/read_bandwidth.hpp"
#include "cli/terminal.hpp"
#include "engine/model.hpp"
#include "engine/session.hpp"
#include "plan/passes.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string model;
  std::uint32_t prefill = 0, decode = 0, depth = 0, sequences = 1, repeat = 5;
  OpenOptions open;
  bool json = false;
};

struct Measurement {
  std::string test;  // "prefill", "decode", "first_token"
  std::uint32_t tokens = 0, depth = 0, sequences = 1;
  std::vector<double> rates;  // tokens per second, one per repeat
  double bytes_per_token = 0, bandwidth_fraction = 0;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

class Bench {
 public:
  Bench(const Options& options, const engine::Model& model)
      : options_(options),
        model_(model),
        executor_(model.executor()),
        rng_(std::random_device{}()) {}

  Status run() {
    if (options_.prefill > 0) ORRERY_TRY_VOID(measure_prefill());
    if (options_.decode > 0) ORRERY_TRY_VOID(measure_decode());
    return {};
  }
  std::vector<Measurement> results() { return results_; }
  double bandwidth() const { return bandwidth_; }

 private:
  // Fresh random tokens, so that nothing can be reused.
  std::vector<text::TokenId> random_tokens(std::uint32_t n) {
    std::uniform_int_distribution<text::TokenId> id(0, static_cast<int>(executor_->vocab()) - 1);
    std::vector<text::TokenId> tokens(n);
    for (text::TokenId& token : tokens) token = id(rng_);
    return tokens;
  }

  Status measure_prefill() {
    Measurement m{"prefill", options_.prefill, options_.depth, 1, {}};
    Measurement first{"first_token", options_.prefill, options_.depth, 1, {}};
    ORRERY_TRY(const auto session, engine::Session::open(executor_));
    for (std::uint32_t r = 0; r <= options_.repeat; ++r) {  // the first run only warms up
      session->clear();
      std::vector<text::TokenId> tokens = random_tokens(options_.depth);
      if (!tokens.empty()) ORRERY_TRY_VOID(session->evaluate(tokens));
      for (const text::TokenId token : random_tokens(options_.prefill)) tokens.push_back(token);
      const double start = now_seconds();
      ORRERY_TRY_VOID(session->evaluate(tokens));
      const double seconds = now_seconds() - start;
      if (r == 0) continue;
      m.rates.push_back(options_.prefill / seconds);
      first.rates.push_back(1 / seconds);
    }
    results_.push_back(m);
    results_.push_back(first);
    return {};
  }

  Status measure_decode() {
    Measurement m{"decode", options_.decode, options_.depth, options_.sequences, {}};
    std::vector<std::unique_ptr<engine::Session>> sessions;
    for (std::uint32_t s = 0; s < options_.sequences; ++s) {
      ORRERY_TRY(auto session, engine::Session::open(executor_));
      sessions.push_back(std::move(session));
    }
    std::vector<engine::Session*> batch;
    for (const auto& session : sessions) batch.push_back(session.get());
    for (std::uint32_t r = 0; r <= options_.repeat; ++r) {
      for (const auto& session : sessions) {
        session->clear();
        ORRERY_TRY_VOID(session->evaluate(random_tokens(std::max(1U, options_.depth))));
      }
      const std::vector<text::TokenId> tokens = random_tokens(options_.decode * options_.sequences);
      const std::uint32_t steps = r == 0 ? std::min(4U, options_.decode) : options_.decode;
      const double start = now_seconds();
      for (std::uint32_t t = 0; t < steps; ++t) {
        ORRERY_TRY_VOID(engine::decode_batch(
            batch, std::span(tokens).subspan(t * options_.sequences, options_.sequences)));
      }
      if (r > 0) m.rates.push_back(steps * options_.sequences / (now_seconds() - start));
    }
    add_roofline(m);
    results_.push_back(m);
    return {};
  }

  // Bytes that a token must read: all weights but the embedding's other rows, and K and V half-way.
  void add_roofline(Measurement& m) {
    const plan::Plan& plan = executor_->decode_plan();
    double kv = 0;
    for (const plan::CacheGroup& group : plan.groups) {
      kv += static_cast<double>(group.page_bytes()) / plan::kPageTokens;
    }
    kv *= m.depth + m.tokens / 2.0;
    m.bytes_per_token = static_cast<double>(plan::weight_bytes(plan)) / m.sequences + kv;
    bandwidth_ = read_bandwidth(model_.weight_spans(), model_.info().threads);
    m.bandwidth_fraction = median(m.rates) * m.bytes_per_token / bandwidth_;
  }

  const Options& options_;
  const engine::Model& model_;
  std::shared_ptr<engine::Executor> executor_;
  std::mt19937_64 rng_;
  std::vector<Measurement> results_;
  double bandwidth_ = 0;
};

void print_json(const engine::Model& model, const std::vector<Measurement>& results) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const Measurement& m : results) {
    nlohmann::ordered_json entry;
    entry["test"] = m.test;
    entry["tokens"] = m.tokens;
    entry["depth"] = m.depth;
    entry["sequences"] = m.sequences;
    entry["threads"] = model.info().threads;
    entry["tokens_per_second"] = {{"median", median(m.rates)},
                                  {"min", std::ranges::min(m.rates)},
                                  {"max", std::ranges::max(m.rates)}};
    entry["bytes_per_token"] = m.bytes_per_token;
    entry["bandwidth_fraction"] = m.bandwidth_fraction;
    entry["peak_rss_bytes"] = peak_rss_bytes();
    entry["model"] = model.info().name;
    entry["device"] = model.info().device;
    array.push_back(entry);
  }
  print(array.dump(2) + "\n");
}

std::string test_name(const Measurement& m) {
  std::string name = fmt::format("{}{}", m.test == "prefill" ? "pp" : "tg", m.tokens);
  if (m.depth != 0) name += fmt::format(" @ d{}", m.depth);
  if (m.sequences > 1) name += fmt::format(" x{}", m.sequences);
  return name;
}

void print_table(const engine::Model& model, const std::vector<Measurement>& results) {
  print(
      "| model                          |       size | backend | threads |            test |"
      "                  t/s |\n");
  print(
      "| ------------------------------ | ---------: | ------- | ------: | --------------: |"
      " -------------------: |\n");
  for (const Measurement& m : results) {
    if (m.test == "first_token") continue;
    const double middle = median(m.rates);
    const double spread = (std::ranges::max(m.rates) - std::ranges::min(m.rates)) / 2;
    print(fmt::format("| {:30} | {:>10} | {:7} | {:7} | {:>15} | {:>20} |\n",
                      model.info().name.substr(0, 30), human_bytes(model.info().weight_bytes),
                      "CPU", model.info().threads, test_name(m),
                      fmt::format("{:.2f} +- {:.2f}", middle, spread)));
  }
  for (const Measurement& m : results) {
    if (m.test != "decode") continue;
    print_note(fmt::format(
        "decode reads {} a token: {:.0f}% of a plain read of the same pages by the "
        "same threads",
        human_bytes(static_cast<std::uint64_t>(m.bytes_per_token)), 100 * m.bandwidth_fraction));
  }
  print_note(fmt::format("{}; peak memory {}", model.info().device, human_bytes(peak_rss_bytes())));
}

Status bench(Options options) {
  if (options.prefill == 0 && options.decode == 0) {
    options.prefill = 512;
    options.decode = 128;
  }
  options.open.sequences = options.sequences;
  const std::uint32_t longest = options.depth + std::max(options.prefill, options.decode) + 1;
  if (options.open.context == 0) options.open.context = longest;
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  Bench bench(options, *model);
  ORRERY_TRY_VOID(bench.run());
  if (options.json) {
    print_json(*model, bench.results());
  } else {
    print_table(*model, bench.results());
  }
  return {};
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("bench", "measure prefill and decode");
  auto options = std::make_shared<Options>();
  command->add_option("MODEL", options->model, "model file, folder or short name");
  command->add_option("--prefill", options->prefill, "prompt tokens")
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--decode", options->decode, "new tokens")->check(CLI::Range(0, 1 << 24));
  command->add_option("--depth", options->depth, "tokens before them")
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--sequences", options->sequences, "sequences decoded together")
      ->check(CLI::Range(1, 32));
  command->add_option("--repeat", options->repeat, "measured repeats")->check(CLI::Range(1, 1000));
  command->add_flag("--json", options->json, "every figure, as JSON");
  add_open_options(*command, options->open);
  command->callback([options, &action] { action = [options] { return bench(*options); }; });
}

}  // namespace orrery::cli
