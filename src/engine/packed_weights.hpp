// Weights laid out anew in memory (tensor/packed.hpp), for models that are read from a cache: there
// unpacking, not reading, is what a product of few rows waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "base/result.hpp"
#include "engine/executor.hpp"
#include "memory/region.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::engine {

class PackedWeights {
 public:
  // The plan over packed copies of what it multiplies, where a type and shape have that layout;
  // fill() makes them. The first plan decides what is packed; others that name the same rows share
  // it. E_MEMORY.
  Result<BoundPlan> bind(BoundPlan bound);
  // Once, before the first run and after all else was read that compiling reads: the file's pages
  // are let go of as they are copied, so that memory holds each weight once.
  void fill(const storage::Checkpoint& files, int threads);
  // Lets go of the file's pages again: compiling a plan reads norms that lie between them.
  void release(const storage::Checkpoint& files) const;
  std::span<const std::byte> bytes() const { return {region_.data(), region_.size()}; }
  // Whether this part of a file is packed.
  bool holds(std::span<const std::byte> part) const;

 private:
  struct Item {
    plan::Weight weight;
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
    std::uint64_t panel_bytes() const { return kPackedRows * row_bytes(weight.dtype, weight.cols); }
    std::uint64_t bytes() const { return weight.rows / kPackedRows * panel_bytes(); }
  };
  struct Copying;
  using Key = std::pair<const std::byte*, std::uint32_t>;  // first byte in the file, rows

  // Fills items_ and gives the bytes they take.
  std::uint64_t choose(const BoundPlan& bound);

  memory::Region region_;
  std::map<Key, Item> items_;
};

}  // namespace orrery::engine
