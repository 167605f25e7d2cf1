#include "cli/images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <utility>

#include "base/clock.hpp"
#include "cli/eval_text.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "engine/eval.hpp"
#include "engine/fit.hpp"
#include "engine/image.hpp"
#include "engine/session.hpp"
#include "model/gguf_image.hpp"
#include "model/model.hpp"
#include "storage/locate.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kFitContext = 4096;  // tokens, where none are asked for
constexpr double kMostSeconds = 30;          // of comparing an image with its source

std::atomic<bool> stop_requested{false};

std::string absolute(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? path : whole.string();
}

bool is_in_images(const std::string& path) {
  return fs::path(absolute(path)).parent_path() == fs::path(absolute(images_folder()));
}

// "SmolLM2-135M-Instruct.Q4_1-1a2b3c4d.Q4_K_M.file.gguf": the digits tell sources of one name
// apart.
std::string image_path(const ImageJob& job) {
  const fs::path source = absolute(job.source);
  const std::string name =
      source.extension() == ".gguf" ? source.stem().string() : source.filename().string();
  return fmt::format("{}/{}-{:08x}.{}.{}.gguf", images_folder(), name,
                     engine::source_key(source.string()), job.mix ? job.mix->name : "as-is",
                     job.packed ? "packed" : "file");
}

// What a model takes beside its weights, with one sequence of this context.
Result<engine::FitNeeds> needs_of(const std::string& source, OpenOptions open) {
  open.load = storage::LoadMode::map;
  open.layout = engine::WeightLayout::file;
  open.sequences = 1;
  ORRERY_TRY(const auto model, open_file(source, open));
  engine::FitNeeds needs{model->info().context, 0, model->info().scratch_bytes};
  if (const auto executor = model->executor()) needs.cache = executor->kv().reserved_bytes();
  return needs;
}

Result<std::optional<engine::QuantizeMix>> choose_fit(const model::GgufImage& image,
                                                      const std::string& source,
                                                      OpenOptions& open) {
  if (open.context == 0) {
    ORRERY_TRY(const auto checkpoint, storage::Checkpoint::open(source, storage::system_io()));
    ORRERY_TRY(const auto loaded, model::load_model(checkpoint));
    open.context = std::min(kFitContext, loaded.hparams().context_length);
  }
  ORRERY_TRY(const engine::FitNeeds needs, needs_of(source, open));
  ORRERY_TRY(const engine::Fit fit, engine::fit_model(image, needs, open.fit));
  open.cache_bytes = std::max<std::uint64_t>(open.fit - fit.weights - needs.scratch, 1);
  print_note(fmt::format(
      "fit: {} of weights ({}), {} of cache for {} tokens and {} of scratch fit "
      "into {}",
      human_bytes(fit.weights), fit.mix ? fit.mix->name : "as they are", human_bytes(needs.cache),
      needs.context, human_bytes(needs.scratch), human_bytes(open.fit)));
  return fit.mix;
}

// One window after the other, as long as there is time.
Status compare(const ImageJob& job, OpenOptions open) {
  open.context = eval_context("", 0);
  open.sequences = 1;
  open.cache_bytes = 0;
  ORRERY_TRY(const auto image, open_file(job.out, open));
  open.layout = engine::WeightLayout::file;
  ORRERY_TRY(const auto source, open_file(job.source, open));
  ORRERY_TRY_VOID(image->check_writes());
  ORRERY_TRY(const engine::EvalText text, read_eval_text("", 0, *image));
  ORRERY_TRY(const auto ours, engine::Session::open(image->executor()));
  ORRERY_TRY(const auto theirs, engine::Session::open(source->executor()));
  double kl = 0, same = 0;
  std::uint64_t scored = 0;
  const double start = now_seconds();
  for (std::uint32_t w = 0; w < text.n_windows() && now_seconds() - start < kMostSeconds; ++w) {
    engine::EvalText one = text;
    one.tokens = text.window(w);
    ORRERY_TRY(const auto result, engine::evaluate_divergence(*ours, *theirs, one));
    kl += result.mean_kl * static_cast<double>(result.scored);
    same += result.same_top1 * static_cast<double>(result.scored);
    scored += result.scored;
  }
  const auto n = static_cast<double>(scored);
  print_note(
      fmt::format("image: KL {:.3e} from its source, {:.1f}% of likeliest tokens the same "
                  "({} tokens of a built-in text)",
                  kl / n, 100 * same / n, scored));
  return {};
}

