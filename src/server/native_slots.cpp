// The sequences of a model as llama.cpp's slots: what they hold is shown, saved, restored, erased.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <optional>

#include "engine/session_folder.hpp"
#include "server/fields.hpp"
#include "server/handlers.hpp"
#include "server/model_request.hpp"
#include "server/sampling.hpp"

namespace orrery::server {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// What goes wrong with a session, without the paths that the engine's sentences may have.
struct Sentence {
  std::string_view kind;
  int status;
  std::string_view code, message;
};
constexpr std::array kSentences = {
    Sentence{"E_NAME", 400, "invalid_value",
             "filename must be 1 to 64 letters, digits, - _ and . , begin with another than . and "
             "not end in .tmp"},
    Sentence{"E_SLOT", 404, "slot_not_found", "there is no such slot; GET /slots lists them"},
    Sentence{"E_NOTFOUND", 404, "session_not_found", "no session was saved under this name"},
    Sentence{"E_INUSE", 409, "slot_in_use", "an answer is being written in this slot; try again"},
    Sentence{"E_BUSY", 409, "session_in_use", "the session is in use elsewhere; try again"},
    Sentence{"E_FORMAT", 409, "not_a_session",
             "a file of this name is something else than a session; choose another name"},
    Sentence{"E_NOTFILE", 409, "not_a_session",
             "a file of this name is something else than a session; choose another name"},
    Sentence{"E_SESSION", 409, "session_mismatch",
             "the session cannot be used: its file is damaged, or another model, cache type or way "
             "of computing made it"},
    Sentence{"E_ADAPTER", 400, "not_supported",
             "what adapters have a part in is not kept: a file does not say which they were"},
    Sentence{"E_NOFOLDER", 500, "no_folder", "the folder of the sessions is not there any more"},
    Sentence{"E_DISKFULL", 507, "disk_full", "the disk of the sessions is full"},
    Sentence{"E_TOOBIG", 400, "invalid_value", "the session is too large for a file"},
};

ApiError session_error(const Error& error) {
  for (const Sentence& sentence : kSentences) {
    if (sentence.kind != error.kind) continue;
    return {sentence.status, std::string(sentence.message), "", std::string(sentence.code)};
  }
  return api_error(error);
}

struct Asked {
  ApiResult<Json> body;  // needed for some actions alone
  std::shared_ptr<ServedModel> model;
  std::uint32_t slot = 0;
};

ApiResult<Asked> read_slot(const App& app, Call& call) {
  Asked asked;
  asked.body = take_body(call);
  ORRERY_TRY(const std::string name, model_of_slot(call, asked.body ? &*asked.body : nullptr));
  ORRERY_TRY(asked.model, app.models.find_writer(name));
  constexpr std::string_view kPath = "/slots/";
  const std::string_view text = std::string_view(call.request.path).substr(kPath.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), asked.slot);
  if (error != std::errc{} || end != text.data() + text.size() ||
      asked.slot >= asked.model->model->options().max_sequences) {
    return std::unexpected(session_error({"E_SLOT", ""}));
  }
  return asked;
}

class SlotAction {
 public:
  SlotAction(App& app, const Call& call, Asked asked)
      : app_(app), call_(call), asked_(std::move(asked)) {
    out_["id_slot"] = asked_.slot;
  }

  ApiResult<Json> save() {
    const ApiResult<Json> saved = write();
    // Others say nothing about the folder: what the client sent, a model that is in use.
    if (saved) app_.saves_fail = false;
    if (!saved && (saved.error().status == 500 || saved.error().status == 507)) {
      app_.saves_fail = true;
    }
    return saved;
  }

  ApiResult<Json> restore() {
    ORRERY_TRY_VOID(open_file());
    const ApiStatus used = use([&](engine::Session& session) -> Status {
      if (file_->is_new()) return fail("E_NOTFOUND", "");
      {
        const auto turn = session.executor().turn();
        ORRERY_TRY_VOID(session.set_adapters({}));
      }
      const engine::Restored restored = file_->restore(session);
      if (restored.tokens == 0 && restored.problem) return std::unexpected(*restored.problem);
      out_["n_restored"] = restored.tokens;
      out_["n_read"] = restored.mapped_bytes + restored.read_bytes;
      return {};
    });
    if (!used) return std::unexpected(used.error());
    out_["timings"]["restore_ms"] = milliseconds_since(start_);
    return out_;
  }

