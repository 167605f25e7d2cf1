// Io::create on the real file system.
#pragma once

#include <memory>
#include <string>

#include "storage/io.hpp"

namespace orrery::storage {

Result<std::unique_ptr<NewFile>> create_system_file(const std::string& path);

}  // namespace orrery::storage
