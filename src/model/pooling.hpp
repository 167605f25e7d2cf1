// How an embedding model makes one vector of a text's rows.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "model/hparams.hpp"
#include "model/source.hpp"
#include "model/tensors.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::model {

// GGUF has no key for the longest text where it is shorter than the context; this one is ours.
inline constexpr std::string_view kTextTokensKey = "orrery.text_tokens";

// GGUF's number of a model's pooling (pooling_type).
std::uint32_t gguf_pooling(const Hparams& hparams);

// Reads pooling, dense layers and the longest text from GGUF's keys and tensors, or from the
// modules of Sentence Transformers. Where a file says nothing: the last row of a causal model, the
// mean of others. A head that ranks (rank_head.hpp) decides for itself. E_HPARAM for what is not
// supported, E_TENSOR for what is missing.
Status read_pooling(const storage::Checkpoint& checkpoint, const Source& source,
                    const Tensors& tensors, Hparams& hparams);

}  // namespace orrery::model
