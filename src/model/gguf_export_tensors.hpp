// The tensors of a safetensors model as GGUF has them: names, shapes, and the order of rows.
#pragma once

#include "base/result.hpp"
#include "model/gguf_image.hpp"
#include "model/hparams.hpp"
#include "model/model.hpp"

namespace orrery::model {

// Adds them all. Nothing of a matrix is copied: its rows are found one by one when they are read.
// E_EXPORT for a tensor that GGUF has no place for.
Status add_gguf_tensors(const LoadedModel& source, GgufImage& image);

// What GGUF stores in another way: q and k for adjacent pairs, norms whose 1 is added. `back`: the
// parameters that a reader of the file finds.
void convert_rows(const Hparams& source, const Hparams& back, GgufImage& image);

}  // namespace orrery::model
