// orrery pull: a model file from a Hugging Face repository or an address into the cache.
#pragma once

#include <string>

#include "base/result.hpp"

namespace orrery::cli {

// Errors: E_NOMODEL for a name that says nowhere, those of net::download, E_CHECKSUM.
Status pull_model(const std::string& name);

}  // namespace orrery::cli
