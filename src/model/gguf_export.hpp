// From safetensors to GGUF: names, parameters and the order of rows.
#pragma once

#include <memory>

#include "model/gguf_image.hpp"

namespace orrery::model {

// Whatever is written is read again, as a GGUF file's parameters would be, and compared with those
// of the source: E_EXPORT names the first that does not come back.
Result<GgufImage> export_gguf(std::shared_ptr<const storage::Checkpoint> checkpoint);

}  // namespace orrery::model
