// orrery eval: how well a model predicts a text, how far two are apart, the logits of a prompt.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/adapters.hpp"
#include "cli/app.hpp"
#include "cli/model_arg.hpp"
#include "cli/open_model.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "engine/eval.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string model, reference, file, ids;
  std::uint32_t top = 10, greedy = 0;
  bool json = false;
  OpenOptions open;
  AdapterFiles adapters;
};

constexpr std::uint32_t kDefaultContext = 512;

Result<engine::EvalText> read_windows(const Options& options, const engine::Model& model) {
  ORRERY_TRY(const std::string text, read_text(options.file));
  return engine::cut_windows(model.tokenizer(), text, options.open.context);
}

engine::EvalProgress show(Progress& progress) {
  return [&progress](std::uint32_t done, std::uint32_t all, double) { progress.update(done, all); };
}

Status perplexity(Options options) {
  if (options.open.context == 0) options.open.context = kDefaultContext;
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  ORRERY_TRY(const engine::EvalText text, read_windows(options, *model));
  ORRERY_TRY(const auto session, open_session(*model, options.adapters));
  Progress progress("windows");
  ORRERY_TRY(const engine::Perplexity result,
             engine::evaluate_perplexity(*session, text, show(progress)));
  progress.finish();
  print(fmt::format("windows {}\nscored {}\nstandard_error {:.4f}\nperplexity {:.4f}\n",
                    text.n_windows(), result.scored, result.standard_error, result.perplexity));
  return {};
}

Status divergence(Options options) {
  if (options.open.context == 0) options.open.context = kDefaultContext;
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  const bool same = options.reference.empty();
  OpenOptions exact = options.open;
  exact.kv = {};  // --kv-type is what is compared, as is --quantize
  exact.quantize.clear();
  exact.fit = 0;
  ORRERY_TRY(const auto reference,
             open_model(same ? options.model : options.reference, exact,
                        same ? engine::Device::cpu_f32 : engine::Device::cpu));
  ORRERY_TRY(const engine::EvalText text, read_windows(options, *model));
  ORRERY_TRY(const auto session, open_session(*model, options.adapters));
  // Of the same model the reference has the same adapters; another may have them merged.
  ORRERY_TRY(const auto reference_session,
             open_session(*reference, same ? options.adapters : AdapterFiles{}));
  Progress progress("windows");
  ORRERY_TRY(const engine::Divergence result,
             engine::evaluate_divergence(*session, *reference_session, text, show(progress)));
  progress.finish();
  print(
      fmt::format("scored {}\nperplexity {:.4f}\nreference_perplexity {:.4f}\nkl_max {:.3e}\n"
                  "kl_mean {:.3e}\ntop1 {:.4f}\n",
                  result.scored, result.perplexity, result.reference_perplexity, result.max_kl,
                  result.mean_kl, result.same_top1));
  return {};
}

Result<std::vector<text::TokenId>> parse_ids(const std::string& text) {
  std::vector<text::TokenId> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    while (at != end && (*at == ' ' || *at == ',')) ++at;
    if (at == end) break;
    text::TokenId id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc{} || id < 0) {
      return fail(kUsageError, fmt::format("--ids: \"{}\" is no token id", printable(at)));
    }
    ids.push_back(id);
    at = next;
  }
  if (ids.empty()) return fail(kUsageError, "--ids names no token");
  return ids;
}

Status logits(const Options& options) {
  ORRERY_TRY(const auto ids, parse_ids(options.ids));
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  ORRERY_TRY(const auto session, open_session(*model, options.adapters));
  ORRERY_TRY(const engine::LogitsReport report,
             engine::report_logits(*session, ids, options.top, options.greedy));
  if (options.json) {
    nlohmann::ordered_json json;
    json["top"] = nlohmann::ordered_json::array();
    for (const auto& [id, logit] : report.top) json["top"].push_back({id, logit});
    json["logsumexp"] = report.logsumexp;
    json["greedy"] = report.greedy;
    print(json.dump() + "\n");
    return {};
  }
  for (const auto& [id, logit] : report.top) {
    print(fmt::format("{:8} {:10.5f}  {}\n", id, logit, printable(model->tokenizer().piece(id))));
  }
  print(fmt::format("logsumexp {:.6f}\n", report.logsumexp));
  if (options.greedy > 0) print(fmt::format("greedy {}\n", fmt::join(report.greedy, " ")));
  return {};
}

}  // namespace

void add_eval(Command program) {
  Command eval = program.command("eval", "measure how good answers are");
  eval.requires_command();
  auto options = std::make_shared<Options>();

  Command ppl = eval.command("perplexity", "perplexity of a text");
  ppl.option("MODEL", options->model, "model file, folder or short name");
  ppl.option("--file", options->file, "the text; - is stdin").required();
  add_adapter_option(ppl, options->adapters);
  add_open_options(ppl, options->open);
  add_image_options(ppl, options->open);
  ppl.does([options] { return perplexity(*options); });

  Command kl = eval.command("kl", "divergence from a reference");
  kl.option("MODEL", options->model, "model file, folder or short name");
  kl.option("--reference", options->reference,
            "the reference model; without it the same file dequantised, in f32");
  kl.option("--file", options->file, "the text; - is stdin").required();
  add_adapter_option(kl, options->adapters);
  add_open_options(kl, options->open);
  add_image_options(kl, options->open);
  kl.does([options] { return divergence(*options); });

  Command command = eval.command("logits", "logits after given token ids");
  command.option("MODEL", options->model, "model file, folder or short name");
  command.option("--ids", options->ids, "token ids, separated by blanks").required();
  command.option("--top", options->top, "how many logits").range(0, 1 << 20);
  command.option("--greedy", options->greedy, "how many likeliest tokens to go on with")
      .range(0, 1 << 20);
  command.flag("--json", options->json, "one JSON object");
  add_adapter_option(command, options->adapters);
  add_open_options(command, options->open);
  command.does([options] { return logits(*options); });
}

}  // namespace orrery::cli
