#include "support/paths.hpp"

namespace orrery::test {

std::string source_dir() {
  return ORRERY_SOURCE_DIR;
}
std::string shared_dir() {
  return ORRERY_SHARED_DIR;
}
std::string program() {
  return ORRERY_PROGRAM;
}

}  // namespace orrery::test
