// The parameters that Gemma 2 and 3 read alike.
#pragma once

#include "model/family.hpp"

namespace orrery::model {

struct GemmaRule {
  std::uint32_t layers_27b = 0;  // of the size whose scores are not scaled by the size of a head
  float attention_softcap = 0;   // where a GGUF file does not say; 0: none
  float logit_softcap = 0;
};

// Activation, the scales of embedding and attention, the offset of the norms, the softcaps.
Status read_gemma(const Source& source, const GemmaRule& rule, Hparams& h);

}  // namespace orrery::model
