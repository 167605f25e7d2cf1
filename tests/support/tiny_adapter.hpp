// A LoRA adapter of random numbers as a GGUF file or as PEFT's folder.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/gguf_builder.hpp"

namespace orrery::test {

// One matrix (rows, cols) that is changed, under its name in either form.
struct AdapterMatrix {
  std::string gguf, module;  // "blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj"
  std::uint64_t rows = 0, cols = 0;
  std::uint64_t rank = 0;
  std::vector<float> a{}, b{};     // (rank, cols), (rows, rank)
  std::uint32_t paired_heads = 0;  // above 0: GGUF has the rotary pairs of so many heads together

  // B with its rows in GGUF's order: head by head (2, half) becomes (half, 2).
  std::vector<float> gguf_b() const {
    if (paired_heads == 0) return b;
    std::vector<float> out(b.size());
    const std::uint64_t dim = rows / paired_heads, half = dim / 2;
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::uint64_t head = row / dim, at = row % dim;
      const std::uint64_t to = head * dim + at % half * 2 + at / half;
      for (std::uint64_t j = 0; j < rank; ++j) out[to * rank + j] = b[row * rank + j];
    }
    return out;
  }
};

class TinyAdapter {
 public:
  float alpha = 6.0F;
  std::string architecture = "llama", type = "adapter", kind = "lora";
  std::string extra_config;  // "\"use_rslora\": true," and the like
  std::vector<AdapterMatrix> matrices;

  explicit TinyAdapter(std::uint32_t seed = 1) : random_(seed) {}

  TinyAdapter& add(AdapterMatrix matrix) {
    std::normal_distribution<float> normal;
    matrix.a.resize(matrix.rank * matrix.cols);
    matrix.b.resize(matrix.rows * matrix.rank);
    for (float& x : matrix.a) x = normal(random_) / std::sqrt(float(matrix.cols));
    for (float& x : matrix.b) x = 0.3F * normal(random_);
    matrices.push_back(std::move(matrix));
    return *this;
  }

  std::string gguf() const {
    GgufBuilder builder;
    builder.add_kv("general.architecture", architecture);
    builder.add_kv("general.type", type);
    builder.add_kv("adapter.type", kind);
    builder.add_kv("adapter.lora.alpha", alpha);
    for (const AdapterMatrix& m : matrices) {
      builder.add_tensor(m.gguf + ".lora_a", DType::f32, {m.cols, m.rank}, bytes(m.a));
      builder.add_tensor(m.gguf + ".lora_b", DType::f32, {m.rank, m.rows}, bytes(m.gguf_b()));
    }
    return builder.build();
  }

  // Of adapter_model.safetensors.
  std::string tensors() const {
    std::string header, data;
    const auto tensor = [&](const std::string& name, std::uint64_t rows, std::uint64_t cols,
                            const std::vector<float>& values) {
      const std::size_t begin = data.size();
      data += bytes(values);
      header += fmt::format(R"({}"base_model.model.{}.weight":{{"dtype":"F32","shape":[{},{}],)"
                            R"("data_offsets":[{},{}]}})",
                            header.empty() ? "" : ",", name, rows, cols, begin, data.size());
    };
    for (const AdapterMatrix& m : matrices) {
      tensor(m.module + ".lora_A", m.rank, m.cols, m.a);
      tensor(m.module + ".lora_B", m.rows, m.rank, m.b);
    }
    header = "{" + header + "}";
    return ByteWriter().number(std::uint64_t{header.size()}).raw(header).raw(data).bytes();
  }
  // adapter_config.json
  std::string config() const {
    const std::uint64_t rank = matrices.empty() ? 1 : matrices[0].rank;
    return fmt::format(R"({{"peft_type": "LORA", {} "r": {}, "lora_alpha": {}, "bias": "none",)"
                       R"( "base_model_name_or_path": "a/base", "modules_to_save": null}})",
                       extra_config, rank, alpha);
  }

 private:
  static std::string bytes(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  std::mt19937 random_;
};

}  // namespace orrery::test
