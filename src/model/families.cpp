#include <array>

#include "model/family.hpp"

namespace orrery::model {

extern const Family kDeepseek, kGemma2, kGemma3, kGlm4, kGpt2, kGptOss, kGranite, kLfm2, kLlama,
    kMamba2, kOlmo2, kOlmoe, kPhi3, kQwen2, kQwen3, kQwen3Next;

std::span<const Family* const> families() {
  static constexpr std::array<const Family*, 16> kFamilies = {
      &kDeepseek, &kGemma2, &kGemma3, &kGlm4,  &kGpt2, &kGptOss, &kGranite, &kLfm2,
      &kLlama,    &kMamba2, &kOlmo2,  &kOlmoe, &kPhi3, &kQwen2,  &kQwen3,   &kQwen3Next};
  return kFamilies;
}

}  // namespace orrery::model
