// The head of a model that ranks: it scores a query and a document that it reads together.
#pragma once

#include "base/result.hpp"
#include "model/hparams.hpp"
#include "model/source.hpp"
#include "model/tensors.hpp"

namespace orrery::model {

// Finds the head by its tensors and makes it the model's pooling and dense layers; no head, no
// error. Sources: transformers' BertForSequenceClassification (the pooler, then `classifier`) and
// RobertaForSequenceClassification (`classifier.dense`, `classifier.out_proj`), and cls and
// cls.output of llama.cpp's GGUF files. E_HPARAM for a head that tells classes apart.
Status read_rank_head(const Source& source, const Tensors& tensors, Hparams& hparams);

}  // namespace orrery::model
