// orrery run: one answer, or a chat in the terminal.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/app.hpp"
#include "cli/conversation.hpp"
#include "cli/model_arg.hpp"
#include "cli/progress.hpp"
#include "cli/run_options.hpp"
#include "cli/saved_session.hpp"
#include "cli/terminal.hpp"

namespace orrery::cli {
namespace {

bool looks_like_model(const std::string& text) {
  return text.find_first_of(" \t\n") == std::string::npos && locate_model(text).has_value();
}

// [MODEL] [TEXT]: two arguments are both; one is the model if it names one.
Status take_positional(RunOptions& options) {
  const std::vector<std::string>& given = options.positional;
  if (given.size() == 2) {
    options.model = given[0];
    options.prompt = given[1];
    options.has_prompt = true;
  } else if (given.size() == 1) {
    const bool is_text = given[0].find(' ') != std::string::npos && !looks_like_model(given[0]);
    if (is_text && options.has_prompt) {
      return fail(kUsageError, "the prompt is given twice: as an argument and with -p or -f");
    }
    if (is_text) {
      options.prompt = given[0];
      options.has_prompt = true;
    } else {
      options.model = given[0];
    }
  }
  return {};
}

Status read_prompt(RunOptions& options) {
  if (!options.file.empty()) {
    ORRERY_TRY(options.prompt, read_text(options.file));
    options.has_prompt = true;
  }
  ORRERY_TRY_VOID(take_positional(options));
  if (!options.has_prompt && !stdin_is_terminal()) {
    ORRERY_TRY(options.prompt, read_text("-"));
    if (options.prompt.ends_with('\n') && !options.raw) options.prompt.pop_back();
    options.has_prompt = true;
  }
  return {};
}

Result<std::vector<text::TokenId>> prompt_tokens(const RunOptions& options,
                                                 const engine::Model& model,
                                                 const Conversation& conversation) {
  if (!options.raw && model.has_chat_template()) return conversation.tokens(model);
  if (!options.raw) {
    print_note("note: the model has no chat template; it continues the text as it is");
  }
  return model.tokenizer().encode(options.prompt, {.add_special = true, .parse_special = false});
}

void print_model(const RunOptions& options, const engine::Model& model) {
  if (options.quiet) return;
  print_note(fmt::format("{}: {} of weights{} ({}), context {}{}, {}", printable(model.info().name),
                         human_bytes(model.info().weight_bytes), packed_phrase(model),
                         model.info().load, model.info().context,
                         model.info().context < model.info().training_context
                             ? fmt::format(" of {}", model.info().training_context)
                             : "",
                         model.info().device));
}

Status answer(const RunOptions& options, const engine::Model& model) {
  Conversation conversation(options.system);
  ORRERY_TRY(auto saved,
             SavedSession::open(model, options.session, options.adapters, conversation));
  if (!options.system.empty()) conversation.set_system(options.system);
  conversation.add("user", options.prompt);
  ORRERY_TRY(const auto tokens, prompt_tokens(options, model, conversation));
  ORRERY_TRY(const auto constraint, run_constraint(options, model));
  ORRERY_TRY(auto sampler, engine::Sampler::create(sampler_params(options, model), model.n_tokens(),
                                                   model.executor()->context()));
  print_model(options, model);  // a prompt that cannot be answered is one line, its error
  Progress progress("reading the prompt");
  engine::GenerateOptions generate = generate_options(options);
  generate.constraint = constraint.get();
  generate.prefill_progress = [&](std::uint32_t done, std::uint32_t todo) {
    progress.update(done, todo);
  };
  bool writable = true;
  std::string said;
  generate.on_text = [&](std::string_view text) {
    progress.finish();
    said += text;
    print(text);
    writable = std::fflush(stdout) == 0;
    return writable;
  };
  ORRERY_TRY(const engine::Generation generation,
             engine::generate(saved.session(), model.tokenizer(), sampler, tokens, generate));
  if (!options.raw) print("\n");
  conversation.add("assistant", said);
  saved.save(conversation);
  if (generation.finish == engine::FinishReason::context) {
    print_note(fmt::format("note: the context of {} tokens is full", model.info().context));
  }
  if (!options.quiet) print_note(stats_line(generation));
  if (!writable) return fail("E_OUTPUT", "the output could not be written");
  return {};
}

Status check_session(const RunOptions& options) {
  if (options.session.empty()) return {};
  if (options.raw) {
    return fail(kUsageError, "a session keeps a conversation, and --raw has none");
  }
  ORRERY_TRY_VOID(session_path(options.session));
  return {};
}

Status run(RunOptions options) {
  ORRERY_TRY_VOID(check_session(options));
  ORRERY_TRY_VOID(read_prompt(options));
  if (options.has_prompt && options.prompt.empty()) {
    return fail(kUsageError, "the prompt is empty");
  }
  if (!options.has_prompt && options.is_constrained()) {
    return fail(kUsageError, "a grammar or schema needs a prompt; a chat has none");
  }
  ORRERY_TRY(const auto model, open_model(options.model, options.open));
  ORRERY_TRY_VOID(engine::validate(sampler_params(options, *model), model->n_tokens()));
  if (!options.session.empty() && !model->has_chat_template()) {
    return fail(kUsageError,
                "a session keeps a conversation: it needs a model with a chat template");
  }
  catch_interrupts();
  if (options.has_prompt) return answer(options, *model);
  print_model(options, *model);
  ORRERY_TRY_VOID(model->settle());  // while the user thinks
  return chat(options, *model);
}

void add_constraint_options(Command command, RunOptions& options) {
  Option grammar = command.option("--grammar", options.grammar, "hold the answer to this GBNF");
  Option file = command.option("--grammar-file", options.grammar_file, "a file with the GBNF");
  Option schema = command.option("-j,--json-schema", options.schema, "JSON of this schema alone");
  command.option("--json-schema-file", options.schema_file, "a file with the schema")
      .excludes(schema)
      .excludes(grammar)
      .excludes(file);
  schema.excludes(grammar).excludes(file);
  file.excludes(grammar);
}

void add_sampling_options(Command command, RunOptions& options) {
  command.option("--temp", options.temperature, "temperature; 0 takes the likeliest token")
      .range(0.0, 100.0);
  command.option("--top-k", options.top_k, "keep the K likeliest; 0 is all").range(0, 1 << 24);
  command.option("--top-p", options.top_p, "keep the likeliest of this total probability")
      .range(0.0, 1.0);
  command.option("--min-p", options.min_p, "drop those below this part of the likeliest")
      .range(0.0, 1.0);
  command.option("--repeat-penalty", options.repeat_penalty, "penalty of repeated tokens")
      .range(0.01, 100.0);
  command.option("--seed", options.seed, "seed of the random numbers");
}

}  // namespace

void add_run(Command program) {
  Command command = program.command("run", "answer a prompt, or chat");
  auto options = std::make_shared<RunOptions>();
  command.option("MODEL_TEXT", options->positional, "[MODEL] [TEXT]").values(0, 2);
  const Option prompt = command.option("-p,--prompt", options->prompt, "the prompt");
  command.option("-f,--file", options->file, "a file with the prompt; - is stdin").excludes(prompt);
  command.option("-n,--max-tokens", options->max_tokens, "most new tokens; 0 is no limit")
      .range(0, 1 << 24);
  command.option("--system", options->system, "system message");
  command.option("--stop", options->stop, "stop before this text (repeatable)").repeatable();
  command.option(
      "--on-overflow",
      [options](const std::string& text) -> Status {
        ORRERY_TRY(options->overflow, parse_overflow(text));
        return {};
      },
      "when the context is full: error, shift (drop the oldest half and read the rest again) or "
      "roll (drop it and read nothing again)");
  command.option("--session", options->session,
                 "go on with the conversation that is kept under this name, and keep it");
  command.flag("--raw", options->raw, "no chat template: continue the text as it is");
  command.flag("--quiet", options->quiet, "the answer alone");
  add_constraint_options(command, *options);
  add_sampling_options(command, *options);
  add_adapter_option(command, options->adapters);
  add_open_options(command, options->open);
  add_load_option(command, options->open);
  add_image_options(command, options->open);
  command.does([options, prompt] {
    options->has_prompt = prompt.given();
    return run(*options);
  });
}

}  // namespace orrery::cli
