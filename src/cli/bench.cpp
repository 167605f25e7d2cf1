// orrery bench: tokens per second of prefill and decode, beside what the memory allows.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <vector>

#include "base/clock.hpp"
#include "cli/app.hpp"
#include "cli/bench_parts.hpp"
#include "cli/bench_steps.hpp"
#include "cli/model_arg.hpp"
#include "cli/numbers.hpp"
#include "cli/open_model.hpp"
#include "cli/roofline.hpp"
#include "cli/terminal.hpp"
#include "engine/model.hpp"
#include "engine/session.hpp"
#include "kernels/dispatch.hpp"
#include "plan/passes.hpp"

namespace orrery::cli {
namespace {

constexpr int kMostSequences = 32;

struct Options {
  std::string model;
  std::uint32_t prefill = 0, decode = 0, depth = 0, repeat = 5;
  std::string sequences = "1";  // decoded together; one measurement for each number
  OpenOptions open;
  bool json = false, steps = false;
};

struct Measurement {
  std::string test;  // "prefill", "decode", "first_token"; "embed" of models that write nothing
  std::uint32_t tokens = 0, depth = 0, sequences = 1;
  std::vector<double> rates;  // tokens per second, one per repeat
  double bytes_per_token = 0, bandwidth_fraction = 0;
  std::optional<StepTable> steps = std::nullopt;
};

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

class Bench {
 public:
  Bench(const Options& options, std::vector<int> sequences, const engine::Model& model)
      : options_(options),
        sequences_(std::move(sequences)),
        model_(model),
        executor_(model.executor()),
        vocab_(static_cast<int>(model.tokenizer().vocab_size())),
        rng_(std::random_device{}()) {}

  Status run() {
    ORRERY_TRY(const kernels::KernelSet set, kernels::choose_kernels(forced_isa()));
    const kernels::PeakKernels& peaks = kernels::peak_kernels(set);
    const int threads = model_.info().threads;
    roofline_ = measure_reads(model_.weight_spans(), threads, peaks);
    if (options_.steps) measure_products(roofline_, threads, peaks);
    if (executor_ == nullptr) return measure_texts();
    if (options_.prefill > 0) ORRERY_TRY_VOID(measure_prefill());
    if (options_.decode == 0) return {};
    for (const int sequences : sequences_) {
      ORRERY_TRY_VOID(measure_decode(static_cast<std::uint32_t>(sequences)));
    }
    return {};
  }
  const std::vector<Measurement>& results() const { return results_; }
  const Roofline& roofline() const { return roofline_; }

 private:
  // Fresh random tokens, so that nothing can be reused.
  std::vector<text::TokenId> random_tokens(std::uint32_t n) {
    std::uniform_int_distribution<text::TokenId> id(0, vocab_ - 1);
    std::vector<text::TokenId> tokens(n);
    for (text::TokenId& token : tokens) token = id(rng_);
    return tokens;
  }

  // Texts that become vectors, or pairs that become scores, one after the other.
  Status measure_texts() {
    Measurement m{"embed", options_.prefill, 0, 1, {}};
    for (std::uint32_t r = 0; r <= options_.repeat; ++r) {  // the first run only warms up
      const std::vector<text::TokenId> tokens = random_tokens(options_.prefill);
      const double start = now_seconds();
      if (model_.hparams().ranks) {
        ORRERY_TRY_VOID(model_.rank(tokens, tokens.size() / 2));
      } else {
        ORRERY_TRY_VOID(model_.embed(tokens));
      }
      if (r > 0) m.rates.push_back(options_.prefill / (now_seconds() - start));
    }
    results_.push_back(m);
    return {};
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
    if (options_.steps) {
      ORRERY_TRY(m.steps, profile_prefill(*session));
    }
    results_.push_back(m);
    results_.push_back(first);
    return {};
  }

