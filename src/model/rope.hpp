// Rotary position embedding: frequencies and their scaling beyond the trained context.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "model/hparams.hpp"
#include "model/source.hpp"

namespace orrery::model {

// Reads rope_theta, rope_dim and the scaling from the keys that all families share; head_dim and
// context_length are known. E_HPARAM.
Status read_rope(const Source& source, Hparams& hparams, float default_theta = 10000.0F);

// Which layers rotate: config.json's list, or all but every `period`-th. E_HPARAM.
Status read_rope_layers(const Source& source, std::uint32_t period, Hparams& hparams);

// The frequencies of rope_dim / 2 pairs for sequences of up to context_length tokens.
std::vector<float> rope_frequencies(const RopeScaling& scaling, float theta, std::uint32_t rope_dim,
                                    std::uint32_t context_length);

// YaRN's factor of attention for a stretch: 0.1 mscale ln(factor) + 1.
double yarn_mscale(double factor, double mscale);

// The factor of cos and sin.
float rope_mscale(const RopeScaling& scaling, std::uint32_t trained_context);

}  // namespace orrery::model
