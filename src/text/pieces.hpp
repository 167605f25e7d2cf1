// The bytes that each token stands for in a running text.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/normalizer.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {

// Made a few hundred at a time, when one of them is asked for: an answer needs few of them, and all
// of a large vocabulary take longer than its first token may. Any number of threads.
class Pieces {
 public:
  // `normalizer` is the spec's: added tokens that are sought in normalised text stand for what
  // they swallow there. The spec outlives the pieces.
  Pieces(const TokenizerSpec& spec, const Normalizer& normalizer);
  std::string_view operator[](TokenId id) const;

 private:
  struct Chunk {
    std::once_flag made;
    std::string bytes;
    std::vector<std::uint32_t> starts;  // one more than tokens
  };
  void make(std::size_t index) const;
  void append(std::size_t id, std::string& out) const;

  const TokenizerSpec& spec_;
  std::unordered_map<TokenId, std::string> normalized_;
  std::unique_ptr<Chunk[]> chunks_;
};

}  // namespace orrery::text
