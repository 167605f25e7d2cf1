// Where a text may go on for long without the grammar taking notice (the inside of a string), the
// tokens of whole subtrees of the vocabulary are allowed at once. This finds such states.
#pragma once

#include <cstdint>

#include "text/byte_classes.hpp"
#include "text/grammar_machine.hpp"

namespace orrery::text {

struct GrammarLoop {
  static constexpr std::uint32_t kEndless = 0xFFFFFFFF;
  // Characters of these classes lead back to the state, or to one that only counts further: then
  // so many of them may follow one another, and the state behind the first has the same loop with
  // one less. More readings may join on the way, as where a text has become long enough to end.
  ByteClasses classes = 0;
  std::uint32_t characters = kEndless;
};

GrammarLoop find_loop(GrammarMachine& machine, StateId state);

}  // namespace orrery::text
