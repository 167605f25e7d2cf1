// Measures importance: a model reads a text, and what enters its products is summed.
#pragma once

#include "base/result.hpp"
#include "engine/eval.hpp"
#include "engine/importance.hpp"

namespace orrery::engine {

// Over every row of every window of the text; of the rows that enter the vocabulary head, a few of
// each window.
Result<Importance> collect_importance(Session& session, const EvalText& text,
                                      const EvalProgress& progress = {});

}  // namespace orrery::engine
