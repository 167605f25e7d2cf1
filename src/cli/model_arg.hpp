// How commands turn what the user typed into files and models.
#pragma once

#include <string>

#include "base/result.hpp"

namespace orrery::cli {

// A path, folder or short name -> the path of the model; "" is the default model.
Result<std::string> locate_model(const std::string& name);
// The text of a file; "-" is stdin.
Result<std::string> read_text(const std::string& path);
// ORRERY_ISA, or "".
std::string forced_isa();

}  // namespace orrery::cli
