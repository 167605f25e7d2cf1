#include <array>

#include "model/family.hpp"

namespace orrery::model {

extern const Family kBert, kCohere, kDeepseek, kGemma2, kGemma3, kGemma3n, kGemma4, kGlm4, kGpt2,
    kGptOss, kGranite, kLfm2, kLlama, kLlama4, kMamba2, kNomicBert, kNomicBertMoe, kOlmo2, kOlmoe,
    kPhi, kPhi3, kQwen2, kQwen3, kQwen3Next, kStarcoder2;

std::span<const Family* const> families() {
  static constexpr std::array kFamilies = {
      &kBert,   &kCohere,    &kDeepseek,     &kGemma2,    &kGemma3, &kGemma3n, &kGemma4,
      &kGlm4,   &kGpt2,      &kGptOss,       &kGranite,   &kLfm2,   &kLlama,   &kLlama4,
      &kMamba2, &kNomicBert, &kNomicBertMoe, &kOlmo2,     &kOlmoe,  &kPhi,     &kPhi3,
      &kQwen2,  &kQwen3,     &kQwen3Next,    &kStarcoder2};
  return kFamilies;
}

}  // namespace orrery::model
