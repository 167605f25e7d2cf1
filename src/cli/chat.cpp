// The chat in the terminal.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "cli/conversation.hpp"
#include "cli/line_editor.hpp"
#include "cli/model_arg.hpp"
#include "cli/run_options.hpp"
#include "cli/saved_session.hpp"
#include "cli/terminal.hpp"
#include "storage/locate.hpp"

namespace orrery::cli {
namespace {

constexpr const char* kHelp =
    "/help            this list\n"
    "/system TEXT     set the system message (nothing: none)\n"
    "/reset           forget the conversation\n"
    "/save FILE       write the transcript\n"
    "/load FILE       go on from a transcript\n"
    "/stats           speed and memory of the last answer\n"
    "/quit            leave (also Ctrl-D)\n"
    "A line that ends in \\ goes on; \"\"\" begins and ends a longer text. Ctrl-C stops the "
    "answer.";

class Chat {
 public:
  Chat(const RunOptions& options, const engine::Model& model, SavedSession saved,
       Conversation conversation, engine::Sampler sampler)
      : options_(options),
        model_(model),
        saved_(std::move(saved)),
        sampler_(std::move(sampler)),
        conversation_(std::move(conversation)) {}

  Status run() {
    LineEditor editor(history_file());
    print_note("/help lists the commands");
    while (std::optional<std::string> message = editor.read_message()) {
      interrupted() = false;
      if (message->empty()) continue;
      if (message->starts_with('/')) {
        if (*message == "/quit" || *message == "/exit") break;
        command(*message);
      } else {
        reply(*message);
      }
      if (std::ferror(stdout) != 0) return fail("E_OUTPUT", "the output could not be written");
    }
    return {};
  }

 private:
  static std::string history_file() {
    const std::string folder = storage::cache_folder(storage::Environment::of_process());
    return storage::system_io().is_directory(folder) ? folder + "/history" : "";
  }

  // An error ends the answer, not the chat.
  void reply(const std::string& text) {
    conversation_.add("user", text);
    if (const Status status = generate(); !status) {
      print_error("error: " + printable(status.error().message));
      conversation_.drop_last();
    }
  }

  Status generate() {
    ORRERY_TRY(const auto tokens, conversation_.tokens(model_));
    engine::GenerateOptions generate = generate_options(options_);
    std::string answer;
    generate.on_text = [&](std::string_view text) {
      answer += text;
      print(text);
      return std::fflush(stdout) == 0;
    };
    ORRERY_TRY(last_,
               engine::generate(saved_.session(), model_.tokenizer(), sampler_, tokens, generate));
    print("\n");
    if (last_.finish == engine::FinishReason::context) {
      print_note("note: the context is full; /reset begins anew");
    }
    conversation_.add("assistant", answer);
    saved_.save(conversation_);
    return {};
  }

  void command(const std::string& line) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string name = line.substr(0, space);
    const std::string argument = space < line.size() ? line.substr(space + 1) : "";
    Status status;
    if (name == "/help") {
      print_note(kHelp);
    } else if (name == "/reset") {
      conversation_.reset();
    } else if (name == "/system") {
      conversation_.set_system(argument);
    } else if (name == "/stats") {
      print_note(stats_line(last_));
    } else if (name == "/save" && !argument.empty()) {
      status = storage::system_io().replace_file(argument, conversation_.transcript());
    } else if (name == "/load" && !argument.empty()) {
      status = load(argument);
    } else {
      print_note(fmt::format("{} is no command, or lacks its argument; /help lists them",
                             printable(name)));
    }
    if (!status) print_error("error: " + printable(status.error().message));
  }

  Status load(const std::string& path) {
    ORRERY_TRY(const std::string text, read_text(path));
    return conversation_.load(text);
  }

  const RunOptions& options_;
  const engine::Model& model_;
  SavedSession saved_;
  engine::Sampler sampler_;
  Conversation conversation_;
  engine::Generation last_;
};

}  // namespace

Status chat(const RunOptions& options, const engine::Model& model) {
  if (options.raw || !model.has_chat_template()) {
    return fail(kUsageError, "a chat needs a model with a chat template; give a text with -p");
  }
  ORRERY_TRY_VOID(model.chat_template());
  Conversation conversation(options.system);
  ORRERY_TRY(auto saved,
             SavedSession::open(model, options.session, options.adapters, conversation));
  if (!options.system.empty()) conversation.set_system(options.system);
  ORRERY_TRY(auto sampler, engine::Sampler::create(sampler_params(options, model), model.n_tokens(),
                                                   model.executor()->context()));
  return Chat(options, model, std::move(saved), std::move(conversation), std::move(sampler)).run();
}

}  // namespace orrery::cli
