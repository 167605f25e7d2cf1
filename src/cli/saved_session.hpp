// Conversations that are kept under a name (`orrery run --session NAME`).
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "cli/adapters.hpp"
#include "cli/conversation.hpp"
#include "engine/model.hpp"
#include "engine/session_file.hpp"

namespace orrery::cli {

// $XDG_STATE_HOME/orrery/sessions, by default ~/.local/state/orrery/sessions. May not exist.
std::string sessions_folder();
// The file of a session. Wrong usage for a name that is not 1 to 64 letters, digits, "-", "_" and
// ".", or begins with ".".
Result<std::string> session_path(const std::string& name);

// A session of a model and its file, where the user named one.
class SavedSession {
 public:
  // Without a name it is a session that is not kept. What a file holds goes into `conversation`,
  // and a note tells why pages of it could not be used. Wrong usage: a name together with adapters.
  static Result<SavedSession> open(const engine::Model& model, const std::string& name,
                                   const AdapterFiles& adapters, Conversation& conversation);

  engine::Session& session() { return *session_; }
  // An error is a note: the conversation goes on.
  void save(const Conversation& conversation);

 private:
  SavedSession() = default;

  std::unique_ptr<engine::Session> session_;
  std::unique_ptr<engine::SessionFile> file_;  // null: not kept
};

}  // namespace orrery::cli
