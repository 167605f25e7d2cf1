// llama.cpp's own endpoints: /props, /tokenize, /detokenize, /apply-template.
#include <fmt/format.h>

#include "server/fields.hpp"
#include "server/handlers.hpp"
#include "server/messages.hpp"

namespace orrery::server {
namespace {

struct Asked {
  Json body;
  std::shared_ptr<ServedModel> model;
};

ApiResult<Asked> read(const App& app, Call& call) {
  Asked asked;
  ORRERY_TRY(asked.body, take_body(call));
  ORRERY_TRY(const auto name, get_string(asked.body, "model", 1U << 20));
  ORRERY_TRY(asked.model, app.models.find(name.value_or("")));
  return asked;
}

}  // namespace

ApiStatus native_props(App& app, const CallPtr& call) {
  ORRERY_TRY(const ModelStatus model, app.models.describe(""));
  const engine::ModelInfo info = model.facts == nullptr ? engine::ModelInfo{} : model.facts->info;
  Json out = Json::object();
  out["default_generation_settings"]["n_ctx"] = info.context;
  out["total_slots"] = model.facts == nullptr ? 0 : model.facts->slots;
  out["model_alias"] = model.id;
  out["device"] = info.device;
  if (model.facts != nullptr) out["capabilities"] = capabilities(*model.facts);
  out["build_info"] = "orrery " + app.version;
  out["modalities"]["vision"] = false;
  out["modalities"]["audio"] = false;
  send_json(app, *call, out);
  return {};
}

ApiStatus native_tokenize(App& app, const CallPtr& call) {
  ORRERY_TRY(const Asked asked, read(app, *call));
  ORRERY_TRY(const auto content, get_string(asked.body, "content", SIZE_MAX));
  ORRERY_TRY(const bool add_special, get_bool(asked.body, "add_special", false));
  ORRERY_TRY(const bool parse_special, get_bool(asked.body, "parse_special", true));
  ORRERY_TRY(const bool with_pieces, get_bool(asked.body, "with_pieces", false));
  const text::Tokenizer& tokenizer = asked.model->model->tokenizer();
  Json tokens = Json::array();
  for (const text::TokenId id : tokenizer.encode(
           content.value_or(""), {.add_special = add_special, .parse_special = parse_special})) {
    if (!with_pieces) {
      tokens.push_back(id);
      continue;
    }
    Json token = Json::object();
    token["id"] = id;
    token["piece"] = std::string(tokenizer.piece(id));
    tokens.push_back(std::move(token));
  }
  Json out = Json::object();
  out["tokens"] = std::move(tokens);
  send_json(app, *call, out);
  return {};
}

ApiStatus native_detokenize(App& app, const CallPtr& call) {
  ORRERY_TRY(const Asked asked, read(app, *call));
  const Json* tokens = find(asked.body, "tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    return refuse(400, "tokens must be a list of token ids", "tokens", "invalid_value");
  }
  std::vector<text::TokenId> ids;
  for (const Json& token : *tokens) {
    const auto id = whole_number(token);
    if (!id || *id < 0 || *id >= asked.model->model->n_tokens()) {
      return refuse(400, "tokens holds what is no token id", "tokens", "invalid_value");
    }
    ids.push_back(static_cast<text::TokenId>(*id));
  }
  Json out = Json::object();
  out["content"] = asked.model->model->tokenizer().decode(ids, true);
  send_json(app, *call, out);
  return {};
}

ApiStatus native_apply_template(App& app, const CallPtr& call) {
  ORRERY_TRY(const Asked asked, read(app, *call));
  Conversation conversation;
  ORRERY_TRY(conversation.messages, parse_messages(asked.body));
  ORRERY_TRY(conversation.variables, parse_template_variables(asked.body));
  ORRERY_TRY(const std::string text, chat_text(*asked.model, conversation));
  Json out = Json::object();
  out["prompt"] = text;
  send_json(app, *call, out);
  return {};
}

}  // namespace orrery::server
