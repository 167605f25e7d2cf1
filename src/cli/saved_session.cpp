#include "cli/saved_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "cli/terminal.hpp"
#include "storage/io.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kMostNameBytes = 64;
constexpr std::string_view kTemporary = ".tmp";  // of a file that is not whole yet

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// What processes left behind that were killed while a file got its name.
void remove_leftovers() {
  const std::string folder = sessions_folder();
  const auto names = storage::system_io().list(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.ends_with(kTemporary)) continue;
    static_cast<void>(storage::system_state_io().remove(folder + "/" + name));
  }
}

}  // namespace

std::string sessions_folder() {
  const std::string state = variable("XDG_STATE_HOME");
  return (state.empty() ? variable("HOME") + "/.local/state" : state) + "/orrery/sessions";
}

Result<std::string> session_path(const std::string& name) {
  const bool is_name = !name.empty() && name.size() <= kMostNameBytes && name[0] != '.' &&
                       std::ranges::all_of(name, is_name_byte) && !name.ends_with(kTemporary);
  if (is_name) return sessions_folder() + "/" + name;
  return fail(kUsageError,
              fmt::format("\"{}\" is no name of a session: it has 1 to {} letters, "
                          "digits, - _ and . , begins with another than . and does not end in .tmp",
                          printable(name), kMostNameBytes));
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
  ORRERY_TRY(const std::string path, session_path(name));
  remove_leftovers();
  const auto identity = engine::kv_identity(*model.executor(), &model.checkpoint());
  ORRERY_TRY(saved.file_, engine::SessionFile::open(storage::system_state_io(), path, identity));
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
