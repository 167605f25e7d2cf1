// A whole small model as a GGUF file: a one-layer llama with a SentencePiece vocabulary that spells
// every byte. Sound as it is; tests replace or drop what they want broken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/gguf_builder.hpp"
#include "support/random_blocks.hpp"

namespace orrery::test {

class TinyGguf {
 public:
  static constexpr std::uint32_t kTokens = 262;

  explicit TinyGguf(std::uint32_t layers = 1) {
    set("general.architecture", "llama");
    set("llama.block_count", layers);
    set("llama.context_length", 128U);
    set("llama.embedding_length", 64U);
    set("llama.feed_forward_length", 96U);
    set("llama.attention.head_count", 4U);
    set("llama.attention.head_count_kv", 2U);
    set("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    set("llama.rope.freq_base", 10000.0F);
    set_vocabulary();
    tensor("token_embd.weight", DType::f32, {64, kTokens});
    tensor("output_norm.weight", DType::f32, {64});
    for (std::uint32_t i = 0; i < layers; ++i) add_layer("blk." + std::to_string(i) + ".");
  }

  // Any value that GgufBuilder::add_kv takes.
  template <class T>
  TinyGguf& set(const std::string& key, T value) {
    pairs_[key] = [key, value = std::move(value)](GgufBuilder& b) { b.add_kv(key, value); };
    return *this;
  }
  TinyGguf& drop(const std::string& key) {
    pairs_.erase(key);
    return *this;
  }
  // Adds or replaces; random numbers of a float type, zeros of any other.
  TinyGguf& tensor(const std::string& name, DType type, const std::vector<std::uint64_t>& dims) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dim : dims) elements *= dim;
    std::string bytes(elements / dtype_info(type).block_len * dtype_info(type).block_bytes, '\0');
    if (type == DType::f32) {
      std::normal_distribution<float> normal(0.0F, 0.2F);
      for (std::uint64_t i = 0; i < elements; ++i) {
        const float value = normal(random_);
        std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
      }
    }
    remove(name);
    tensors_.push_back({name, type, dims, std::move(bytes)});
    return *this;
  }
  // Every matrix in blocks of random weights, the vocabulary rounded up to whole panels of 16 rows.
  TinyGguf& quantize(DType type) {
    for (Tensor& t : tensors_) {
      if (t.dims.size() != 2) continue;
      if (t.name == "token_embd.weight") t.dims[1] = (t.dims[1] + 15) / 16 * 16;
      const auto bytes = random_weights(type, t.dims[1], t.dims[0], 0.3F, random_);
      t.type = type;
      t.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return *this;
  }
  TinyGguf& remove(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
    return *this;
  }
  // Every element of an F32 tensor.
  TinyGguf& fill(const std::string& name, float value) {
    for (Tensor& tensor : tensors_) {
      if (tensor.name != name) continue;
      for (std::size_t i = 0; i < tensor.bytes.size(); i += sizeof(value)) {
        std::memcpy(tensor.bytes.data() + i, &value, sizeof(value));
      }
    }
    return *this;
  }

  // The elements of an F32 tensor.
  template <class F>
  TinyGguf& edit(const std::string& name, F change) {
    for (Tensor& tensor : tensors_) {
      if (tensor.name != name) continue;
      std::vector<float> values(tensor.bytes.size() / sizeof(float));
      std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
      change(values);
      std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    }
    return *this;
  }

  std::string build() const {
    GgufBuilder builder;
    for (const auto& [key, add] : pairs_) add(builder);
    for (const Tensor& t : tensors_) builder.add_tensor(t.name, t.type, t.dims, t.bytes);
    return builder.build();
  }

  // The vocabulary: "<unk>", "<s>", "</s>", "a", "b", "ab", then the 256 bytes.
  static std::vector<std::string> texts() {
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "a", "b", "ab"};
    for (unsigned byte = 0; byte < 256; ++byte) {
      constexpr const char* kHex = "0123456789ABCDEF";
      tokens.push_back(std::string("<0x") + kHex[byte >> 4U] + kHex[byte & 15U] + ">");
    }
    return tokens;
  }
  static std::vector<std::int32_t> types() {
    std::vector<std::int32_t> types(kTokens, 6);
    std::ranges::copy(std::vector<std::int32_t>{2, 3, 3, 1, 1, 1}, types.begin());
    return types;
  }
  static std::vector<float> scores() { return std::vector<float>(kTokens, 0.0F); }

 private:
  struct Tensor {
    std::string name;
    DType type;
    std::vector<std::uint64_t> dims;
    std::string bytes;
  };

  void set_vocabulary() {
    set("tokenizer.ggml.model", "llama");
    set("tokenizer.ggml.tokens", texts());
    set("tokenizer.ggml.token_type", types());
    set("tokenizer.ggml.scores", scores());
    set("tokenizer.ggml.bos_token_id", 1U);
    set("tokenizer.ggml.eos_token_id", 2U);
  }

  void add_layer(const std::string& block) {
    tensor(block + "attn_norm.weight", DType::f32, {64});
    tensor(block + "attn_q.weight", DType::f32, {64, 64});
    tensor(block + "attn_k.weight", DType::f32, {64, 32});
    tensor(block + "attn_v.weight", DType::f32, {64, 32});
    tensor(block + "attn_output.weight", DType::f32, {64, 64});
    tensor(block + "ffn_norm.weight", DType::f32, {64});
    tensor(block + "ffn_gate.weight", DType::f32, {64, 96});
    tensor(block + "ffn_up.weight", DType::f32, {64, 96});
    tensor(block + "ffn_down.weight", DType::f32, {96, 64});
  }

  std::map<std::string, std::function<void(GgufBuilder&)>> pairs_;
  std::vector<Tensor> tensors_;
  std::mt19937 random_{1};
};

}  // namespace orrery::test
