// Which weights may lie packed in a file (tensor/packed.hpp), where nothing else has them as rows.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "base/result.hpp"
#include "plan/plan.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::engine {

// Names of the matrices that products alone read (and the lookup of embeddings), in whole panels.
// By GGUF's names, whatever the format of the files; their types are the caller's business. Errors:
// those of load_model.
Result<std::set<std::string>> find_packable(std::shared_ptr<const storage::Checkpoint> files);
// E_IMAGE where a packed weight is read by a step that cannot.
Status check_packed(const plan::Plan& plan);

}  // namespace orrery::engine
