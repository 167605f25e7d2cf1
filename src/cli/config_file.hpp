// The configuration file of `orrery serve`: settings by name, in TOML or JSON.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace orrery::cli {

// The values of each key as texts; a list has several, anything else one.
using Config = std::map<std::string, std::vector<std::string>, std::less<>>;

// TOML where the name ends in .toml, else JSON. E_CONFIG, with the line where it is known: no such
// format, a key that is none of `known` (the nearest of which is named), or a value that is no
// text, number, truth value or list of these.
Result<Config> read_config(const std::string& path, const std::vector<std::string>& known);

}  // namespace orrery::cli
