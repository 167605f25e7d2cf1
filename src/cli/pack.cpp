// orrery pack: an image of a model, which the next start maps as it is.
#include <memory>

#include "cli/app.hpp"
#include "cli/images.hpp"
#include "cli/model_arg.hpp"
#include "cli/terminal.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string model, out;
  OpenOptions open;
};

Status pack(Options options) {
  ORRERY_TRY(const std::string source, locate_model(options.model));
  ORRERY_TRY(ImageJob job, choose_image(source, options.open));
  if (!options.out.empty()) job.out = options.out;
  ORRERY_TRY_VOID(make_image(job, options.open));
  print(job.out + "\n");
  return {};
}

}  // namespace

void add_pack(Command program) {
  Command command = program.command("pack", "make an image of a model that starts faster");
  auto options = std::make_shared<Options>();
  command.option("MODEL", options->model, "model file, folder or short name");
  command.option("OUT", options->out, "the file to write; without it one in Orrery's cache");
  add_image_options(command, options->open);
  add_open_options(command, options->open);
  command.does([options] { return pack(*options); });
}

}  // namespace orrery::cli
