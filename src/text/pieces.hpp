// The bytes that each token stands for in a running text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {

class Pieces {
 public:
  // `normalizer` is the spec's: added tokens that are sought in normalised text stand for what
  // they swallow there.
  Pieces(const TokenizerSpec& spec, const Normalizer& normalizer);
  std::string_view operator[](TokenId id) const {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(bytes_).substr(starts_[i], starts_[i + 1] - starts_[i]);
  }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> starts_;  // [n_vocab + 1]
};

}  // namespace orrery::text
