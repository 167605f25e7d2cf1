#include "storage/sentence_modules.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "storage/config_json.hpp"
#include "storage/describe.hpp"

namespace orrery::storage {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxModules = 16;

std::string text_of(const json& module, const char* key) {
  const auto found = module.find(key);
  return found != module.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

}  // namespace

Result<std::vector<SentenceModule>> parse_sentence_modules(std::string_view text,
                                                           std::string_view label) {
  // The list as a member of an object: the bounds are those of every other small file.
  const auto parsed = parse_config_json(fmt::format("{{\"modules\":{}}}", text));
  if (!parsed || parsed->size() != 1 || !(*parsed)["modules"].is_array()) {
    return fail("E_MODULES", fmt::format("{}: is no JSON list of a sensible size", label));
  }
  const json& list = (*parsed)["modules"];
  if (list.size() > kMaxModules) {
    return fail("E_MODULES", fmt::format("{}: has {} steps, at most {} are allowed", label,
                                         list.size(), kMaxModules));
  }
  std::vector<SentenceModule> modules;
  for (const json& item : list) {
    if (!item.is_object()) {
      return fail("E_MODULES", fmt::format("{}: a step is no JSON object", label));
    }
    SentenceModule module;
    // "sentence_transformers.models.Pooling"
    const std::string type = text_of(item, "type");
    module.kind = type.substr(type.rfind('.') + 1);
    if (module.kind == "Transformer") continue;
    module.folder = text_of(item, "path");
    if (!is_plain_name(module.folder)) {
      return fail("E_MODULES",
                  fmt::format("{}: a step is said to be in {}, only names of folders beside the "
                              "file are allowed",
                              label, in_quotes(module.folder)));
    }
    modules.push_back(std::move(module));
  }
  return modules;
}

}  // namespace orrery::storage
