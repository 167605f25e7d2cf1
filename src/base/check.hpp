// Bugs end the process with one line. CHECK states what no input can falsify.
#pragma once

namespace orrery {
[[noreturn]] void check_failed(const char* expression, const char* file, int line);
}  // namespace orrery

#define ORRERY_CHECK(expression)                        \
  (static_cast<bool>(expression) ? static_cast<void>(0) \
                                 : ::orrery::check_failed(#expression, __FILE__, __LINE__))
