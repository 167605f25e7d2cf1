// Event reader for untrusted JSON: strict, with bounded depth, and no tree in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace orrery::storage {

// What a value is, for handlers that want one of a few kinds.
struct JsonScalar {
  enum class Kind { null, boolean, natural, negative, real, string } kind = Kind::null;
  std::uint64_t natural = 0;
  std::string_view string = {};  // valid during the call
};

// Derived classes get the events; returning false (through `refuse`) ends the parse.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  // `depth` counts the open containers around the event.
  virtual bool on_scalar(const JsonScalar& value, std::uint32_t depth) = 0;
  virtual bool on_key(std::string_view key, std::uint32_t depth) = 0;
  virtual bool on_open(bool is_object, std::uint32_t depth) = 0;
  virtual bool on_close(std::uint32_t depth) = 0;

  // Parses the whole text: E_JSON where it is no JSON (RFC 8259, valid UTF-8) or too deep, or what
  // the handler refused with. The byte in errors counts from `first_byte`.
  Status parse(std::string_view text, std::string_view label, std::uint64_t first_byte);

 protected:
  bool refuse(std::string_view kind, std::string message) {
    error_ = Error{kind, std::move(message)};
    return false;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace orrery::storage
