// What the system refused: shared by the files of SystemIo.
#pragma once

#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace orrery::storage {

// `code` is an errno; `action` completes "cannot ...".
std::unexpected<Error> system_error(std::string_view path, std::string_view action, int code);

}  // namespace orrery::storage
