// Arguments of a call that do not stand there as JSON, turned into it as they come.
#pragma once

#include <memory>
#include <string>

#include "text/reply.hpp"

namespace orrery::text {

struct ToolFormat;

class ArgumentReader {
 public:
  enum class Result : std::uint8_t { more, done, bad };

  virtual ~ArgumentReader() = default;
  // Adds what is known by now to `json`. When all is read it has got one JSON object.
  virtual Result push(char c, std::string& json) = 0;
};

// Null where the format's arguments are JSON. `texts` says which arguments of `tool` are texts
// whatever they look like, and outlives the reader.
std::unique_ptr<ArgumentReader> make_argument_reader(const ToolFormat& format, std::string tool,
                                                     const TextArguments& texts);

}  // namespace orrery::text
