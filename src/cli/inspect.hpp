// The parts of `orrery inspect`, one file each.
#pragma once

#include "cli/app.hpp"

namespace orrery::cli {

void add_inspect_plan(CLI::App& inspect, Action& action);
void add_inspect_tokens(CLI::App& inspect, Action& action);
void add_inspect_template(CLI::App& inspect, Action& action);

}  // namespace orrery::cli
