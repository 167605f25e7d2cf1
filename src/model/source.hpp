// Where parameters come from: GGUF metadata or config.json, behind typed getters with bounds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::model {

// The name of one parameter in both formats; an empty name means the format does not have it.
// GGUF names lack the architecture's prefix ("block_count"), config.json names may be paths
// ("rope_parameters/factor").
struct Key {
  std::string_view gguf, config;
};

using Scalar = std::variant<bool, std::int64_t, double, std::string>;
// One value or a list of them; null in JSON counts as absent.
struct SourceValue {
  bool is_list = false;
  std::uint64_t size = 0;     // of a list
  std::vector<Scalar> items;  // exactly one where it is no list; none of a list that is too long
};

class Source {
 public:
  virtual ~Source() = default;

  // The architecture as the file names it: "llama".
  const std::string& architecture() const { return architecture_; }
  virtual bool is_gguf() const = 0;
  bool has(Key key) const { return find(key).has_value(); }

  // All errors are E_HPARAM: the key as the file spells it, what was found and what is expected.
  // A list of `list_length` equal numbers counts as that number (GGUF's per-layer arrays).
  Result<std::uint32_t> integer(Key key, std::uint32_t low, std::uint32_t high) const;
  Result<std::uint32_t> integer_or(Key key, std::uint32_t low, std::uint32_t high,
                                   std::uint32_t fallback) const;
  // Finite and in (0, high].
  Result<float> positive(Key key, float high) const;
  Result<float> positive_or(Key key, float high, float fallback) const;
  // Finite and in [0, high].
  Result<float> from_zero_or(Key key, float high, float fallback) const;
  Result<bool> boolean_or(Key key, bool fallback) const;
  Result<std::string> text_or(Key key, std::string fallback) const;
  // Empty when absent.
  Result<std::vector<float>> floats(Key key) const;                                // finite
  Result<std::vector<float>> numbers(Key key) const;                               // maybe infinite
  Result<std::vector<std::uint32_t>> integers(Key key, std::uint32_t high) const;  // from 0
  Result<std::vector<bool>> booleans(Key key) const;  // also of integers 0 and 1
  Result<std::vector<std::string>> texts(Key key) const;

  void set_list_length(std::uint32_t n_layers) { list_length_ = n_layers; }
  // "key llama.block_count" or "config.json: num_hidden_layers".
  virtual std::string name(Key key) const = 0;

 protected:
  virtual std::optional<SourceValue> find(Key key) const = 0;
  std::unexpected<Error> wrong(Key key, const std::string& expected) const;

  std::string architecture_;

 private:
  Result<Scalar> single(Key key, const std::string& expected) const;
  // The items of a list; empty when absent.
  Result<std::vector<Scalar>> list(Key key, const std::string& expected) const;

  std::uint32_t list_length_ = 0;
};

// E_ARCH when the file does not say its architecture, E_HPARAM for a config.json that is no object.
Result<std::unique_ptr<Source>> open_source(const storage::Checkpoint& checkpoint);

// GGUF: value of a key outside of the architecture's namespace ("tokenizer.ggml.tokens"): the
// number of its items, nothing when absent or in other formats.
std::optional<std::uint64_t> list_size(const storage::Checkpoint& checkpoint, std::string_view key);

}  // namespace orrery::model
