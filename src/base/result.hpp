// Errors as values. A file, a user or a network can cause an Error; a bug is a CHECK (check.hpp).
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace orrery {

// `kind` is a static identifier of the class of fault, printed as error[E_TRUNC]: it is what tests
// and scripts compare. `message` is one sentence: what was found, where, and what to do.
struct Error {
  std::string_view kind;
  std::string message;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

[[nodiscard]] inline std::unexpected<Error> fail(std::string_view kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message)});
}

// Puts "context: " before the message of an error that came from below.
[[nodiscard]] inline std::unexpected<Error> fail_in(std::string_view context, Error error) {
  error.message = std::string(context) + ": " + error.message;
  return std::unexpected(std::move(error));
}

}  // namespace orrery

#define ORRERY_CONCAT_(a, b) a##b
#define ORRERY_CONCAT(a, b) ORRERY_CONCAT_(a, b)

// ORRERY_TRY(auto x, expression): x is the value, or the enclosing function returns the error.
#define ORRERY_TRY(declaration, expression) \
  ORRERY_TRY_(ORRERY_CONCAT(orrery_try_, __LINE__), declaration, expression)
#define ORRERY_TRY_(temporary, declaration, expression)   \
  auto temporary = (expression);                          \
  if (!temporary) [[unlikely]]                            \
    return std::unexpected(std::move(temporary).error()); \
  declaration = std::move(*temporary)

// ORRERY_TRY_VOID(expression): the enclosing function returns the error of a Status, if any.
#define ORRERY_TRY_VOID(expression)                             \
  do {                                                          \
    auto orrery_status = (expression);                          \
    if (!orrery_status) [[unlikely]]                            \
      return std::unexpected(std::move(orrery_status).error()); \
  } while (false)
