// Lines from a terminal with editing and history (libedit), and the multi-line forms of the chat.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace orrery::cli {

class LineEditor {
 public:
  // History is read from and kept in `history_file` ("" keeps none).
  explicit LineEditor(std::string history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // One message: a line, lines that end in a backslash joined, or all between two lines of """.
  // Empty after Ctrl-C; nothing at the end of input (Ctrl-D).
  std::optional<std::string> read_message();

 private:
  struct State;
  std::optional<std::string> read_line(const char* prompt);
  std::unique_ptr<State> state_;
};

}  // namespace orrery::cli
