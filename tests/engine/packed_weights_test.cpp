// Weights in packed layout: the same bits as in their files, in prefill, decode and vectors.
#include "engine/packed_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/model.hpp"
#include "engine/session.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

class PackedModel : public testing::TestWithParam<DType> {
 protected:
  std::shared_ptr<const Model> open(WeightLayout layout, Device device = Device::cpu) {
    if (path.empty()) {
      // With a matrix that has no packed layout among the others.
      auto file = test::TinyGguf(2).quantize(GetParam());
      path = folder.write("m.gguf",
                          file.tensor("blk.1.ffn_down.weight", DType::f32, {96, 64}).build());
    }
    ModelOptions options;
    options.threads = 2;
    options.layout = layout;
    options.device = device;
    auto model = Model::open(path, options, storage::system_io());
    EXPECT_TRUE(model) << model.error().message;
    return model ? *model : nullptr;
  }

  // Logits of a prompt (long enough for blocks of tokens) and of the tokens after it.
  static std::vector<float> logits(const Model& model) {
    std::vector<float> all;
    auto session = Session::open(model.executor());
    EXPECT_TRUE(session);
    Tokens tokens(70);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int>(3 + i * 37 % 259);
    for (int step = 0; step < 3; ++step) {
      const auto result = (*session)->evaluate(tokens);
      EXPECT_TRUE(result);
      all.insert(all.end(), result->logits.begin(), result->logits.end());
      tokens.push_back(5 + step);
    }
    return all;
  }

  static bool runs_packed(const Model& model) {
    return std::ranges::any_of(
        model.executor()->decode_plan().weights,
        [](const plan::Weight& weight) { return weight.layout == Layout::packed; });
  }

  test::TempDir folder;
  std::string path;
};

TEST_P(PackedModel, HasTheBitsOfItsFile) {
  const auto from_file = open(WeightLayout::file);
  const auto packed = open(WeightLayout::packed);
  EXPECT_EQ(from_file->info().packed_bytes, 0U);
  EXPECT_GT(packed->info().packed_bytes, packed->info().weight_bytes * 9 / 10);
  const auto expected = logits(*from_file);
  EXPECT_FALSE(runs_packed(*packed));
  EXPECT_EQ(logits(*packed), expected);  // the first run reads the file, the others do not
  EXPECT_TRUE(runs_packed(*packed));
  EXPECT_EQ(logits(*packed), expected);
  const Tokens text = {3, 4, 5, 100, 200};
  EXPECT_EQ(packed->embed(text).value(), from_file->embed(text).value());
}

TEST_P(PackedModel, NoTokenReadsTheFile) {
  const auto packed = open(WeightLayout::packed);
  logits(*packed);
  const auto spans = packed->weight_spans();
  ASSERT_EQ(spans.size(), 1U);
  for (const plan::Weight& weight : packed->executor()->decode_plan().weights) {
    if (weight.cols != 96) continue;
    EXPECT_EQ(weight.layout == Layout::packed, weight.dtype != DType::f32);
  }
}

TEST_P(PackedModel, IsReadyBeforeTheFirstRunWhereThatIsAskedFor) {
  const auto expected = logits(*open(WeightLayout::file));
  const Tokens text = {3, 4, 5, 100, 200};
  const auto settled = open(WeightLayout::packed);
  ASSERT_TRUE(settled->settle());
  EXPECT_TRUE(runs_packed(*settled));
  EXPECT_EQ(logits(*settled), expected);
  EXPECT_TRUE(settled->settle());  // there is nothing left to do
  EXPECT_EQ(logits(*settled), expected);
  EXPECT_EQ(open(WeightLayout::packed)->embed(text).value(),
            open(WeightLayout::file)->embed(text).value());
}

TEST_P(PackedModel, ItsWeightsAreThoseOfTheRegion) {
  const auto packed = open(WeightLayout::packed);
  const auto count = [](const Model& model) {
    std::uint64_t bytes = 0;
    for (const auto span : model.weight_spans()) bytes += span.size();
    return bytes;
  };
  const std::uint64_t all = count(*open(WeightLayout::file));
  EXPECT_LT(all, packed->info().weight_bytes);  // with the vectors
  EXPECT_GE(count(*packed), all);
  EXPECT_LT(count(*packed), all + 64 * packed->checkpoint().tensors().size());
}

TEST_P(PackedModel, OracleDevicesReadTheFile) {
  EXPECT_EQ(open(WeightLayout::packed, Device::cpu_f32)->info().packed_bytes, 0U);
  EXPECT_EQ(open(WeightLayout::packed, Device::reference)->info().packed_bytes, 0U);
}

TEST_P(PackedModel, ModelsOfOneFileShareOneMemory) {
  const auto first = open(WeightLayout::packed), second = open(WeightLayout::packed);
  EXPECT_EQ(first->weight_spans().back().data(), second->weight_spans().back().data());
  EXPECT_EQ(logits(*second), logits(*first));
  const std::byte* shared = first->weight_spans().back().data();
  // Another file, of the same shapes, is other weights.
  const auto file = test::TinyGguf(3).quantize(GetParam()).build();
  path = folder.write("other.gguf", file);
  EXPECT_NE(open(WeightLayout::packed)->weight_spans().back().data(), shared);
}

INSTANTIATE_TEST_SUITE_P(Types, PackedModel,
                         testing::Values(DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                                         DType::q8_0),
                         [](const auto& test) { return std::string(dtype_info(test.param).name); });

TEST(PackedWeights, AutomaticPacksSmallModels) {
  const test::TempDir folder;
  const std::string path = folder.write("m.gguf", test::TinyGguf(1).quantize(DType::q4_0).build());
  ModelOptions options;
  options.threads = 1;
  const auto model = Model::open(path, options, storage::system_io());
  ASSERT_TRUE(model);
  EXPECT_GT((*model)->info().packed_bytes, 0U);
}

TEST(PackedWeights, WhatHasNoPackedLayoutStaysInTheFile) {
  const test::TempDir folder;
  const std::string path = folder.write("m.gguf", test::TinyGguf(1).build());  // all f32
  ModelOptions options;
  options.threads = 1;
  options.layout = WeightLayout::packed;
  const auto model = Model::open(path, options, storage::system_io());
  ASSERT_TRUE(model);
  EXPECT_EQ((*model)->info().packed_bytes, 0U);
}

}  // namespace
}  // namespace orrery::engine
