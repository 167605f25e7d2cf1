#include "cli/open_model.hpp"

#include "cli/model_arg.hpp"
#include "cli/terminal.hpp"

namespace orrery::cli {

void add_open_options(CLI::App& command, OpenOptions& options) {
  command.add_option("-t,--threads", options.threads, "threads; 0 takes the physical cores")
      ->check(CLI::Range(0, 256));
  command.add_option("-c,--ctx", options.context, "context in tokens; 0 takes the model's own")
      ->check(CLI::Range(0, 1 << 24));
  command.add_flag("--deterministic", options.deterministic,
                   "prefill with decode's number classes: slower, independent of chunking");
}

Result<std::shared_ptr<const engine::Model>> open_model(const std::string& name,
                                                        const OpenOptions& options,
                                                        engine::Device device) {
  ORRERY_TRY(const std::string path, locate_model(name));
  engine::ModelOptions model_options;
  model_options.device = device;
  model_options.threads = options.threads;
  model_options.isa = forced_isa();
  model_options.context = options.context;
  model_options.deterministic = options.deterministic;
  model_options.max_sequences = options.sequences;
  ORRERY_TRY(auto model, engine::Model::open(path, model_options, storage::system_io()));
  for (const std::string& warning : model->warnings()) print_note("warning: " + printable(warning));
  return model;
}

}  // namespace orrery::cli
