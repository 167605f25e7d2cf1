// Reads one call {"name": ..., "arguments": {...}} as it comes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/json_scan.hpp"
#include "text/reply.hpp"

namespace orrery::text {

class ToolCallReader {
 public:
  enum class Result : std::uint8_t { more, done, bad };

  // `tool` is the call's number. A strict reader gives up at the first key that calls do not have.
  ToolCallReader(std::uint32_t tool, bool is_strict) : tool_(tool), is_strict_(is_strict) {}
  // The name is known already and all that comes is the arguments; tool_begin goes out.
  void begin_named(std::string name, std::vector<ReplyPart>& out);

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
  bool is_strict_;
  JsonScan scan_;
  std::string raw_;
  std::size_t key_begin_ = 0, value_begin_ = 0;
  std::string key_, name_, arguments_, piece_;
  bool is_named_ = false;
  bool has_begun_ = false;
  bool is_streaming_ = false;
};

}  // namespace orrery::text
