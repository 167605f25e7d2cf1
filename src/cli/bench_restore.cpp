// orrery bench restore: a saved context back in use, from opening its file to the next token.
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "cli/bench_parts.hpp"
#include "cli/bench_steps.hpp"
#include "cli/open_model.hpp"
#include "cli/terminal.hpp"
#include "engine/session.hpp"
#include "engine/session_folder.hpp"

namespace orrery::cli {
namespace {

constexpr std::string_view kText =
    "The lighthouse keeper wrote down the height of the tide every hour of the night. ";
constexpr int kSteps = 5;  // after the first token

struct Options {
  std::string model;
  std::uint32_t tokens = 8000;
  std::uint32_t repeat = 5;
  OpenOptions open;
  bool json = false;
};

// Seconds.
struct Restart {
  double open = 0;     // of the file, with what tells the model's pages from others'
  double restore = 0;  // pages mapped and compared
  double token = 0;    // the first one that is new
  double step = 0;     // each one after it
  double cpu = 0;      // processor time up to the first one, all threads
  std::uint64_t mapped_bytes = 0, read_bytes = 0;

  double beyond_step() const { return open + restore + token - step; }
};

// A folder that is gone afterwards.
class Folder {
 public:
  static Result<Folder> make() {
    std::error_code failed;
    std::string path = (std::filesystem::temp_directory_path(failed) / "orrery-XXXXXX").string();
    if (!failed && ::mkdtemp(path.data()) == nullptr) {
      failed.assign(errno, std::generic_category());
    }
    if (failed) {
      return fail("E_IO", fmt::format("a temporary folder cannot be made: {}; name another place "
                                      "in TMPDIR",
                                      failed.message()));
    }
    Folder folder;
    folder.path_ = path;
    return folder;
  }
  Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Folder& operator=(Folder&&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  Folder() = default;
  std::string path_;
};

std::vector<text::TokenId> tokens_of(const engine::Model& model, std::size_t n) {
  const auto some = model.tokenizer().encode(kText, {.add_special = true, .parse_special = false});
  std::vector<text::TokenId> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = some.empty() ? 0 : some[i % some.size()];
  return tokens;
}

Status save(const engine::Model& model, const engine::SessionFolder& folder,
            std::span<const text::TokenId> tokens) {
  ORRERY_TRY(const auto session, engine::Session::open(model.executor()));
  ORRERY_TRY_VOID(session->evaluate(tokens));
  ORRERY_TRY(const auto file, folder.open("", "bench", model));
  return file->save(*session, "");
}

Result<Restart> restart(const engine::Model& model, const engine::SessionFolder& folder,
                        std::span<const text::TokenId> tokens) {
  ORRERY_TRY(const auto session, engine::Session::open(model.executor()));
  Restart times;
  const double cpu = cpu_seconds();
  double begin = now_seconds();
  const auto lap = [&begin] { return now_seconds() - std::exchange(begin, now_seconds()); };
  ORRERY_TRY(const auto file, folder.open("", "bench", model));
  times.open = lap();
  const engine::Restored restored = file->restore(*session);
  times.restore = lap();
  if (restored.problem) return std::unexpected(*restored.problem);
  times.mapped_bytes = restored.mapped_bytes;
  times.read_bytes = restored.read_bytes;
  const std::size_t saved = restored.tokens;
  ORRERY_TRY_VOID(session->evaluate(tokens.first(saved + 1)));
  times.token = lap();
  times.cpu = cpu_seconds() - cpu;
  for (std::size_t i = 2; i < 2 + kSteps; ++i) {
    ORRERY_TRY_VOID(session->evaluate(tokens.first(saved + i)));
  }
  times.step = lap() / kSteps;
  return times;
}

void print_table(const Options& options, const std::vector<Restart>& restarts) {
  print(fmt::format("milliseconds, medians of {}; {} tokens, {:.1f} MiB mapped, {:.1f} read\n",
                    restarts.size(), options.tokens,
                    static_cast<double>(restarts[0].mapped_bytes) / (1 << 20),
                    static_cast<double>(restarts[0].read_bytes) / (1 << 20)));
  print(fmt::format("{:>8} {:>8} {:>8} {:>8} {:>8} {:>14}\n", "open", "restore", "token", "step",
                    "cpu", "beyond a step"));
  const auto ms = [&](auto part) {
    std::vector<double> values;
    for (const Restart& r : restarts) values.push_back(1e3 * part(r));
    return median(values);
  };
  print(fmt::format(
      "{:8.1f} {:8.1f} {:8.1f} {:8.1f} {:8.1f} {:14.1f}\n",
      ms([](const Restart& r) { return r.open; }), ms([](const Restart& r) { return r.restore; }),
      ms([](const Restart& r) { return r.token; }), ms([](const Restart& r) { return r.step; }),
      ms([](const Restart& r) { return r.cpu; }),
      ms([](const Restart& r) { return r.beyond_step(); })));
}

void print_json(const Options& options, const std::vector<Restart>& restarts) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Restart& r : restarts) {
    rows.push_back({{"tokens", options.tokens},
                    {"mapped_bytes", r.mapped_bytes},
                    {"read_bytes", r.read_bytes},
                    {"open_seconds", r.open},
                    {"restore_seconds", r.restore},
                    {"token_seconds", r.token},
                    {"step_seconds", r.step},
                    {"cpu_seconds", r.cpu}});
  }
  print(rows.dump(2) + "\n");
}

Status bench_restore(Options options) {
  if (options.open.context == 0) options.open.context = options.tokens + 2 + kSteps;
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  ORRERY_TRY_VOID(model->check_writes());
  ORRERY_TRY(const Folder place, Folder::make());
  const engine::SessionFolder folder(place.path());
  const auto tokens = tokens_of(*model, options.tokens + 2 + kSteps);
  ORRERY_TRY_VOID(save(*model, folder, std::span(tokens).first(options.tokens)));
  // Not counted: it frees the memory that the computed pages lie in.
  ORRERY_TRY_VOID(restart(*model, folder, tokens));
  std::vector<Restart> restarts;
  for (std::uint32_t i = 0; i < options.repeat; ++i) {
    ORRERY_TRY(const Restart times, restart(*model, folder, tokens));
    restarts.push_back(times);
  }
  options.json ? print_json(options, restarts) : print_table(options, restarts);
  return {};
}

}  // namespace

void add_bench_restore(Command bench) {
  Command command = bench.command("restore", "from a saved context to its next token");
  auto options = std::make_shared<Options>();
  command.option("MODEL", options->model, "model file, folder or short name");
  command.option("--tokens", options->tokens, "of the saved context").range(1, 1 << 20);
  command.option("--repeat", options->repeat, "restores").range(1, 1000);
  command.flag("--json", options->json, "every figure, as JSON");
  add_open_options(command, options->open);
  add_load_option(command, options->open);
  add_image_options(command, options->open);
  command.does([options] { return bench_restore(*options); });
}

}  // namespace orrery::cli
