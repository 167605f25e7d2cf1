// orrery inspect template: a chat template rendered with given variables.
#include <memory>

#include "cli/inspect.hpp"
#include "cli/model_arg.hpp"
#include "cli/terminal.hpp"
#include "engine/model_defaults.hpp"
#include "text/chat_template.hpp"

namespace orrery::cli {
namespace {

Result<std::string> template_source(const std::string& name) {
  if (name.ends_with(".jinja")) return read_text(name);
  ORRERY_TRY(const std::string path, locate_model(name));
  ORRERY_TRY(const auto checkpoint, storage::Checkpoint::open(path, storage::system_io()));
  ORRERY_TRY(const std::string source, engine::chat_template_source(*checkpoint));
  if (source.empty()) return fail("E_NOTEMPLATE", path + ": the model has no chat template");
  return source;
}

Result<std::string> render(const std::string& source, const text::Json& variables) {
  ORRERY_TRY(const auto chat_template, text::ChatTemplate::compile(source));
  return chat_template->render(variables);
}

Status inspect_template(const std::string& name, const std::string& variables_file) {
  ORRERY_TRY(const std::string json, read_text(variables_file));
  const text::Json variables = text::Json::parse(json, nullptr, false);
  if (variables.is_discarded() || !variables.is_object()) {
    return fail("E_JSON", variables_file + ": the variables must be a JSON object");
  }
  ORRERY_TRY(const std::string source, template_source(name));
  const auto text = render(source, variables);
  if (!text) return fail_in(name.empty() ? "the default model" : name, text.error());
  print(*text);
  return {};
}

}  // namespace

void add_inspect_template(Command inspect) {
  Command command = inspect.command("template", "render a chat template");
  auto name = std::make_shared<std::string>();
  auto variables = std::make_shared<std::string>();
  command.option("MODEL", *name, "model, or a .jinja file");
  command.option("--messages", *variables, "JSON object with messages, tools, ...").required();
  command.does([=] { return inspect_template(*name, *variables); });
}

}  // namespace orrery::cli
