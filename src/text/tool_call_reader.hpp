// Reads one call {"name": ..., "arguments": {...}} as it comes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_scan.hpp"
#include "text/reply.hpp"
#include "text/tool_arguments.hpp"

namespace orrery::text {

class ToolCallReader {
 public:
  enum class Result : std::uint8_t { more, done, bad };

  enum class Keys : std::uint8_t {
    any,
    known,  // gives up at the first that calls do not have
    name,   // {"the name": {...}}
  };
  // `tool` is the call's number.
  ToolCallReader(std::uint32_t tool, Keys keys) : tool_(tool), keys_(keys) {}
  // The name is known already and all that comes is the arguments, as JSON where `arguments` is
  // null; tool_begin goes out.
  void begin_named(std::string name, std::unique_ptr<ArgumentReader> arguments,
                   std::vector<ReplyPart>& out);

  Result push(char c, std::vector<ReplyPart>& out);
  // Gives out the arguments that have come so far.
  void flush(std::vector<ReplyPart>& out);
  bool has_begun() const { return has_begun_; }

 private:
  void begin(std::vector<ReplyPart>& out);
  bool end_key();
  void end_value();
  Result end(std::vector<ReplyPart>& out);
  Result push_named(char c, std::vector<ReplyPart>& out);

  std::uint32_t tool_;
  Keys keys_;
  std::unique_ptr<ArgumentReader> reader_;
  JsonScan scan_;
  std::string raw_;
  std::size_t key_begin_ = 0, value_begin_ = 0;
  std::string key_, name_, arguments_, piece_;
  bool is_named_ = false;
  bool has_begun_ = false;
  bool is_streaming_ = false;
};

}  // namespace orrery::text
