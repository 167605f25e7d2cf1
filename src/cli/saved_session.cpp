#include "cli/saved_session.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "cli/terminal.hpp"
#include "engine/session_folder.hpp"

namespace orrery::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

std::string sessions_folder() {
  const std::string state = variable("XDG_STATE_HOME");
  return (state.empty() ? variable("HOME") + "/.local/state" : state) + "/orrery/sessions";
}

Result<std::string> session_path(const std::string& name) {
  if (engine::is_session_name(name)) return sessions_folder() + "/" + name;
  return fail(kUsageError,
              fmt::format("\"{}\" is no name of a session: it has 1 to {} letters, "
                          "digits, - _ and . , begins with another than . and does not end in .tmp",
                          printable(name), engine::kMostSessionName));
}

Result<SavedSession> SavedSession::open(const engine::Model& model, const std::string& name,
                                        const AdapterFiles& adapters, Conversation& conversation) {
  if (!name.empty() && !adapters.empty()) {
    return fail(kUsageError,
                "--session keeps no answers of adapters; leave out --session or --lora");
  }
  SavedSession saved;
  ORRERY_TRY(saved.session_, open_session(model, adapters));
  if (name.empty()) return saved;
  ORRERY_TRY_VOID(session_path(name));
  ORRERY_TRY(saved.file_, engine::SessionFolder(sessions_folder()).open("", name, model));
  ORRERY_TRY_VOID(conversation.load(std::string(saved.file_->text())));
  const engine::Restored restored = saved.file_->restore(*saved.session_);
  if (restored.problem) print_note("note: " + printable(restored.problem->message));
  return saved;
}

void SavedSession::save(const Conversation& conversation) {
  if (file_ == nullptr) return;
  const Status status = file_->save(*session_, conversation.transcript());
  if (!status) print_error("the session is not saved: " + printable(status.error().message));
}

}  // namespace orrery::cli
