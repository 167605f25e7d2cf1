// What Sentence Transformers puts behind a transformer to make the vector of a text: modules.json
// names a folder for each step.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::storage {

// The steps of modules.json in order, the transformer itself left out; their configurations are
// still to be read. E_MODULES: no list of steps, or a folder that is not right here.
Result<std::vector<SentenceModule>> parse_sentence_modules(std::string_view text,
                                                           std::string_view label);

}  // namespace orrery::storage
