#include "server/api_error.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace orrery::server {
namespace {

struct Mapping {
  std::string_view kind;
  int status;
  std::string_view code;
};

// Kinds that a client causes; every other one is the server's own fault.
constexpr Mapping kMappings[] = {
    {"E_CONTEXT", 400, "context_length_exceeded"},
    {"E_TOKENS", 400, "invalid_prompt"},
    {"E_PARAM", 400, "invalid_value"},
    {"E_RANGE", 400, "invalid_value"},
    {"E_RENDER", 400, "invalid_messages"},
    {"E_JSON", 400, "invalid_json"},
    {"E_SCHEMA", 400, "invalid_schema"},
    {"E_GRAMMAR", 400, "invalid_grammar"},
    {"E_TOOLS", 400, "invalid_tools"},
    {"E_LIMIT", 400, "limit_exceeded"},
    {"E_NOTEMPLATE", 501, "no_chat_template"},
    {"E_TEMPLATE", 501, "no_chat_template"},
    {"E_ENCODER", 400, "model_not_generative"},
    {"E_RANKS", 400, "model_not_embedding"},
    {"E_NORANK", 501, "not_supported"},
    {"E_UNSUPPORTED", 501, "not_supported"},
    {"E_BUSY", 503, "queue_full"},
    {"E_STOPPED", 503, "draining"},
    {"E_MEMORY", 503, "out_of_memory"},
    {"E_CHANGED", 503, "model_faulted"},
};

constexpr std::size_t kMaxMessage = 2048;

Json openai_error(const ApiError& error) {
  Json body = Json::object();
  body["message"] = error.message;
  const bool long_prompt = error.code == "context_length_exceeded" && error.context > 0;
  body["type"] =
      long_prompt ? std::string_view("exceed_context_size_error") : error_type(error.status);
  body["param"] = error.param.empty() ? Json(nullptr) : Json(error.param);
  body["code"] = error.code.empty() ? Json(nullptr) : Json(error.code);
  if (long_prompt) {
    body["n_prompt_tokens"] = error.prompt_tokens;
    body["n_ctx"] = error.context;
  }
  Json out = Json::object();
  out["error"] = std::move(body);
  return out;
}

std::string_view anthropic_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 413) return "request_too_large";
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "overloaded_error";
  return status < 500 ? "invalid_request_error" : "api_error";
}

}  // namespace

ApiError api_error(const Error& error) {
  const auto* const found = std::ranges::find(kMappings, error.kind, &Mapping::kind);
  if (found == std::end(kMappings)) {
    return {500, "the server could not complete the request", "", "internal_error"};
  }
  ApiError out{found->status, error.message.substr(0, kMaxMessage), "", std::string(found->code)};
  if (found->status == 503) out.retry_after = 1;
  return out;
}

std::string_view error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  if (status == 501) return "not_supported_error";
  if (status == 503) return "unavailable_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

Json error_object(Dialect dialect, const ApiError& error) {
  if (dialect == Dialect::openai) return openai_error(error);
  Json out = Json::object();
  if (dialect == Dialect::ollama) {
    out["error"] = error.message;
    return out;
  }
  out["type"] = "error";
  out["error"] = Json::object();
  out["error"]["type"] = anthropic_type(error.status);
  out["error"]["message"] = error.message;
  return out;
}

std::string error_event(Dialect dialect, std::string_view path, const ApiError& error) {
  if (dialect == Dialect::ollama) return to_text(error_object(dialect, error)) + "\n";
  if (path == "/v1/responses") {
    Json out = openai_error(error)["error"];
    out["type"] = "error";
    out["sequence_number"] = 0;
    return "event: error\ndata: " + to_text(out) + "\n\n";
  }
  const std::string data = "data: " + to_text(error_object(dialect, error)) + "\n\n";
  if (dialect == Dialect::anthropic) return "event: error\n" + data;
  // llama.cpp's streams end with their last event.
  const bool native = path == "/completion" || path == "/completions" || path == "/infill";
  return native ? data : data + "data: [DONE]\n\n";
}

net::HttpReply error_reply(Dialect dialect, const ApiError& error) {
  net::HttpReply reply{error.status, "application/json", {}, to_text(error_object(dialect, error))};
  if (error.retry_after > 0) {
    reply.headers.push_back({"Retry-After", std::to_string(error.retry_after)});
  }
  if (error.status == 401) reply.headers.push_back({"WWW-Authenticate", "Bearer"});
  return reply;
}

}  // namespace orrery::server
