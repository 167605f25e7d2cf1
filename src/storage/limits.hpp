// Limits on what a model file may hold; each has a test one below, at and one above.
#pragma once

#include <cstdint>

namespace orrery::storage {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Any file.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 46;

// GGUF.
inline constexpr std::uint64_t kMaxKeyValues = 65'536;
inline constexpr std::uint64_t kMaxTensors = 65'536;  // per file, also for safetensors
inline constexpr std::uint64_t kMaxKeyBytes = 65'535;
inline constexpr std::uint64_t kMaxStringBytes = 16 * kMiB;
inline constexpr std::uint64_t kMaxArrayElements = 64 * kMiB;
inline constexpr std::uint64_t kMaxTensorNameBytes = 63;
inline constexpr std::uint32_t kMaxDims = 4;
inline constexpr std::uint64_t kMaxAlignment = kMiB;
inline constexpr std::uint64_t kDefaultAlignment = 32;
inline constexpr std::uint64_t kMaxMetadataBytes = 512 * kMiB;
inline constexpr std::uint32_t kMaxSplitParts = 1'024;

// Elements and bytes of one tensor: what a signed 64-bit number holds.
inline constexpr std::uint64_t kMaxTensorBytes = (std::uint64_t{1} << 63) - 1;

// safetensors.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::uint64_t kMaxSafetensorsNameBytes = 4'096;
inline constexpr std::uint32_t kMaxJsonDepth = 64;
inline constexpr std::uint64_t kMaxIndexBytes = 64 * kMiB;
inline constexpr std::uint64_t kMaxCheckpointTensors = 262'144;  // over all shards

// Files beside safetensors.
inline constexpr std::uint64_t kMaxConfigBytes = 4 * kMiB;
inline constexpr std::uint64_t kMaxTokenizerBytes = 128 * kMiB;
inline constexpr std::uint64_t kMaxTokenizerConfigBytes = 16 * kMiB;
inline constexpr std::uint64_t kMaxTemplateBytes = kMiB;

// Folders and manifests that the lookup of models reads.
inline constexpr std::uint64_t kMaxFolderEntries = 65'536;
inline constexpr std::uint64_t kMaxManifestBytes = kMiB;

}  // namespace orrery::storage
