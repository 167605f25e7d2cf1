// The text on which a model is compared with another one.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "engine/eval.hpp"
#include "engine/model.hpp"

namespace orrery::cli {

// Windows of a file at `context` tokens (0: 512); with an empty name of a short text of our own, at
// 128. The model's context holds at least a window.
std::uint32_t eval_context(const std::string& file, std::uint32_t context);
Result<engine::EvalText> read_eval_text(const std::string& file, std::uint32_t context,
                                        const engine::Model& model);

}  // namespace orrery::cli
