// Passes: functions Plan -> Plan, each with golden-text tests.
#pragma once

#include <functional>
#include <string>

#include "plan/plan.hpp"

namespace orrery::plan {

// True when a backend runs this step as it is.
using Supports = std::function<bool(const Plan&, const Step&)>;

// Folds quantize_rows into the step that makes its input (norm, attention, matmul with glu or
// activation, mul, select_rows) when nobody else reads the f32 rows and the backend supports the
// producer with that output form. A dense Llama layer becomes 8 steps.
Plan fuse(Plan plan, const Supports& supports);

// Drops taps (tests keep them).
Plan drop_taps(Plan plan);

// Gives every buffer its offset: first fit over live ranges, 64-byte aligned; buffers that are live
// at once never overlap. Sets scratch_bytes. With `keep_all` nothing is reused (for taps).
Plan place(Plan plan, bool keep_all);

// One line per step: op, class, inputs, outputs with form, weights with type and bytes, offsets.
std::string to_text(const Plan& plan);

// Bytes of weights that a run of the plan can read, each once (embed rows are not counted; of
// experts all).
std::uint64_t weight_bytes(const Plan& plan);
std::uint64_t step_weight_bytes(const Plan& plan, const Step& step);

}  // namespace orrery::plan