// The image, or why it is not used.
Result<std::shared_ptr<const engine::Model>> open_image(const ImageJob& job,
                                                        const OpenOptions& options) {
  ORRERY_TRY(auto model, open_file(job.out, options));
  if (!model->info().image) return fail("E_IMAGE", job.out + ": is no image");
  ORRERY_TRY(const bool current,
             engine::is_current(*model->info().image, job.source, storage::system_io()));
  if (current) return model;
  return fail("E_IMAGE", fmt::format("{}: its source {} has changed since", job.out, job.source));
}

// An image that is named itself is whole without its source.
Result<std::shared_ptr<const engine::Model>> open_named(const std::string& path,
                                                        const OpenOptions& options) {
  ORRERY_TRY(auto model, open_file(path, options));
  const auto& image = model->info().image;
  if (!image) return model;
  const auto current = engine::is_current(*image, image->source.path, storage::system_io());
  if (current && !*current) {
    print_note(fmt::format("warning: {} has changed since this image of it was made",
                           printable(image->source.path)));
  }
  return model;
}

}  // namespace

std::string images_folder() {
  return fmt::format("{}/{}", storage::cache_folder(storage::Environment::of_process()),
                     storage::kImagesFolder);
}

Result<engine::QuantizeReport> write_quantized(const std::string& in, const std::string& out,
                                               engine::QuantizeOptions job) {
  const auto before = std::signal(SIGINT, [](int) { stop_requested = true; });
  Progress progress("weights");
  job.progress = [&](std::uint64_t done, std::uint64_t all) {
    progress.update(done, all);
    return !stop_requested.load();
  };
  auto report = engine::quantize(in, out, job, storage::system_io());
  progress.finish();
  std::signal(SIGINT, before);
  return report;
}

Result<ImageJob> choose_image(const std::string& source, OpenOptions& options) {
  ImageJob job{source, "", std::nullopt, options.layout != engine::WeightLayout::file};
  if (!options.quantize.empty() || options.fit > 0) {
    ORRERY_TRY(const auto checkpoint, storage::Checkpoint::open(source, storage::system_io()));
    ORRERY_TRY(const model::GgufImage image, model::gguf_image(checkpoint));
    if (options.fit > 0) {
      ORRERY_TRY(job.mix, choose_fit(image, source, options));
    } else {
      ORRERY_TRY(job.mix, parse_mix(options.quantize));
    }
    if (job.mix) {
      job.packed = engine::packs(options.layout, engine::image_bytes(image, job.mix));
    }
  }
  job.out = image_path(job);
  return job;
}

Status make_image(const ImageJob& job, const OpenOptions& options) {
  std::error_code error;
  const std::string folder = fs::path(job.out).parent_path().string();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) return fail("E_DISK", fmt::format("{}: {}", folder, error.message()));
  engine::QuantizeOptions task;
  task.mix = job.mix;
  task.image = true;
  task.packed = job.packed;
  task.threads = options.threads;
  ORRERY_TRY(const auto report, write_quantized(job.source, job.out, std::move(task)));
  print_note(fmt::format("image: {} of weights, {} before; kept as {}",
                         human_bytes(report.bytes_after), human_bytes(report.bytes_before),
                         printable(job.out)));
  if (!job.mix) return {};  // every bit is the same
  const Status compared = compare(job, options);
  if (!compared) print_note("note: not compared: " + printable(compared.error().message));
  return {};
}

Result<std::shared_ptr<const engine::Model>> open_form(const std::string& path,
                                                       OpenOptions options) {
  const bool asked = !options.quantize.empty() || options.fit > 0;
  if (!asked && (options.layout == engine::WeightLayout::file || is_in_images(path))) {
    return open_named(path, options);
  }
  ORRERY_TRY(const ImageJob job, choose_image(path, options));
  if (storage::system_io().exists(job.out)) {
    auto model = open_image(job, options);
    if (model || model.error().kind == "E_MEMORY") return model;
    print_note(fmt::format("note: the image is not used: {}", printable(model.error().message)));
  }
  if (!job.mix) return open_named(path, options);
  ORRERY_TRY_VOID(make_image(job, options));
  return open_file(job.out, options);
}

}  // namespace orrery::cli
