// The parameters that the Gemmas read alike.
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

// The rotary base of window layers.
Status read_window_theta(const Source& source, Hparams& h);

// Gemma 3n and 4: layers that share keys and values, once the windows are known; the inputs of
// every layer, whose table tells how many tokens have them.
Status read_sharing(const Source& source, Hparams& h);
Status read_per_layer_inputs(const Source& source, Hparams& h);
Status settle_per_layer_inputs(const Tensors& tensors, Hparams& h);

}  // namespace orrery::model
