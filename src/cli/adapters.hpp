// --lora of the commands that run a model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/options.hpp"
#include "engine/model.hpp"
#include "engine/session.hpp"

namespace orrery::cli {

// FILE or FILE:SCALE, as typed.
using AdapterFiles = std::vector<std::string>;

struct AdapterFile {
  std::string path;
  float scale = 1.0F;
};
// What follows the last colon is a scale if it is a number.
AdapterFile parse_adapter_file(const std::string& text);

void add_adapter_option(Command command, AdapterFiles& files);
// A session of the model with these adapters.
Result<std::unique_ptr<engine::Session>> open_session(const engine::Model& model,
                                                      const AdapterFiles& files);

}  // namespace orrery::cli
