// orrery bench load: from opening a model to the first token of a prompt, by the way of loading,
// with its files in the page cache and out of it.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "cli/bench_parts.hpp"
#include "cli/bench_steps.hpp"
#include "cli/open_model.hpp"
#include "cli/terminal.hpp"
#include "engine/session.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kPromptTokens = 32;
constexpr std::string_view kText =
    "The lighthouse keeper wrote down the height of the tide every hour of the night, and in the "
    "morning she compared her figures with those of the year before, of the storm, and of the calm "
    "that had followed it for so long.";

struct Options {
  std::string model;
  std::uint32_t repeat = 5;
  OpenOptions open;
  bool json = false;
};

// One start; seconds.
struct Start {
  engine::LoadTimes parts;
  double open = 0;    // all of opening
  double cpu = 0;     // processor time of it, all threads
  double prompt = 0;  // its tokens found and computed
  double total = 0;
  double packing = 0;  // of weights, which the second token waits for
};

struct Row {
  const char* mode;
  storage::LoadMode load;
  bool cold;
  std::vector<Start> starts = {};
  std::string way = {};
};

double middle(const Row& row, double (*part)(const Start&)) {
  std::vector<double> values;
  for (const Start& start : row.starts) values.push_back(part(start));
  return median(values);
}

// The files of the model as they should lie before a start. False where they could not be dropped.
Result<bool> prepare(const std::string& path, bool cold) {
  ORRERY_TRY(const auto files, storage::Checkpoint::open(path, storage::system_io()));
  for (const auto& file : files->mappings()) {
    if (cold) {
      file->drop_cached(file->bytes());
    } else {
      file->fetch(file->bytes());
      file->wait_fetched();
    }
  }
  const storage::PageUse use = storage::page_use(*files);
  return !cold || use.cached <= use.bytes / 10;
}

Status run_once(const Options& options, Row& row) {
  OpenOptions open = options.open;
  open.load = row.load;
  const double cpu = cpu_seconds();
  const double begin = now_seconds();
  ORRERY_TRY(const auto model, open_model(options.model, open));
  Start start{.parts = model->info().times};
  start.open = now_seconds() - begin;
  start.cpu = cpu_seconds() - cpu;
  ORRERY_TRY_VOID(model->check_writes());
  std::vector<text::TokenId> tokens =
      model->tokenizer().encode(kText, {.add_special = true, .parse_special = false});
  tokens.resize(kPromptTokens, tokens.empty() ? 0 : tokens.back());
  ORRERY_TRY(const auto session, engine::Session::open(model->executor()));
  ORRERY_TRY_VOID(session->evaluate(tokens));
  start.total = now_seconds() - begin;
  start.prompt = start.total - start.open;
  ORRERY_TRY_VOID(model->settle());
  start.packing = now_seconds() - begin - start.total;
  row.way = model->info().load;
  row.starts.push_back(start);
  return {};
}

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json entry{{"load", row.mode}, {"cold", row.cold}, {"way", row.way}};
  entry["starts"] = nlohmann::ordered_json::array();
  for (const Start& s : row.starts) {
    entry["starts"].push_back({{"files_seconds", s.parts.files},
                               {"text_seconds", s.parts.text},
                               {"plans_seconds", s.parts.plans},
                               {"open_seconds", s.open},
                               {"open_cpu_seconds", s.cpu},
                               {"prompt_seconds", s.prompt},
                               {"total_seconds", s.total},
                               {"packing_seconds", s.packing}});
  }
  return entry;
}

void print_table(const std::vector<Row>& rows) {
  print(fmt::format("milliseconds, medians of {}; a prompt of {} tokens\n", rows[0].starts.size(),
                    kPromptTokens));
  print(fmt::format("{:6} {:4} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}\n", "load", "file",
                    "files", "text", "plans", "open", "cpu", "prompt", "total", "packing"));
  for (const Row& row : rows) {
    const auto ms = [&](double (*part)(const Start&)) { return 1e3 * middle(row, part); };
    print(fmt::format(
        "{:6} {:4} {:7.1f} {:7.1f} {:7.1f} {:7.1f} {:7.1f} {:7.1f} {:7.1f} {:7.1f}\n", row.mode,
        row.cold ? "cold" : "warm", ms([](const Start& s) { return s.parts.files; }),
        ms([](const Start& s) { return s.parts.text; }),
        ms([](const Start& s) { return s.parts.plans; }), ms([](const Start& s) { return s.open; }),
        ms([](const Start& s) { return s.cpu; }), ms([](const Start& s) { return s.prompt; }),
        ms([](const Start& s) { return s.total; }), ms([](const Start& s) { return s.packing; })));
  }
  for (const Row& row : rows) {
    print_note(fmt::format("{} {}: {}", row.mode, row.cold ? "cold" : "warm", row.way));
  }
}

// Of the model or of its image, which is made where it is asked for. The model is gone afterwards:
// others would share its packed weights.
Result<std::string> path_of(const Options& options) {
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  return model->checkpoint().path();
}

Status bench_load(Options options) {
  if (options.open.context == 0) options.open.context = 2 * kPromptTokens;
  ORRERY_TRY(const std::string path, path_of(options));
  std::vector<Row> rows;
  for (const bool cold : {false, true}) {
    rows.push_back({"map", storage::LoadMode::map, cold});
    rows.push_back({"auto", storage::LoadMode::automatic, cold});
    rows.push_back({"direct", storage::LoadMode::direct, cold});
  }
  bool dropped = true;
  for (std::uint32_t r = 0; r < options.repeat; ++r) {  // by turns
    for (Row& row : rows) {
      ORRERY_TRY(const bool is_ready, prepare(path, row.cold));
      dropped = dropped && is_ready;
      ORRERY_TRY_VOID(run_once(options, row));
    }
  }
  if (!dropped) {
    print_note(
        "note: the page cache kept the files at times, as other programs use them; cold "
        "figures are too low");
  }
  if (options.json) {
    nlohmann::ordered_json document = nlohmann::ordered_json::array();
    for (const Row& row : rows) document.push_back(to_json(row));
    print(document.dump(2) + "\n");
  } else {
    print_table(rows);
  }
  return {};
}

}  // namespace

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void add_bench_load(Command bench) {
  Command command = bench.command("load", "from opening a model to the first token of a prompt");
  auto options = std::make_shared<Options>();
  command.option("MODEL", options->model, "model file, folder or short name");
  command.option("--repeat", options->repeat, "starts of each kind").range(1, 1000);
  command.flag("--json", options->json, "every figure, as JSON");
  add_open_options(command, options->open);
  add_image_options(command, options->open);
  command.does([options] { return bench_load(*options); });
}

}  // namespace orrery::cli
