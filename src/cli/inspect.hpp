// The parts of `orrery inspect`, one file each.
#pragma once

#include <string>

#include "base/result.hpp"
#include "cli/options.hpp"

namespace orrery::cli {

void add_inspect_memory(Command inspect);
void add_inspect_plan(Command inspect);
void add_inspect_tokens(Command inspect);
void add_inspect_template(Command inspect);
Status inspect_adapter(const std::string& path);

}  // namespace orrery::cli
