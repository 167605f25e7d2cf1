// The golden models open from both formats and hold the same tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>

#include "storage/checkpoint.hpp"
#include "support/paths.hpp"

namespace orrery::storage {
namespace {

namespace fs = std::filesystem;

const std::string kGolden = test::shared_dir() + "/data/golden";

std::vector<std::string> golden_folders() {
  std::vector<std::string> folders;
  if (!fs::exists(kGolden)) return folders;
  for (const auto& entry : fs::directory_iterator(kGolden)) {
    if (entry.is_directory()) folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

float half_to_float(std::uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

std::vector<float> floats(const TensorInfo& tensor) {
  std::vector<float> values(tensor.n_elements());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    if (tensor.type == DType::f32) {
      std::memcpy(&values[i], tensor.data + 4 * i, 4);
      continue;
    }
    std::memcpy(&half, tensor.data + 2 * i, 2);
    values[i] = tensor.type == DType::f16 ? half_to_float(half)
                                          : std::bit_cast<float>(std::uint32_t{half} << 16);
  }
  return values;
}

std::shared_ptr<const Checkpoint> open_or_fail(const std::string& path) {
  auto opened = Checkpoint::open(path, system_io());
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *opened : nullptr;
}

TEST(Golden, EveryFolderOpensFromBothFormats) {
  const std::vector<std::string> folders = golden_folders();
  if (folders.empty()) GTEST_SKIP() << kGolden << " is absent";
  for (const std::string& folder : folders) {
    SCOPED_TRACE(folder);
    const auto safetensors = open_or_fail(folder);
    ASSERT_NE(safetensors, nullptr);
    EXPECT_EQ(safetensors->format(), Format::safetensors);
    EXPECT_GT(safetensors->tensors().size(), 3U);
    EXPECT_TRUE(safetensors->config_json().starts_with("{"));
    EXPECT_TRUE(safetensors->tokenizer_json().starts_with("{"));
    const std::string name = fs::path(folder).filename().string();
    if (!fs::exists(folder + "/" + name + "-f16.gguf")) continue;
    const auto gguf = open_or_fail(folder + "/" + name + "-f16.gguf");
    ASSERT_NE(gguf, nullptr);
    EXPECT_EQ(gguf->format(), Format::gguf);
    EXPECT_TRUE(gguf->metadata().string("general.architecture"));
    EXPECT_TRUE(gguf->warnings().empty());
  }
}

TEST(Golden, EmbeddingsAreEqualInBothFormats) {
  const std::vector<std::string> folders = golden_folders();
  if (folders.empty()) GTEST_SKIP() << kGolden << " is absent";
  std::size_t compared = 0;
  for (const std::string& folder : folders) {
    SCOPED_TRACE(folder);
    const std::string file = folder + "/" + fs::path(folder).filename().string() + "-f16.gguf";
    if (!fs::exists(file)) continue;
    const auto safetensors = open_or_fail(folder);
    const auto gguf = open_or_fail(file);
    ASSERT_TRUE(safetensors && gguf);
    const TensorInfo* a = gguf->find("token_embd.weight");
    const TensorInfo* b = nullptr;
    for (const std::string_view name :
         {"model.embed_tokens.weight", "transformer.wte.weight", "backbone.embeddings.weight"}) {
      if (b == nullptr) b = safetensors->find(name);
    }
    ASSERT_TRUE(a != nullptr && b != nullptr);
    EXPECT_EQ(a->dims, b->dims);
    EXPECT_EQ(floats(*a), floats(*b));
    ++compared;
  }
  EXPECT_GT(compared, 20U);
}

TEST(Golden, QwenTensorsAreEqualInBothFormats) {
  if (golden_folders().empty()) GTEST_SKIP() << kGolden << " is absent";
  // Qwen's weights are not permuted on the way to GGUF.
  const auto safetensors = open_or_fail(kGolden + "/qwen3");
  const auto gguf = open_or_fail(kGolden + "/qwen3/qwen3-f16.gguf");
  ASSERT_TRUE(safetensors && gguf);
  const std::pair<std::string_view, std::string_view> pairs[] = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"output_norm.weight", "model.norm.weight"},
      {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"},
      {"blk.0.attn_k_norm.weight", "model.layers.0.self_attn.k_norm.weight"},
      {"blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight"},
      {"blk.1.ffn_gate.weight", "model.layers.1.mlp.gate_proj.weight"},
  };
  for (const auto& [in_gguf, in_safetensors] : pairs) {
    SCOPED_TRACE(in_gguf);
    const TensorInfo* a = gguf->find(in_gguf);
    const TensorInfo* b = safetensors->find(in_safetensors);
    ASSERT_TRUE(a != nullptr && b != nullptr);
    EXPECT_EQ(a->dims, b->dims);
    EXPECT_EQ(a->n_dims, b->n_dims);
    EXPECT_EQ(floats(*a), floats(*b));
  }
  EXPECT_EQ(gguf->find("blk.0.attn_q"), nullptr);
}

TEST(Golden, VocabularyFilesOpenWithoutTensors) {
  const fs::path folder = test::shared_dir() + "/data/tokenizers";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent";
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path());
    const auto vocabulary = open_or_fail(entry.path().string());
    ASSERT_NE(vocabulary, nullptr);
    EXPECT_TRUE(vocabulary->tensors().empty());
    const auto tokens =
        vocabulary->metadata().array("tokenizer.ggml.tokens", MetaArray::Kind::strings);
    ASSERT_TRUE(tokens) << tokens.error().message;
    EXPECT_GT(tokens->size(), 10'000U);
  }
}

}  // namespace
}  // namespace orrery::storage
