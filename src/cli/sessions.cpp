// orrery sessions: the conversations that are kept.
#include <fmt/format.h>

#include <memory>

#include "cli/app.hpp"
#include "cli/saved_session.hpp"
#include "cli/terminal.hpp"
#include "storage/io.hpp"
#include "storage/state_file.hpp"

namespace orrery::cli {
namespace {

Status list_sessions() {
  storage::Io& io = storage::system_io();
  const std::string folder = sessions_folder();
  const auto names = io.list(folder);
  if (!names && names.error().kind != "E_NOTFOUND") return std::unexpected(names.error());
  print(fmt::format("{:36} {:>10}\n", "NAME", "SIZE"));
  bool any = false;
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    const auto info = io.info(folder + "/" + name);
    if (!info || info->kind != storage::FileKind::regular || !session_path(name)) continue;
    print(fmt::format("{:36} {:>10}\n", name, human_bytes(info->size)));
    any = true;
  }
  if (!any) print_note("no sessions; `orrery run --session NAME` begins one");
  return {};
}

Status remove_session(const std::string& name) {
  ORRERY_TRY(const std::string path, session_path(name));
  return storage::system_state_io().remove(path);
}

}  // namespace

void add_sessions(Command program) {
  Command sessions = program.command("sessions", "list or remove the conversations that are kept");
  sessions.accepts_one_command();
  sessions.does(list_sessions);

  Command remove = sessions.command("remove", "remove a session");
  auto name = std::make_shared<std::string>();
  remove.option("NAME", *name, "the session").required();
  remove.does([name] { return remove_session(*name); });
}

}  // namespace orrery::cli
