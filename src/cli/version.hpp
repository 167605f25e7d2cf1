#pragma once

namespace orrery::cli {
inline constexpr const char* kVersion = "0.1.0";
}  // namespace orrery::cli
