// orrery quantize: a model of other element types, and what that costs.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "cli/app.hpp"
#include "cli/eval_text.hpp"
#include "cli/images.hpp"
#include "cli/model_arg.hpp"
#include "cli/open_model.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "engine/eval.hpp"
#include "engine/quantize.hpp"
#include "engine/session.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string in, out, type, imatrix, eval;
  bool no_eval = false;
  OpenOptions open;
};

double per_weight(std::uint64_t bytes, std::uint64_t elements) {
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
}

void print_sizes(const engine::QuantizeReport& report) {
  constexpr double kMega = 1e6;
  std::string types;
  for (const auto& [type, count] : report.tensors) {
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, dtype_info(type).name);
  }
  print(
      fmt::format("before {:.1f} MB, {:.2f} bits per weight\nafter {:.1f} MB, {:.2f} bits per "
                  "weight\ntensors {}\n",
                  static_cast<double>(report.bytes_before) / kMega,
                  per_weight(report.bytes_before, report.elements),
                  static_cast<double>(report.bytes_after) / kMega,
                  per_weight(report.bytes_after, report.elements), types));
}

Result<engine::QuantizeReport> write_model(const Options& options, const std::string& in) {
  engine::QuantizeOptions job;
  ORRERY_TRY(job.mix, parse_mix(options.type));
  job.threads = options.open.threads;
  engine::Importance importance;
  if (!options.imatrix.empty()) {
    ORRERY_TRY(importance, engine::read_importance(options.imatrix, storage::system_io()));
    job.importance = &importance;
  }
  ORRERY_TRY(const auto report, write_quantized(in, options.out, std::move(job)));
  if (report.was_quantized) {
    print_note("note: some weights of the source were quantized already; their losses add up");
  }
  if (report.without_importance > 0) {
    print_note(
        fmt::format("note: {} names {} of the quantized matrices not; they were written "
                    "without importance",
                    options.imatrix, report.without_importance));
  }
  return report;
}

// How far the new model is from the old one.
Status compare_models(const Options& options, const std::string& in) {
  OpenOptions open = options.open;
  open.context = eval_context(options.eval, open.context);
  ORRERY_TRY(const auto model, open_file(options.out, open));
  ORRERY_TRY(const auto reference, open_file(in, open));
  ORRERY_TRY(const auto text, read_eval_text(options.eval, open.context, *model));
  ORRERY_TRY(const auto session, engine::Session::open(model->executor()));
  ORRERY_TRY(const auto reference_session, engine::Session::open(reference->executor()));
  Progress progress("windows");
  ORRERY_TRY(const auto result,
             engine::evaluate_divergence(*session, *reference_session, text,
                                         [&](std::uint32_t done, std::uint32_t all, double) {
                                           progress.update(done, all);
                                         }));
  progress.finish();
  print(fmt::format("perplexity {:.4f}\nperplexity_before {:.4f}\nkl_mean {:.3e}\ntop1 {:.4f}\n",
                    result.perplexity, result.reference_perplexity, result.mean_kl,
                    result.same_top1));
  return {};
}

Status quantize(const Options& options) {
  ORRERY_TRY(const std::string in, locate_model(options.in));
  ORRERY_TRY(const auto report, write_model(options, in));
  print_sizes(report);
  if (options.no_eval) return {};
  Status compared = compare_models(options, in);
  if (compared || !options.eval.empty()) return compared;
  // Nobody asked: a model that cannot be run here can be quantized all the same.
  print_note("note: not evaluated: " + printable(compared.error().message));
  return {};
}

}  // namespace

void add_quantize(Command program) {
  Command command = program.command("quantize", "write a model with other element types");
  auto options = std::make_shared<Options>();
  command.option("IN", options->in, "model file, folder or short name").required();
  command.option("OUT", options->out, "the GGUF file to write").required();
  command
      .option("TYPE", options->type, "F16, Q8_0, Q4_K_M, ...: one type, or a mix by kind of tensor")
      .required();
  command.option("--imatrix", options->imatrix,
                 "importance of columns, as orrery imatrix or llama.cpp writes it");
  command.option("--eval", options->eval,
                 "text for perplexity and divergence from IN; without it a short one");
  command.flag("--no-eval", options->no_eval, "do not evaluate the result");
  add_open_options(command, options->open);
  command.does([options] { return quantize(*options); });
}

}  // namespace orrery::cli
