// orrery embed: vectors of texts.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/app.hpp"
#include "cli/model_arg.hpp"
#include "cli/open_model.hpp"
#include "cli/terminal.hpp"
#include "engine/embed_text.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string model, file;
  std::vector<std::string> texts;
  bool json = false, truncate = false, as_is = false;
  std::uint32_t dimensions = 0;
  std::optional<plan::PoolKind> pooling;
  OpenOptions open;
};

// One text a line; the end of the last line begins none.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const bool returned = end > begin && text[end - 1] == '\r';
    lines.push_back(text.substr(begin, end - begin - (returned ? 1 : 0)));
    begin = end + 1;
  }
  return lines;
}

Result<plan::PoolKind> parse_pooling(const std::string& text) {
  if (text == "mean") return plan::PoolKind::mean;
  if (text == "cls") return plan::PoolKind::first;
  if (text == "last") return plan::PoolKind::last;
  return fail(kUsageError,
              fmt::format("\"{}\" is no pooling; there are mean, cls and last", printable(text)));
}

// All texts before the first vector: one that is too long costs no work of the others.
Result<std::vector<std::vector<text::TokenId>>> tokens_of(const Options& options,
                                                          const engine::Model& model) {
  const auto longer = options.truncate ? engine::LongText::cut : engine::LongText::error;
  std::vector<std::vector<text::TokenId>> all;
  for (const std::string& text : options.texts) {
    auto tokens = engine::embed_tokens(model, text, longer);
    if (!tokens) {
      return fail(tokens.error().kind,
                  fmt::format("text {}: {}{}", all.size() + 1, tokens.error().message,
                              options.truncate ? "" : " (--truncate)"));
    }
    if (tokens->dropped > 0) {
      print_note(fmt::format("note: text {} is cut by {} tokens to the {} that the model reads",
                             all.size() + 1, tokens->dropped, tokens->ids.size()));
    }
    all.push_back(std::move(tokens->ids));
  }
  return all;
}

// The form of OpenAI's answers, piece by piece, so that many vectors take no memory.
class Writer {
 public:
  explicit Writer(bool json) : json_(json) {
    if (json_) print(R"({"object":"list","data":[)");
  }
  void add(const std::vector<float>& vector) {
    if (!json_) {
      print(fmt::format("{}\n", fmt::join(vector, " ")));
      return;
    }
    print(fmt::format(R"({}{{"object":"embedding","index":{},"embedding":[{}]}})",
                      count_ > 0 ? "," : "", count_, fmt::join(vector, ",")));
    ++count_;
  }
  void end(const std::string& model, std::size_t tokens) {
    if (!json_) return;
    const std::string name =
        nlohmann::json(model).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    print(fmt::format(R"(],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})", name,
                      tokens, tokens));
    print("\n");
  }

 private:
  bool json_;
  std::size_t count_ = 0;
};

Status embed(Options options) {
  if (!options.file.empty()) {
    ORRERY_TRY(const std::string text, read_text(options.file));
    options.texts = lines_of(text);
  }
  if (options.texts.empty())
    return fail(kUsageError, "no text was given; TEXT or --file is needed");
  options.open.pooling = options.pooling;
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  const std::uint32_t dim = model->hparams().embedding_dim();
  if (options.dimensions > dim) {
    return fail(kUsageError, fmt::format("--dimensions is {}, the model's vectors have {}",
                                         options.dimensions, dim));
  }
  ORRERY_TRY(const auto all, tokens_of(options, *model));
  std::optional<Writer> writer;
  std::size_t tokens = 0;
  for (const std::vector<text::TokenId>& ids : all) {
    ORRERY_TRY(const std::vector<float> vector,
               model->embed(ids, {.normalize = !options.as_is, .dimensions = options.dimensions}));
    if (!writer) writer.emplace(options.json);
    writer->add(vector);
    tokens += ids.size();
  }
  writer->end(model->info().name, tokens);
  return {};
}

}  // namespace

void add_embed(Command program) {
  Command command = program.command("embed", "make vectors of texts");
  auto options = std::make_shared<Options>();
  command.option("MODEL", options->model, "model file, folder or short name").required();
  const Option texts =
      command.option("TEXT", options->texts, "texts, a vector for each").values(0, 1 << 20);
  command.option("-f,--file", options->file, "a file with one text a line; - is stdin")
      .excludes(texts);
  command.flag("--json", options->json, "the form of OpenAI's embeddings, with token counts");
  command
      .option("--dimensions", options->dimensions,
              "keep the first N elements (for models trained so); 0 is all")
      .range(0, 1 << 24);
  command.option(
      "--pooling",
      [options](const std::string& text) -> Status {
        ORRERY_TRY(options->pooling, parse_pooling(text));
        return {};
      },
      "mean, cls or last; default: as the model says");
  command.flag("--truncate", options->truncate, "cut texts that are longer than the model reads");
  command.flag("--no-normalize", options->as_is, "leave vectors at their own length, not at 1");
  add_open_options(command, options->open);
  add_image_options(command, options->open);
  command.does([options] { return embed(*options); });
}

}  // namespace orrery::cli