  ApiResult<Json> erase() {
    const ApiStatus used = use([&](engine::Session& session) -> Status {
      const auto turn = session.executor().turn();
      out_["n_erased"] = session.held().size();
      session.clear();
      return {};
    });
    if (!used) return std::unexpected(used.error());
    return out_;
  }

 private:
  ApiStatus open_file() {
    if (app_.sessions == nullptr) {
      return refuse(501, "the server keeps no sessions; start it with --session-dir", "",
                    "not_supported");
    }
    if (!asked_.body) return std::unexpected(asked_.body.error());
    ORRERY_TRY(const auto name, get_string(*asked_.body, "filename", 4096));
    if (!name) return refuse(400, "filename is missing", "filename", "invalid_value");
    // Those of another key are not to be had: its name is a part of theirs.
    constexpr std::size_t kOwnerDigits = 16;
    auto file =
        app_.sessions->open(call_.domain.substr(0, kOwnerDigits), *name, *asked_.model->model);
    if (!file) return std::unexpected(session_error(file.error()));
    file_ = std::move(*file);
    out_["filename"] = *name;
    return {};
  }

  ApiResult<Json> write() {
    ORRERY_TRY_VOID(open_file());
    const ApiStatus used = use([&](engine::Session& session) -> Status {
      // A file that is not there yet is no error: what is not found is the folder.
      const Status saved = file_->save(session, "");
      if (!saved && saved.error().kind == "E_NOTFOUND") return fail("E_NOFOLDER", "");
      ORRERY_TRY_VOID(saved);
      out_["n_saved"] = session.held().size();
      out_["n_written"] = file_->bytes();
      return {};
    });
    if (!used) return std::unexpected(used.error());
    out_["timings"]["save_ms"] = milliseconds_since(start_);
    return out_;
  }

  ApiStatus use(const std::function<Status(engine::Session&)>& work) {
    const Status used = asked_.model->scheduler->use_slot(asked_.slot, call_.domain, work);
    if (!used) return std::unexpected(session_error(used.error()));
    return {};
  }

  App& app_;
  const Call& call_;
  const Asked asked_;
  const Clock::time_point start_ = Clock::now();
  Json out_ = Json::object();
  std::unique_ptr<engine::SessionFile> file_;
};

Json slot_object(std::uint32_t id, const ServedModel& model, const engine::SlotState& state) {
  Json out = Json::object();
  out["id"] = id;
  out["id_task"] = state.request > 0 ? Json(state.request) : Json(-1);
  out["n_ctx"] = model.context();
  out["is_processing"] = state.is_busy;
  out["n_past"] = state.tokens;
  out["n_prompt_tokens"] = state.prompt_tokens;
  out["params"] = sampling_object(state.sampling);
  out["next_token"]["has_next_token"] = state.request > 0;
  out["next_token"]["n_decoded"] = state.new_tokens;
  out["next_token"]["n_remain"] =
      state.max_tokens > 0 ? Json(state.max_tokens - state.new_tokens) : Json(-1);
  return out;
}

}  // namespace

// Nothing of what is written or was asked: the numbers alone.
ApiStatus native_slots(App& app, const CallPtr& call) {
  const std::string_view query = call->request.query;
  ORRERY_TRY(const auto model, app.models.find_writer(std::string(query_value(query, "model"))));
  std::vector<engine::SlotState> states = model->scheduler->slots(call->domain);
  states.resize(model->model->options().max_sequences);
  Json out = Json::array();
  bool any_free = false;
  for (std::uint32_t id = 0; id < states.size(); ++id) {
    any_free |= !states[id].is_busy;
    out.push_back(slot_object(id, *model, states[id]));
  }
  if (!any_free && query_value(query, "fail_on_no_slot") == "1") {
    return std::unexpected(api_error({"E_BUSY", "every slot is in use"}));
  }
  send_json(app, *call, out);
  return {};
}

ApiStatus native_slot_action(App& app, const CallPtr& call) {
  ORRERY_TRY(Asked asked, read_slot(app, *call));
  SlotAction action(app, *call, std::move(asked));
  const std::string_view name = query_value(call->request.query, "action");
  ApiResult<Json> done =
      refuse(400, "action must be save, restore or erase", "action", "invalid_value");
  if (name == "save") done = action.save();
  if (name == "restore") done = action.restore();
  if (name == "erase") done = action.erase();
  if (!done) return std::unexpected(done.error());
  send_json(app, *call, *done);
  return {};
}

}  // namespace orrery::server
