// A row of a catalogue of bad files.
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace orrery::test {

struct HostileFile {
  const char* name;
  const char* kind;  // of the error; "" when the file is allowed
  std::function<std::string()> make;
};

inline void PrintTo(const HostileFile& row, std::ostream* out) {
  *out << row.name;
}

}  // namespace orrery::test
