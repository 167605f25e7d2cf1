#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace orrery {

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "bug: %s:%d: check failed: %s\n", file, line, expression);
  std::abort();
}

}  // namespace orrery
