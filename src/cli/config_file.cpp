#include "cli/config_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "base/edit_distance.hpp"
#include "cli/model_arg.hpp"
#include "cli/terminal.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::json;

// What TOML has beyond JSON, dates and times, becomes null, which is no setting's value.
Json to_json(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  if (node.is_table()) return Json::object();
  const auto* list = node.as_array();
  if (list == nullptr) return nullptr;
  Json out = Json::array();
  for (const toml::node& item : *list) out.push_back(item.is_array() ? Json() : to_json(item));
  return out;
}

Result<Json> parse(const std::string& path, const std::string& text) {
  if (path.ends_with(".toml")) {
    const toml::parse_result parsed = toml::parse(text, path);
    if (!parsed) {
      const auto& error = parsed.error();
      return fail("E_CONFIG", fmt::format("{}: line {}: {}", path, error.source().begin.line,
                                          printable(error.description())));
    }
    Json out = Json::object();
    for (const auto& [key, value] : parsed.table()) out[std::string(key.str())] = to_json(value);
    return out;
  }
  Json parsed = Json::parse(text, nullptr, false);
  if (!parsed.is_object()) return fail("E_CONFIG", path + " is no JSON object");
  return parsed;
}

Result<std::string> scalar(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() || value.is_number()) return value.dump();
  return fail("E_CONFIG", "must be a text, a number, true or false, or a list of these");
}

std::unexpected<Error> unknown_key(const std::string& path, const std::string& key,
                                   const std::vector<std::string>& known) {
  const std::string_view wanted = std::string_view(key).substr(0, 64);
  const std::string* nearest = nullptr;
  std::size_t least = SIZE_MAX;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(wanted, name);
    if (distance < least) nearest = &name;
    least = std::min(least, distance);
  }
  const std::string hint =
      nearest == nullptr ? "" : fmt::format("; the nearest is \"{}\"", *nearest);
  return fail("E_CONFIG",
              fmt::format("{}: there is no setting \"{}\"{}", path, printable(wanted), hint));
}

}  // namespace

Result<Config> read_config(const std::string& path, const std::vector<std::string>& known) {
  ORRERY_TRY(const std::string text, read_text(path));
  ORRERY_TRY(const Json parsed, parse(path, text));
  Config config;
  for (const auto& [key, value] : parsed.items()) {
    if (std::ranges::find(known, key) == known.end()) return unknown_key(path, key, known);
    std::vector<std::string>& words = config[key];
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& item : list) {
      auto word = scalar(item);
      if (!word) return fail("E_CONFIG", fmt::format("{}: {} {}", path, key, word.error().message));
      words.push_back(std::move(*word));
    }
  }
  return config;
}

}  // namespace orrery::cli