  Result<StepTable> profile_prefill(engine::Session& session) {
    // The plan of the whole slices; what the other one does for a rest is bookkeeping here.
    const bool few = executor_->prefers_decode(options_.prefill);
    backend::Program& program = few ? executor_->decode_program() : executor_->prefill_program();
    StepSampler sampler(few ? executor_->decode_plan() : executor_->prefill_plan(), program);
    const std::uint32_t slice = executor_->max_prefill_tokens();
    std::vector<plan::Work> work;
    for (std::uint32_t at = 0; at < options_.prefill; at += slice) {
      const std::uint32_t left = options_.prefill - at;
      if (executor_->prefers_decode(left) != few) continue;
      work.push_back({std::min(left, slice), 1, left <= slice ? 1U : 0U, options_.depth + at});
    }
    for (std::uint32_t r = 0; r < options_.repeat; ++r) {
      session.clear();
      std::vector<text::TokenId> tokens = random_tokens(options_.depth);
      if (!tokens.empty()) ORRERY_TRY_VOID(session.evaluate(tokens));
      for (const text::TokenId token : random_tokens(options_.prefill)) tokens.push_back(token);
      program.take_step_times();  // those of the depth
      sampler.begin();
      ORRERY_TRY_VOID(session.evaluate(tokens));
      sampler.end(work);
    }
    return sampler.table(roofline_);
  }

  Status measure_decode(std::uint32_t n) {
    Measurement m{"decode", options_.decode, options_.depth, n, {}};
    std::vector<std::unique_ptr<engine::Session>> sessions;
    for (std::uint32_t s = 0; s < n; ++s) {
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
      const std::vector<text::TokenId> tokens = random_tokens(options_.decode * n);
      const std::uint32_t steps = r == 0 ? std::min(4U, options_.decode) : options_.decode;
      const double start = now_seconds();
      for (std::uint32_t t = 0; t < steps; ++t) {
        ORRERY_TRY_VOID(engine::decode_batch(batch, std::span(tokens).subspan(t * n, n)));
      }
      if (r > 0) m.rates.push_back(steps * n / (now_seconds() - start));
    }
    add_roofline(m);
    if (options_.steps) {
      ORRERY_TRY(m.steps, profile_decode(batch));
    }
    results_.push_back(m);
    return {};
  }

  Result<StepTable> profile_decode(const std::vector<engine::Session*>& batch) {
    for (engine::Session* session : batch) {
      session->clear();
      ORRERY_TRY_VOID(session->evaluate(random_tokens(std::max(1U, options_.depth))));
    }
    StepSampler sampler(executor_->decode_plan(), executor_->decode_program());
    const auto rows = static_cast<std::uint32_t>(batch.size());
    for (std::uint32_t t = 0; t < options_.decode; ++t) {
      const std::vector<text::TokenId> tokens = random_tokens(rows);
      sampler.begin();
      ORRERY_TRY_VOID(engine::decode_batch(batch, tokens));
      sampler.end({{1, rows, rows, std::max(1U, options_.depth) + t}});
    }
    return sampler.table(roofline_);
  }

  // Bytes that a token must read: all weights but the embedding's other rows and unused experts, K
  // and V half-way, and states.
  void add_roofline(Measurement& m) {
    const plan::Plan& plan = executor_->decode_plan();
    double kv = 0, states = 0;
    for (const plan::CacheGroup& group : plan.groups) {
      const auto page = static_cast<double>(group.page_bytes());
      (group.kind == plan::CacheKind::state ? states : kv) += page;
    }
    kv *= (m.depth + m.tokens / 2.0) / plan::kPageTokens;
    const double weights = plan::weights_read(plan, {.sequences = m.sequences});
    m.bytes_per_token = weights / m.sequences + kv + states;
    m.bandwidth_fraction = median(m.rates) * m.bytes_per_token / roofline_.plain_read;
  }

