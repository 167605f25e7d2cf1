// Weights laid out anew in memory (tensor/packed.hpp), for models that are read from a cache: there
// unpacking, not reading, is what a product of few rows waits for. Matrices of types without that
// layout are copied as they are, so that no token reads the file, which would map again the huge
// pages around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "engine/executor.hpp"
#include "memory/shared_surface.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::engine {

class PackedWeights {
 public:
  // The plan over copies of what it multiplies, packed where a type and shape have that layout;
  // fill() makes them. The first plan decides what is packed; others that name the same rows share
  // it. All models of the same files share one memory: of the process, and where it can be sealed
  // of all processes of the user. E_MEMORY.
  Result<BoundPlan> bind(BoundPlan bound, const storage::Checkpoint& files);
  // Once, before the first run and after all else was read that compiling reads: the file's pages
  // are let go of as they are copied, so that memory holds each weight once. Nothing is copied
  // where another model has done it. `must_seal`: see SharedSurface::ready(), whose errors these
  // are, and E_CHANGED.
  Status fill(const storage::Checkpoint& files, int threads, bool must_seal);
  // Lets go of the file's pages again: compiling a plan reads norms that lie between them.
  void release(const storage::Checkpoint& files) const;
  std::span<const std::byte> bytes() const {
    return memory_ == nullptr ? std::span<const std::byte>() : memory_->bytes();
  }
  // After fill(): what the memory is, or whose.
  std::string how() const { return memory_ == nullptr ? "" : memory_->how(); }
  // Before fill(): somebody else has made them, or is about to.
  bool is_made() const { return memory_ != nullptr && memory_->is_made(); }
  // Whether this part of a file has a copy.
  bool holds(std::span<const std::byte> part) const;

 private:
  struct Item {
    plan::Weight weight;
    const std::byte* source = nullptr;
    std::uint64_t offset = 0;  // of its copy
    bool packed = false;
    // What is copied as a whole: a panel, or a row of what is not packed.
    std::uint64_t unit_bytes() const {
      return (packed ? kPackedRows : 1) * row_bytes(weight.dtype, weight.cols);
    }
    std::uint64_t bytes() const { return weight.rows * row_bytes(weight.dtype, weight.cols); }
    void copy_unit(std::uint64_t at, std::byte* to) const;  // the one that begins `at` bytes on
  };
  struct Copying;
  using Key = std::pair<const std::byte*, std::uint32_t>;  // first byte in the file, rows

  std::byte* target(const Item& item) const { return memory_->data() + item.offset; }
  void choose(const BoundPlan& bound);
  Status map(const storage::Checkpoint& files);
  void copy(const storage::Checkpoint& files, int threads);
  bool is_right() const;

  std::shared_ptr<memory::SharedSurface> memory_;
  std::map<Key, Item> items_;
};

}  // namespace orrery::engine
