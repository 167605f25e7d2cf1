// What a file of an architecture that no family has comes nearest to, and what it would still need.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::model {

// The family whose forward pass lacks or leaves the fewest tensors of the file, and among those the
// one whose name is most alike.
struct Nearest {
  std::string architecture;  // of the file
  std::string family;
  std::string parameters;  // the first parameter that the family could not read, or empty
  // Names with N for numbers: "blk.N.attn_norm.weight".
  std::vector<std::string> missing;  // the family asks for them
  std::vector<std::string> unknown;  // the family has no use for them
};

// E_ARCH when the file does not say its architecture.
Result<Nearest> nearest_family(const std::shared_ptr<const storage::Checkpoint>& checkpoint);

// One sentence of it.
std::string to_sentence(const Nearest& nearest);

}  // namespace orrery::model