  const Options& options_;
  std::vector<int> sequences_;
  const engine::Model& model_;
  std::shared_ptr<engine::Executor> executor_;
  int vocab_;
  std::mt19937_64 rng_;
  std::vector<Measurement> results_;
  Roofline roofline_;
};

void print_json(const engine::Model& model, const Bench& bench) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const Measurement& m : bench.results()) {
    nlohmann::ordered_json entry;
    entry["test"] = m.test;
    entry["tokens"] = m.tokens;
    entry["depth"] = m.depth;
    entry["sequences"] = m.sequences;
    entry["threads"] = model.info().threads;
    entry["layout"] = model.info().packed_bytes > 0 ? "packed" : "file";
    entry["load"] = model.info().load;
    entry["tokens_per_second"] = {{"median", median(m.rates)},
                                  {"min", std::ranges::min(m.rates)},
                                  {"max", std::ranges::max(m.rates)}};
    entry["bytes_per_token"] = m.bytes_per_token;
    entry["bandwidth_fraction"] = m.bandwidth_fraction;
    entry["peak_rss_bytes"] = peak_rss_bytes();
    entry["model"] = model.info().name;
    entry["device"] = model.info().device;
    if (m.steps) {
      entry["steps"] = to_json(*m.steps);
      entry["roofline"] = to_json(bench.roofline());
    }
    array.push_back(entry);
  }
  print(array.dump(2) + "\n");
}

std::string test_name(const Measurement& m) {
  const char* kind = m.test == "embed" ? "embed" : m.test == "prefill" ? "pp" : "tg";
  std::string name = fmt::format("{}{}", kind, m.tokens);
  if (m.depth != 0) name += fmt::format(" @ d{}", m.depth);
  if (m.sequences > 1) name += fmt::format(" x{}", m.sequences);
  return name;
}

const char* layout_name(const engine::Model& model) {
  return model.info().packed_bytes > 0 ? "packed" : "as in the file";
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
  print_note(fmt::format("{}; weights {} ({}); peak memory {}", model.info().device,
                         layout_name(model), model.info().load, human_bytes(peak_rss_bytes())));
}

void print_steps(const Bench& bench) {
  for (const Measurement& m : bench.results()) {
    if (!m.steps) continue;
    const bool decode = m.test == "decode";
    print(to_text(*m.steps, decode ? "a decoded token" : fmt::format("a prompt of {}", m.tokens)));
    if (decode) print(overhead_text(*m.steps));
  }
  print(to_text(bench.roofline()));
}

Status bench(Options options) {
  if (options.prefill == 0 && options.decode == 0) {
    options.prefill = 512;
    options.decode = 128;
  }
  ORRERY_TRY(auto sequences, read_numbers("--sequences", options.sequences, 1, kMostSequences));
  options.open.sequences = static_cast<std::uint32_t>(std::ranges::max(sequences));
  const std::uint32_t longest =
      std::max(options.depth + options.prefill, std::max(1U, options.depth) + options.decode);
  if (options.open.context == 0) options.open.context = longest;
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  ORRERY_TRY_VOID(model->settle());
  if (model->executor() == nullptr &&
      (options.prefill == 0 || options.depth > 0 || options.steps || options.sequences != "1")) {
    return fail("E_ENCODER",
                options.model +
                    ": the model writes nothing; of --prefill, --decode, --depth, "
                    "--sequences and --steps it has --prefill alone: the tokens of a text");
  }
  Bench bench(options, std::move(sequences), *model);
  ORRERY_TRY_VOID(bench.run());
  if (options.json) {
    print_json(*model, bench);
  } else {
    print_table(*model, bench.results());
    if (options.steps) print_steps(bench);
  }
  return {};
}

}  // namespace

void add_bench(Command program) {
  Command command = program.command("bench", "measure prefill and decode");
  command.accepts_one_command();
  auto options = std::make_shared<Options>();
  command.option("MODEL", options->model, "model file, folder or short name");
  command.option("--prefill", options->prefill, "prompt tokens").range(0, 1 << 24);
  command.option("--decode", options->decode, "new tokens").range(0, 1 << 24);
  command.option("--depth", options->depth, "tokens before them").range(0, 1 << 24);
  command.option("--sequences", options->sequences,
                 "sequences decoded together, 1 to 32; several numbers, as 1,8,32, give the curve");
  command.option("--repeat", options->repeat, "measured repeats").range(1, 1000);
  command.flag("--steps", options->steps, "where the time goes, step by step");
  command.flag("--json", options->json, "every figure, as JSON");
  add_open_options(command, options->open);
  add_load_option(command, options->open);
  add_image_options(command, options->open);
  command.does([options] { return bench(*options); });
  add_bench_load(command);
  add_bench_copies(command);
  add_bench_restore(command);
}

}  // namespace orrery::cli
