// The parameters of a model as GGUF's keys, by the names that llama.cpp reads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/gguf_image.hpp"
#include "model/hparams.hpp"
#include "model/model.hpp"

namespace orrery::model {

// Equal but for the rounding of a number on its way through a key.
bool is_near(float a, float b);

class ParameterKeys {
 public:
  // `architecture` is one of the family's names in GGUF and lives as long as the image.
  ParameterKeys(const LoadedModel& source, std::string_view architecture, GgufImage& image)
      : source_(source), h_(source.hparams()), architecture_(architecture), image_(image) {}

  // What readers look for in every file of the architecture.
  void add_known();
  // Families know much by themselves: a key is added only where the parameter would not come back
  // without it. True when one was. `back`: what a reader of the file finds.
  bool add_missing(const Hparams& back);

 private:
  void add(std::string_view key, storage::MetaValue value);
  void add_number(std::string_view key, std::uint32_t value) { add(key, std::uint64_t{value}); }
  void add_float(std::string_view key, float value) { add(key, double{value}); }
  void add_numbers(std::string_view key, const std::vector<std::uint32_t>& values);
  void add_flags(std::string_view key, const std::vector<bool>& values);

  void add_heads();
  void add_latent();
  void add_heads_of_layers();
  void add_experts();
  void add_expert_layers();
  void add_state();
  void add_layer_inputs();
  void add_rope();
  void add_rope_scaling();
  void add_rope_factors();
  void add_factors(std::string_view tensor, std::vector<float> factors);
  void add_pooling();
  void add_missing_scales(const Hparams& back);
  void add_missing_experts(const Experts& back);
  void add_missing_windows(const Hparams& back);
  void add_window_layers();
  std::uint32_t said_window() const;

  const LoadedModel& source_;
  const Hparams& h_;
  std::string_view architecture_;
  GgufImage& image_;
};

}  // namespace orrery::model
