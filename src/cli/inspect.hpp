// The parts of `orrery inspect`, one file each.
#pragma once

#include "cli/options.hpp"

namespace orrery::cli {

void add_inspect_memory(Command inspect);
void add_inspect_plan(Command inspect);
void add_inspect_tokens(Command inspect);
void add_inspect_template(Command inspect);

}  // namespace orrery::cli
