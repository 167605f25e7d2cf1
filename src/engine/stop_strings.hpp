// Text on its way out, held back as long as it may still turn out to be a stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::engine {

class StopStrings {
 public:
  // Empty strings stop nothing.
  explicit StopStrings(std::vector<std::string> strings);

  // Adds text; the part that no stop string can claim any more is appended to `out`. Once a stop
  // string is complete, only the text before it comes out and found() is true.
  void push(std::string_view text, std::string& out);
  // What is still held, when the text ends by itself.
  void finish(std::string& out);
  bool found() const { return found_; }
  // The one that was completed; empty without one.
  std::string_view found_string() const { return found_string_; }

 private:
  std::vector<std::string> strings_;
  std::string held_;
  std::string found_string_;
  bool found_ = false;
};

}  // namespace orrery::engine
