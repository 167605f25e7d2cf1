#include <array>

#include "model/family.hpp"

namespace orrery::model {

extern const Family kDeepseek, kGemma2, kGemma3, kGlm4, kGpt2, kGranite, kLlama, kOlmo2, kPhi3,
    kQwen2, kQwen3;

std::span<const Family* const> families() {
  static constexpr std::array<const Family*, 11> kFamilies = {
      &kDeepseek, &kGemma2, &kGemma3, &kGlm4,  &kGpt2, &kGranite,
      &kLlama,    &kOlmo2,  &kPhi3,   &kQwen2, &kQwen3};
  return kFamilies;
}

}  // namespace orrery::model
