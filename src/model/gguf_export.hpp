// From safetensors to GGUF: names, parameters and the order of rows.
#pragma once

#include <memory>
#include <string_view>

#include "model/gguf_image.hpp"

namespace orrery::model {

// Whatever is written is read again, as a GGUF file's parameters would be, and compared with those
// of the source: E_EXPORT names the first that does not come back.
Result<GgufImage> export_gguf(std::shared_ptr<const storage::Checkpoint> checkpoint);

// Whether files of the family are known to say the same in both formats, but for the order of
// rotary pairs. Others may store transformed numbers under the same names.
bool same_in_both_formats(std::string_view family);

}  // namespace orrery::model
