// What tells one model's pages from another's.
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/kv_index.hpp"

namespace orrery::engine {
namespace {

constexpr std::uint64_t kSample = 64;  // bytes from the middle of each tensor

// XXH3 of a list of plain values and texts.
class Hash {
 public:
  Hash() : state_(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(state_.get()); }

  void bytes(const void* data, std::size_t size) { XXH3_128bits_update(state_.get(), data, size); }
  void number(std::uint64_t value) { bytes(&value, sizeof value); }
  void real(float value) { bytes(&value, sizeof value); }
  void text(std::string_view value) {
    number(value.size());
    bytes(value.data(), value.size());
  }
  XXH128_hash_t result() const { return XXH3_128bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

// Bytes of each file before its first tensor: all of its metadata.
std::vector<std::span<const std::byte>> headers_of(const storage::Checkpoint& files) {
  std::vector<std::span<const std::byte>> headers(files.files().size());
  for (const storage::TensorInfo& tensor : files.tensors()) {
    if (tensor.data == nullptr) continue;
    std::span<const std::byte>& header = headers[tensor.file];
    if (!header.empty() && header.size() <= tensor.offset) continue;
    header = {tensor.data - tensor.offset, tensor.offset};
  }
  return headers;
}

XXH128_hash_t hash_model(const storage::Checkpoint& files) {
  Hash hash;
  for (const auto header : headers_of(files)) hash.bytes(header.data(), header.size());
  for (const storage::TensorInfo& tensor : files.tensors()) {
    hash.text(tensor.name);
    hash.number(static_cast<std::uint64_t>(tensor.type));
    for (const std::uint64_t dim : tensor.dims) hash.number(dim);
    hash.number(tensor.offset);
    hash.number(tensor.bytes);
    if (tensor.data == nullptr) continue;
    const std::uint64_t sample = std::min(kSample, tensor.bytes);
    hash.bytes(tensor.data + (tensor.bytes - sample) / 2, sample);
  }
  hash.text(files.config_json());
  hash.text(files.tokenizer_json());
  return hash.result();
}

std::uint64_t hash_caches(const plan::Plan& plan) {
  Hash hash;
  for (const plan::CacheGroup& group : plan.groups) {
    for (const auto value :
         {static_cast<std::uint32_t>(group.kind), group.window, group.layers, group.kv_heads,
          group.k_dim, group.v_dim, static_cast<std::uint32_t>(group.k_type),
          static_cast<std::uint32_t>(group.v_type), std::uint32_t{group.v_in_k}, group.conv_rows,
          group.conv_dim}) {
      hash.number(value);
    }
  }
  return hash.result().low64;
}

void add_plan(Hash& hash, const plan::Plan& plan) {
  for (const plan::Step& step : plan.steps) {
    for (const auto value :
         {static_cast<std::uint32_t>(step.op), static_cast<std::uint32_t>(step.number_class),
          static_cast<std::uint32_t>(step.layer), static_cast<std::uint32_t>(step.rope),
          std::uint32_t{step.rope_dim}, static_cast<std::uint32_t>(step.rope_table), step.window}) {
      hash.number(value);
    }
    for (const float value :
         {step.scale, step.softcap, step.eps, step.norm_offset, step.rope_mscale}) {
      hash.real(value);
    }
  }
  for (const std::vector<float>& constants : plan.constants) {
    hash.bytes(constants.data(), constants.size() * sizeof(float));
  }
}

}  // namespace

KvIdentity kv_identity(const Executor& executor, const storage::Checkpoint* files) {
  KvIdentity identity;
  if (files != nullptr) {
    const XXH128_hash_t model = hash_model(*files);
    identity.model_low = model.low64;
    identity.model_high = model.high64;
  }
  identity.caches = hash_caches(executor.decode_plan());
  Hash classes;
  add_plan(classes, executor.decode_plan());
  add_plan(classes, executor.prefill_plan());
  identity.classes = classes.result().low64;
  return identity;
}

}  // namespace orrery::engine
