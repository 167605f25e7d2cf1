// The small JSON files beside a model, as trees that cannot grow out of bounds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace orrery::storage {

// Of one file, its vocabulary apart: a tree takes up to 160 bytes for a value of two.
inline constexpr std::uint64_t kMaxJsonValues = 100'000;

// Nothing when the text is no JSON object, or one of more than kMaxJsonDepth levels or
// kMaxJsonValues values: that is found before a tree is built.
std::optional<nlohmann::json> parse_config_json(std::string_view text);

}  // namespace orrery::storage
