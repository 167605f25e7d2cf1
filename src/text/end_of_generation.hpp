// Which tokens end a turn: files name one or two, models use more, known by their text.
#pragma once

#include "text/tokenizer_spec.hpp"

namespace orrery::text {

// Completes spec.special.end_of_generation by eos and by the control and user-defined tokens whose
// texts are known to end a turn; these become control tokens, so that no text yields them.
void find_end_of_generation(TokenizerSpec& spec);

}  // namespace orrery::text
