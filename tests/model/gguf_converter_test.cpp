// What safetensors become as GGUF beside what llama.cpp's converter (or its conventions) makes of
// them: names, shapes and numbers of tensors, and keys.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "model/family.hpp"
#include "support/gguf_export.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"
#include "tensor/decode.hpp"

namespace orrery::model {
namespace {

using Names = std::set<std::string, std::less<>>;

// Keys that are written always, whatever the family's readers take for granted: harmless.
const Names kAlways = {"vocab_size",
                       "attention.head_count_kv",
                       "attention.key_length",
                       "attention.value_length",
                       "rope.dimension_count",
                       "rope.freq_base",
                       "rope.freq_base_swa",
                       "rope.scaling.yarn_beta_fast",
                       "rope.scaling.yarn_beta_slow",
                       "expert_feed_forward_length",
                       "expert_shared_feed_forward_length",
                       "attention.sliding_window_pattern",
                       "dense_2_feat_in",
                       "dense_2_feat_out",
                       "dense_3_feat_in",
                       "dense_3_feat_out"};

struct Difference {
  Names keys = {};     // and why: beside each model
  Names tensors = {};  // stems
};

const std::map<std::string, Difference, std::less<>>& differences() {
  static const std::map<std::string, Difference, std::less<>> all = {
      // The converter says that there is one group, which is none.
      {"deepseek-v2", {.keys = {"expert_group_count", "expert_group_used_count"}}},
      {"deepseek-v2-lite", {.keys = {"expert_group_count", "expert_group_used_count"}}},
      // The golden file is of the older form, where a head's matrices are one and the cache has as
      // many heads as the queries.
      {"deepseek-yarn",
       {.keys = {"attention.head_count_kv", "attention.key_length", "attention.value_length",
                 "attention.key_length_mla", "attention.value_length_mla", "expert_count",
                 "expert_used_count", "expert_shared_count", "expert_gating_func",
                 "expert_weights_scale", "expert_weights_norm"},
        .tensors = {"attn_kv_b.weight", "attn_k_b.weight", "attn_v_b.weight"}}},
      // A model without attention has no heads to count, the converter says 0.
      {"mamba2", {.keys = {"attention.head_count", "feed_forward_length"}}},
      // The converter says that there is no window, a context that nothing was stretched from, and
      // not that its tensors are longrope's.
      {"phi3", {.keys = {"attention.sliding_window", "rope.scaling.original_context_length"}}},
      {"phi3-longrope", {.keys = {"rope.scaling.type"}}},
      // The golden file's table is as short as that of safetensors, which llama.cpp refuses.
      {"gemma3n", {.tensors = {"per_layer_token_embd.weight"}}},
      // The context that YaRN stretches to, not that of before.
      {"gpt-oss", {.keys = {"context_length"}}},
      {"qwen2-yarn", {.keys = {"context_length"}}},
  };
  return all;
}

std::shared_ptr<const storage::Checkpoint> open(const std::string& path) {
  auto checkpoint = storage::Checkpoint::open(path, storage::system_io());
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  return checkpoint ? *checkpoint : nullptr;
}

std::vector<float> values_of(const storage::TensorInfo& tensor) {
  std::vector<float> values(tensor.n_elements());
  decode_row(tensor.type, tensor.data, values.data(), values.size());
  return values;
}

// Ours is F32, theirs F16 or, of vectors, F32.
void expect_same_numbers(const storage::TensorInfo& ours, const storage::TensorInfo& theirs) {
  const double relative = theirs.type == DType::f16 ? std::ldexp(1.0, -11) : 1e-6;
  const double smallest = theirs.type == DType::f16 ? std::ldexp(1.0, -25) : 0.0;
  const std::vector<float> a = values_of(ours), b = values_of(theirs);
  for (std::size_t i = 0; i < b.size(); ++i) {
    ASSERT_LE(std::abs(double{a[i]} - b[i]), relative * std::abs(a[i]) + smallest)
        << ours.name << " at " << i << ": " << a[i] << ", the converter has " << b[i];
  }
}

bool is_listed(const Names& names, std::string_view name) {
  const std::size_t stem = name.starts_with("blk.") ? name.find('.', 4) + 1 : 0;
  return names.contains(name.substr(stem));
}

void expect_same_tensors(const storage::Checkpoint& ours, const storage::Checkpoint& theirs,
                         const Names& others) {
  for (const storage::TensorInfo& tensor : theirs.tensors()) {
    if (is_listed(others, tensor.name)) continue;
    const storage::TensorInfo* own = ours.find(tensor.name);
    ASSERT_NE(own, nullptr) << tensor.name;
    ASSERT_EQ(own->dims, tensor.dims) << tensor.name;
    expect_same_numbers(*own, tensor);
  }
  for (const storage::TensorInfo& tensor : ours.tensors()) {
    EXPECT_TRUE(is_listed(others, tensor.name) || theirs.find(tensor.name) != nullptr)
        << tensor.name;
  }
}

std::vector<double> numbers_of(const storage::MetaValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return {*flag ? 1.0 : 0.0};
  if (const auto* number = std::get_if<std::int64_t>(&value)) return {double(*number)};
  if (const auto* natural = std::get_if<std::uint64_t>(&value)) return {double(*natural)};
  if (const auto* real = std::get_if<double>(&value)) return {*real};
  const auto* packed = std::get_if<storage::PackedArray>(&value);
  if (packed == nullptr) return {};
  const storage::MetaArray array = packed->unpack();
  std::vector<double> all(array.integers.begin(), array.integers.end());
  all.insert(all.end(), array.floats.begin(), array.floats.end());
  all.insert(all.end(), array.bools.begin(), array.bools.end());
  return all;
}

// The deviations of Gemma 3n's sparsity, of which one is 0, are found by bisection here.
bool same_value(const storage::MetaValue& a, const storage::MetaValue& b) {
  if (a == b) return true;
  const std::vector<double> x = numbers_of(a), y = numbers_of(b);
  return !x.empty() && std::ranges::equal(x, y, [](double p, double q) {
    return p == q || std::abs(p - q) <= 1e-6 * std::abs(q) + 1e-15;
  });
}

void expect_same_keys(const storage::Checkpoint& ours, const storage::Checkpoint& theirs,
                      const Names& others) {
  const auto architecture = theirs.metadata().string("general.architecture");
  ASSERT_TRUE(architecture);
  EXPECT_EQ(ours.metadata().string("general.architecture").value_or(""), *architecture);
  const std::string prefix = std::string(*architecture) + ".";
  for (const auto& [key, value] : theirs.metadata().all()) {
    if (!key.starts_with(prefix) || others.contains(key.substr(prefix.size()))) continue;
    const storage::MetaValue* own = ours.metadata().find(key);
    ASSERT_NE(own, nullptr) << key;
    EXPECT_TRUE(same_value(*own, value)) << key;
  }
  for (const auto& [key, value] : ours.metadata().all()) {
    if (!key.starts_with(prefix) || theirs.metadata().has(key)) continue;
    const std::string name = key.substr(prefix.size());
    EXPECT_TRUE(kAlways.contains(name) || others.contains(name)) << key << " is one more";
  }
}

class BesideConverter : public ::testing::TestWithParam<const char*> {};

TEST_P(BesideConverter, SameTensorsAndKeys) {
  const std::string name = GetParam();
  std::string folder = test::source_dir() + "/tests/golden/" + name;
  if (!std::filesystem::exists(folder)) folder = test::shared_dir() + "/data/golden/" + name;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const test::TempDir temporary;
  const std::string out = temporary.file("out.gguf");
  const auto written = testing::write_f32(folder, out);
  ASSERT_TRUE(written) << written.error().message;
  const auto ours = open(out), theirs = open(folder + "/" + name + "-f16.gguf");
  ASSERT_TRUE(ours && theirs);
  const auto known = differences().find(name);
  const Difference difference = known == differences().end() ? Difference{} : known->second;
  expect_same_tensors(*ours, *theirs, difference.tensors);
  expect_same_keys(*ours, *theirs, difference.keys);
}

INSTANTIATE_TEST_SUITE_P(
    Models, BesideConverter,
    ::testing::Values("llama", "mistral", "llama3-rope", "smollm3", "qwen2", "qwen2-untied",
                      "qwen3", "gemma2", "gemma3", "phi3", "glm4", "olmo2", "gpt2", "mixtral",
                      "qwen2-moe", "qwen3-moe", "olmoe", "granitemoe", "gpt-oss", "deepseek-v2",
                      "deepseek-v2-lite", "deepseek-v3", "lfm2", "mamba2", "qwen3-next", "granite",
                      "qwen2-yarn", "phi3-longrope", "mistral-window", "deepseek-yarn", "cohere",
                      "cohere2", "phi2", "starcoder2", "llama4", "gemma3n", "gemma4", "gemma4-moe",
                      "gpt-oss-mxfp4", "bert", "roberta", "nomic-bert", "gemma3-embed", "bert-rank",
                      "xlmr-rank"),
    [](const auto& test) {
      std::string name = test.param;
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace orrery::model
