// Follows a JSON text character by character: where it is, whether it can still become one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::text {

class JsonScan {
 public:
  enum class State : std::uint8_t { value, first_value, first_key, key, colon, after, text, atom };
  static constexpr std::size_t kMaxDepth = 64;

  // False when no JSON text begins like this; at most kMaxDepth levels.
  bool push(char c);
  State state() const { return state_; }
  std::size_t depth() const { return open_.size(); }
  // The outermost object or list has been closed.
  bool is_done() const { return open_.empty() && state_ == State::after; }

 private:
  bool begin_value(char c);
  bool end_container(char c);
  bool in_text(char c);
  bool after_value(char c);

  State state_ = State::value;
  std::string open_;  // '{' and '['
  std::string atom_;  // a number or word
  bool is_key_ = false;
  int escape_ = 0;  // 1: behind a backslash; 2 to 5: hexadecimal digits to come, and 1
};

}  // namespace orrery::text
