// orrery imatrix: how much each column of each weight matters, for orrery quantize.
#include <fmt/format.h>

#include <memory>

#include "cli/app.hpp"
#include "cli/eval_text.hpp"
#include "cli/model_arg.hpp"
#include "cli/open_model.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "engine/collect_importance.hpp"
#include "storage/io.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string model, file, out;
  OpenOptions open;
};

Status imatrix(const Options& options) {
  OpenOptions open = options.open;
  open.context = eval_context(options.file, open.context);
  ORRERY_TRY(const auto model, open_model(options.model, open));
  ORRERY_TRY(const auto text, read_eval_text(options.file, open.context, *model));
  ORRERY_TRY(const auto session, engine::Session::open(model->executor()));
  Progress progress("windows");
  ORRERY_TRY(auto importance,
             engine::collect_importance(*session, text,
                                        [&](std::uint32_t done, std::uint32_t all, double) {
                                          progress.update(done, all);
                                        }));
  progress.finish();
  importance.datasets = {options.file};
  ORRERY_TRY_VOID(engine::write_importance(importance, options.out, storage::system_io()));
  print(fmt::format("weights {}\nwindows {}\n", importance.sums.size(), importance.n_chunks));
  return {};
}

}  // namespace

void add_imatrix(Command program) {
  Command command =
      program.command("imatrix", "measure which columns of the weights matter, for quantize");
  auto options = std::make_shared<Options>();
  command.option("MODEL", options->model, "model file, folder or short name");
  command.option("--file", options->file, "the text that the model reads; - is stdin").required();
  command.option("-o,--output", options->out, "the file to write").required();
  add_open_options(command, options->open);
  command.does([options] { return imatrix(*options); });
}

}  // namespace orrery::cli
