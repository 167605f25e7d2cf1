#include "cli/line_editor.hpp"

#include <histedit.h>

#include <cerrno>
#include <cstdio>

namespace orrery::cli {
namespace {

constexpr int kHistoryLines = 1000;
constexpr std::string_view kQuotes = "\"\"\"";

}  // namespace

struct LineEditor::State {
  EditLine* line = nullptr;
  History* history = nullptr;
  std::string history_file;
  const char* prompt = "";
};

LineEditor::LineEditor(std::string history_file) : state_(std::make_unique<State>()) {
  state_->history_file = std::move(history_file);
  state_->history = history_init();
  HistEvent event;
  history(state_->history, &event, H_SETSIZE, kHistoryLines);
  if (!state_->history_file.empty()) {
    history(state_->history, &event, H_LOAD, state_->history_file.c_str());
  }
  state_->line = el_init("orrery", stdin, stdout, stderr);
  el_set(state_->line, EL_CLIENTDATA, state_.get());
  using PromptFunction = char* (*)(EditLine*);
  el_set(state_->line, EL_PROMPT, static_cast<PromptFunction>([](EditLine* line) {
           void* state = nullptr;
           el_get(line, EL_CLIENTDATA, &state);
           return const_cast<char*>(static_cast<State*>(state)->prompt);
         }));
  el_set(state_->line, EL_EDITOR, "emacs");
  el_set(state_->line, EL_HIST, history, state_->history);
}

LineEditor::~LineEditor() {
  HistEvent event;
  if (!state_->history_file.empty()) {
    history(state_->history, &event, H_SAVE, state_->history_file.c_str());
  }
  history_end(state_->history);
  el_end(state_->line);
}

std::optional<std::string> LineEditor::read_line(const char* prompt) {
  state_->prompt = prompt;
  int count = 0;
  errno = 0;
  const char* line = el_gets(state_->line, &count);
  if (line == nullptr || count <= 0) {
    if (errno != EINTR) return std::nullopt;
    el_reset(state_->line);  // Ctrl-C at the prompt: the line is dropped
    std::fputs("\n", stderr);
    return "";
  }
  std::string text(line, static_cast<std::size_t>(count));
  if (text.ends_with('\n')) text.pop_back();
  if (!text.empty()) {
    HistEvent event;
    history(state_->history, &event, H_ENTER, text.c_str());
  }
  return text;
}

std::optional<std::string> LineEditor::read_message() {
  std::optional<std::string> line = read_line("> ");
  if (!line) return std::nullopt;
  std::string message;
  if (*line == kQuotes) {
    while ((line = read_line("... ")) && *line != kQuotes) message += *line + "\n";
    return message;
  }
  while (line && line->ends_with('\\')) {
    message += line->substr(0, line->size() - 1) + "\n";
    line = read_line("... ");
  }
  return message + line.value_or("");
}

}  // namespace orrery::cli
