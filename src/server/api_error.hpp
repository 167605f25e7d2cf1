// What goes wrong with a request, in the terms of HTTP; each dialect writes it in its own form.
#pragma once

#include <expected>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "net/http_message.hpp"
#include "server/json.hpp"

namespace orrery::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;                             // name of the field that is wrong, or ""
  std::string code;                              // "context_length_exceeded", ..., or ""
  int retry_after = 0;                           // seconds; 0: not said
  std::uint32_t prompt_tokens = 0, context = 0;  // of a prompt that is too long
};

template <class T>
using ApiResult = std::expected<T, ApiError>;
using ApiStatus = ApiResult<void>;

[[nodiscard]] inline std::unexpected<ApiError> refuse(int status, std::string message,
                                                      std::string param = "",
                                                      std::string code = "") {
  return std::unexpected(ApiError{status, std::move(message), std::move(param), std::move(code)});
}

// Of the engine or the text module: whose fault it is decides the status. Paths of files and the
// like stay out of what a client sees.
ApiError api_error(const Error& error);

// Which form errors and streams have.
enum class Dialect { openai, anthropic, ollama };

// "invalid_request_error", ...
std::string_view error_type(int status);
Json error_object(Dialect dialect, const ApiError& error);
// As the last event of a stream of `path`.
std::string error_event(Dialect dialect, std::string_view path, const ApiError& error);
net::HttpReply error_reply(Dialect dialect, const ApiError& error);

}  // namespace orrery::server
