// Grammars and schemas of `orrery run`.
#include "cli/model_arg.hpp"
#include "cli/run_options.hpp"
#include "text/grammar.hpp"

namespace orrery::cli {
namespace {

Result<text::Grammars::Source> compile(const RunOptions& options, text::Grammars& grammars) {
  std::string schema = options.schema;
  if (!options.schema_file.empty()) {
    ORRERY_TRY(schema, read_text(options.schema_file));
  }
  if (!schema.empty()) {
    const text::Json json = text::Json::parse(schema, nullptr, false);
    if (json.is_discarded()) return fail("E_SCHEMA", "the schema is no JSON");
    return grammars.json_schema(json);
  }
  std::string grammar = options.grammar;
  if (!options.grammar_file.empty()) {
    ORRERY_TRY(grammar, read_text(options.grammar_file));
  }
  return grammars.gbnf(grammar);
}

}  // namespace

Result<std::unique_ptr<text::Constraint>> run_constraint(const RunOptions& options,
                                                         const engine::Model& model) {
  if (!options.is_constrained()) return nullptr;
  // Not owned: the model outlives its answer.
  text::Grammars grammars({std::shared_ptr<void>(), &model.tokenizer()});
  ORRERY_TRY(const auto source, compile(options, grammars));
  return source->start();
}

}  // namespace orrery::cli
