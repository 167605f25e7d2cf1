// Heads that are no head of a model that ranks.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "model/model.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace orrery::model {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(test::source_dir() + "/tests/golden/" + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The same number of bytes, so that nothing else in the file moves.
void replace(std::string& bytes, std::string_view from, std::string_view to) {
  ASSERT_EQ(from.size(), to.size());
  const std::size_t at = bytes.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  bytes.replace(at, from.size(), to);
}

Result<Hparams> load(const std::string& path) {
  ORRERY_TRY(auto checkpoint, storage::Checkpoint::open(path, storage::system_io()));
  ORRERY_TRY(const LoadedModel model, load_model(std::move(checkpoint)));
  return model.hparams();
}

void expect_refused(const Result<Hparams>& loaded, std::string_view kind, std::string_view text) {
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, kind) << loaded.error().message;
  EXPECT_NE(loaded.error().message.find(text), std::string::npos) << loaded.error().message;
}

class RankHead : public ::testing::Test {
 protected:
  // The golden folder of that name with its safetensors file changed.
  Result<Hparams> load_with(const std::string& name, std::string_view from, std::string_view to) {
    std::string bytes = bytes_of(name + "/model.safetensors");
    replace(bytes, from, to);
    temporary_.write("model.safetensors", bytes);
    temporary_.write("config.json", bytes_of(name + "/config.json"));
    return load(temporary_.path());
  }
  Result<Hparams> load_gguf_with(const std::string& name, std::string_view from,
                                 std::string_view to) {
    std::string bytes = bytes_of(name + "/" + name + "-f16.gguf");
    replace(bytes, from, to);
    temporary_.write("model.gguf", bytes);
    return load(temporary_.file("model.gguf"));
  }
  test::TempDir temporary_;
};

TEST_F(RankHead, LayersOfBothForms) {
  const Result<Hparams> bert = load(test::source_dir() + "/tests/golden/bert-rank");
  ASSERT_TRUE(bert) << bert.error().message;
  ASSERT_EQ(bert->dense.size(), 2U);
  EXPECT_EQ(bert->dense[0].stem, "pooler.dense");
  EXPECT_TRUE(bert->dense[0].tanh);
  EXPECT_EQ(bert->dense[1].rows, 1U);
  EXPECT_EQ(bert->pooling, plan::PoolKind::first);
  const Result<Hparams> qwen =
      load(test::source_dir() + "/tests/golden/qwen3-rank/qwen3-rank-f16.gguf");
  ASSERT_TRUE(qwen) << qwen.error().message;
  ASSERT_EQ(qwen->dense.size(), 1U);
  EXPECT_EQ(qwen->dense[0].rows, 2U);
  EXPECT_EQ(qwen->pooling, plan::PoolKind::last);
}

TEST_F(RankHead, ClassesAreNoRanks) {
  // (1, 32) read as (32, 1) has the same bytes.
  expect_refused(load_with("bert-rank", "[1, 32]", "[32, 1]"), "E_HPARAM",
                 "tensor classifier.weight tells 32 classes apart");
}

TEST_F(RankHead, WhatIsMissing) {
  expect_refused(load_with("bert-rank", "bert.pooler.dense.weight", "bert.pooler.xxxxx.weight"),
                 "E_TENSOR", "tensor bert.pooler.dense.weight is missing");
  expect_refused(load_gguf_with("xlmr-rank", "cls.output.weight", "cls.xxxxxx.weight"), "E_TENSOR",
                 "bert.pooling_type says rank, but tensor cls.output.weight");
}

TEST_F(RankHead, AConvertedBertLacksItsPooler) {
  std::string bytes = bytes_of("bert-rank/bert-rank-f16.gguf");
  replace(bytes, "cls.weight", "cls.xxxxxx");  // beginnings "cls." are left alone
  temporary_.write("model.gguf", bytes);
  const Result<Hparams> h = load(temporary_.file("model.gguf"));
  ASSERT_TRUE(h) << h.error().message;
  EXPECT_EQ(h->dense.size(), 1U);
  ASSERT_EQ(h->notes.size(), 1U);
  EXPECT_NE(h->notes[0].find("pooler"), std::string::npos);
}

}  // namespace
}  // namespace orrery::model
