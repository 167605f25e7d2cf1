// Limits on the parameters of a model; each has a test at and one above.
#pragma once

#include <cstdint>

namespace orrery::model {

inline constexpr std::uint32_t kMaxLayers = 1'024;
inline constexpr std::uint32_t kMaxHeads = 1'024;
inline constexpr std::uint32_t kMaxHiddenDim = 262'144;
inline constexpr std::uint32_t kMaxHeadDim = 1'024;
inline constexpr std::uint32_t kMaxFfnDim = 1U << 22;
inline constexpr std::uint32_t kMaxExperts = 4'096;
inline constexpr std::uint32_t kMaxVocab = 1U << 20;
inline constexpr std::uint32_t kMaxContext = 1U << 24;
inline constexpr std::uint32_t kMaxConvTaps = 16;
inline constexpr std::uint32_t kMaxStateDim = 1'024;  // rows and columns of a head's state
inline constexpr std::uint64_t kMaxNameChars = 64;    // of an architecture, in messages

}  // namespace orrery::model
