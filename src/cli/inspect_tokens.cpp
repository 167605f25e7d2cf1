// orrery inspect tokens: the ids of a text, on one line.
#include <fmt/format.h>

#include <memory>

#include "cli/inspect.hpp"
#include "cli/model_arg.hpp"
#include "cli/terminal.hpp"
#include "storage/checkpoint.hpp"
#include "text/tokenizer.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string model, file, text;
  bool ids = false;
  text::EncodeOptions encode;
};

Status inspect_tokens(const Options& options) {
  std::string text = options.text;
  if (!options.file.empty()) {
    ORRERY_TRY(text, read_text(options.file));
  }
  ORRERY_TRY(const std::string path, locate_model(options.model));
  ORRERY_TRY(const auto checkpoint, storage::Checkpoint::open(path, storage::system_io()));
  ORRERY_TRY(const auto tokenizer, text::Tokenizer::load(*checkpoint));
  std::string line;
  for (const text::TokenId id : tokenizer->encode(text, options.encode)) {
    if (options.ids) {
      line += (line.empty() ? "" : " ") + std::to_string(id);
    } else {
      line += fmt::format("{:7}  {}\n", id, printable(tokenizer->token_text(id)));
    }
  }
  print(options.ids ? line + "\n" : line);
  return {};
}

}  // namespace

void add_inspect_tokens(Command inspect) {
  Command command = inspect.command("tokens", "the tokens of a text");
  auto options = std::make_shared<Options>();
  command.option("MODEL", options->model, "model file, folder or short name");
  const Option text = command.option("-p,--text", options->text, "the text");
  command.option("--file", options->file, "a file with the text; - is stdin").excludes(text);
  command.flag("--ids", options->ids, "ids alone, on one line");
  command.flag("--add-special", options->encode.add_special, "with the model's BOS and EOS");
  command.flag("--parse-special", options->encode.parse_special,
               "special tokens in the text become their ids");
  command.does([options] { return inspect_tokens(*options); });
}

}  // namespace orrery::cli
