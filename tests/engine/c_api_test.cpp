// Uses the C interface and nothing else of the project.
#include <gtest/gtest.h>
#include <orrery/orrery.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/paths.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_adapter.hpp"

namespace {

std::string golden(const char* file) {
  return orrery::test::shared_dir() + "/data/golden/llama/" + file;
}

class CApiTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(golden("golden.json"))) {
      GTEST_SKIP() << "the golden models are not here";
    }
    orrery_model_options options;
    orrery_model_options_init(&options);
    options.threads = 1;
    options.max_sessions = 2;
    options.deterministic = 1;
    ASSERT_EQ(orrery_model_open(golden("").c_str(), &options, &model, &error), 0) << error.message;
  }
  void TearDown() override { orrery_model_close(model); }

  std::vector<int32_t> tokenize(const std::string& text) {
    size_t count = 0;
    EXPECT_EQ(orrery_tokenize(model, text.data(), text.size(), 0, 0, nullptr, 0, &count, &error),
              0);
    std::vector<int32_t> ids(count);
    EXPECT_EQ(
        orrery_tokenize(model, text.data(), text.size(), 0, 0, ids.data(), count, &count, &error),
        0);
    return ids;
  }

  orrery_error error{};
  orrery_model* model = nullptr;
};

TEST(CApi, ErrorsHaveKindAndSentence) {
  orrery_error error{};
  orrery_model* model = nullptr;
  EXPECT_EQ(orrery_model_open("/nowhere/at/all.gguf", nullptr, &model, &error), 1);
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(std::string(error.kind).rfind("E_", 0), 0U);
  EXPECT_NE(std::string(error.message).find("/nowhere/at/all.gguf"), std::string::npos);
  EXPECT_EQ(orrery_model_open(nullptr, nullptr, &model, nullptr), 1);
  orrery_model_options options;
  orrery_model_options_init(&options);
  options.device = "abacus";
  EXPECT_EQ(orrery_model_open("x", &options, &model, &error), 1);
  EXPECT_STREQ(error.kind, "E_PARAM");
  orrery_model_close(nullptr);
  orrery_session_close(nullptr);
  EXPECT_STREQ(orrery_version(), "0.1.0");
}

TEST_F(CApiTest, InfoIsFilled) {
  orrery_model_info info{};
  info.size = sizeof info;
  orrery_model_get_info(model, &info);
  EXPECT_STREQ(info.family, "llama");
  EXPECT_EQ(info.vocabulary, 512);
  EXPECT_GT(info.context, 0U);
  EXPECT_GT(info.weight_bytes, 100000U);
  orrery_model_info old{};
  old.size = offsetof(orrery_model_info, family);  // a caller of an older version
  orrery_model_get_info(model, &old);
  EXPECT_NE(old.name, nullptr);
  EXPECT_EQ(old.family, nullptr);
}

TEST_F(CApiTest, TextAndTokens) {
  const std::string text = "Hello world";
  const std::vector<int32_t> ids = tokenize(text);
  ASSERT_FALSE(ids.empty());
  size_t size = 0;
  ASSERT_EQ(orrery_detokenize(model, ids.data(), ids.size(), 0, nullptr, 0, &size, &error), 0);
  std::string back(size, 0);
  ASSERT_EQ(orrery_detokenize(model, ids.data(), ids.size(), 0, back.data(), size, &size, &error),
            0);
  EXPECT_EQ(back, text);
  int32_t one = 0;
  EXPECT_EQ(orrery_detokenize(model, ids.data(), ids.size(), 0, back.data(), 1, &size, &error), 1);
  EXPECT_STREQ(error.kind, "E_BUFFER");
  one = -7;
  EXPECT_EQ(orrery_detokenize(model, &one, 1, 0, nullptr, 0, &size, &error), 1);
  EXPECT_STREQ(error.kind, "E_TOKENS");
}

TEST_F(CApiTest, GeneratesTheGoldenTokens) {
  const std::vector<int32_t> prompt{0, 169, 489, 81, 206, 337, 28};
  const std::vector<int32_t> expected{84, 215, 135, 135, 135, 135, 135, 287, 134, 135, 135, 135};
  orrery_session* session = nullptr;
  ASSERT_EQ(orrery_session_open(model, &session, &error), 0) << error.message;
  std::vector<float> logits(512);
  ASSERT_EQ(orrery_evaluate(session, prompt.data(), prompt.size(), logits.data(), 512, &error), 0);
  EXPECT_NEAR(logits[84], 3.2154448, 2e-2);
  orrery_sampling sampling;
  orrery_sampling_init(model, &sampling);
  sampling.temperature = 0;
  orrery_generate_options options;
  orrery_generate_options_init(&options);
  options.max_tokens = 12;
  std::string text;
  options.user = &text;
  options.on_text = [](const char* piece, size_t size, void* user) {
    static_cast<std::string*>(user)->append(piece, size);
    return 0;
  };
  std::vector<int32_t> ids(12);
  orrery_generation generation{};
  generation.size = sizeof generation;
  ASSERT_EQ(orrery_generate(session, prompt.data(), prompt.size(), &sampling, &options, ids.data(),
                            ids.size(), &generation, &error),
            0)
      << error.message;
  EXPECT_EQ(ids, expected);
  EXPECT_EQ(generation.generated_tokens, 12U);
  EXPECT_EQ(generation.reused_tokens, 6U);
  EXPECT_STREQ(generation.finish, "length");
  EXPECT_FALSE(text.empty());
  sampling.top_p = 2;
  EXPECT_EQ(orrery_generate(session, prompt.data(), prompt.size(), &sampling, &options, nullptr, 0,
                            nullptr, &error),
            1);
  EXPECT_STREQ(error.kind, "E_PARAM");
  orrery_session_close(session);
}

TEST_F(CApiTest, SessionsAreCountedAndOutliveTheirModel) {
  orrery_session* a = nullptr;
  orrery_session* b = nullptr;
  orrery_session* c = nullptr;
  ASSERT_EQ(orrery_session_open(model, &a, &error), 0);
  ASSERT_EQ(orrery_session_open(model, &b, &error), 0);
  EXPECT_EQ(orrery_session_open(model, &c, &error), 1);
  EXPECT_STREQ(error.kind, "E_SEQUENCES");
  orrery_model_close(model);
  model = nullptr;
  const int32_t id = 5;
  EXPECT_EQ(orrery_evaluate(a, &id, 1, nullptr, 0, &error), 0) << error.message;
  const int32_t bad = 100000;
  EXPECT_EQ(orrery_evaluate(a, &bad, 1, nullptr, 0, &error), 1);
  EXPECT_STREQ(error.kind, "E_TOKENS");
  orrery_session_clear(b);
  orrery_session_close(a);
  orrery_session_close(b);
}

std::vector<float> embed(const orrery_model* model, const std::vector<int32_t>& ids) {
  orrery_error error{};
  size_t count = 0;
  EXPECT_EQ(orrery_embed(model, nullptr, 0, nullptr, 0, &count, &error), 0);
  std::vector<float> vector(count);
  EXPECT_EQ(orrery_embed(model, ids.data(), ids.size(), vector.data(), count, &count, &error), 0)
      << error.message;
  EXPECT_EQ(count, vector.size());
  return vector;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

TEST_F(CApiTest, VectorsOfTextsAreThoseOfTheReference) {
  orrery_model_options options;
  orrery_model_options_init(&options);
  options.device = "reference";
  orrery_model* reference = nullptr;
  ASSERT_EQ(orrery_model_open(golden("").c_str(), &options, &reference, &error), 0);
  std::vector<int32_t> ids = tokenize("The quick brown fox jumps over the lazy dog.");
  while (ids.size() < 70) ids.insert(ids.end(), ids.begin(), ids.begin() + 5);
  const std::vector<float> vector = embed(model, ids);
  EXPECT_NEAR(cosine(vector, embed(reference, ids)), 1.0, 1e-3);
  double squares = 0.0;
  for (const float x : vector) squares += double{x} * x;
  EXPECT_NEAR(squares, 1.0, 1e-5);
  EXPECT_EQ(embed(model, ids), vector);  // nothing is left of the first call
  ids.back() = ids.front();
  EXPECT_LT(cosine(vector, embed(reference, ids)), 0.99);
  orrery_model_close(reference);
}

TEST(CApiEncoder, MakesVectorsAndNoSession) {
  const std::string bert = orrery::test::source_dir() + "/tests/golden/bert";
  orrery_error error{};
  orrery_model* model = nullptr;
  ASSERT_EQ(orrery_model_open(bert.c_str(), nullptr, &model, &error), 0) << error.message;
  int32_t ids[16];
  size_t count = 0;
  ASSERT_EQ(orrery_tokenize(model, "hello world", 11, 1, 0, ids, 16, &count, &error), 0);
  ASSERT_EQ(count, 4U);  // [CLS] hello world [SEP]
  const std::vector<float> vector = embed(model, {ids, ids + count});
  EXPECT_EQ(vector.size(), 64U);
  double squares = 0.0;
  for (const float x : vector) squares += double{x} * x;
  EXPECT_NEAR(squares, 1.0, 1e-5);
  orrery_session* session = nullptr;
  EXPECT_EQ(orrery_session_open(model, &session, &error), 1);
  EXPECT_STREQ(error.kind, "E_ENCODER");
  orrery_model_info info{};
  info.size = sizeof info;
  orrery_model_get_info(model, &info);
  EXPECT_STREQ(info.family, "bert");
  EXPECT_EQ(info.context, 128U);
  orrery_model_close(model);
}

TEST_F(CApiTest, WhatIsMissingSaysSo) {
  size_t count = 0;
  float x = 0.0F;
  EXPECT_EQ(orrery_embed(model, nullptr, 0, &x, 1, &count, &error), 1);
  EXPECT_STREQ(error.kind, "E_TOKENS");
  EXPECT_EQ(orrery_render(model, "[]", 1, nullptr, 0, &count, &error), 1);
  EXPECT_STREQ(error.kind, "E_NOTEMPLATE");
  EXPECT_EQ(orrery_render(model, "[", 1, nullptr, 0, &count, &error), 1);
  EXPECT_STREQ(error.kind, "E_JSON");
}

TEST_F(CApiTest, AnAdapterChangesTheSessionThatHasIt) {
  orrery::test::TinyAdapter random;
  random.add({"", "model.layers.0.mlp.down_proj", 128, 224, 2});
  const orrery::test::TempDir files;
  files.write("a/adapter_model.safetensors", random.tensors());
  files.write("a/adapter_config.json", random.config());
  uint32_t adapter = 9;
  ASSERT_EQ(orrery_adapter_load(model, files.file("a").c_str(), &adapter, &error), 0)
      << error.message;
  EXPECT_EQ(adapter, 0U);
  orrery_session* session = nullptr;
  ASSERT_EQ(orrery_session_open(model, &session, &error), 0);
  const std::vector<int32_t> ids = tokenize("Hello there");
  orrery_model_info info;
  info.size = sizeof info;
  orrery_model_get_info(model, &info);
  const auto logits = [&](std::vector<orrery_adapter_use> uses) {
    EXPECT_EQ(orrery_session_set_adapters(session, uses.data(), uses.size(), &error), 0);
    std::vector<float> values(static_cast<size_t>(info.vocabulary));
    EXPECT_EQ(
        orrery_evaluate(session, ids.data(), ids.size(), values.data(), values.size(), &error), 0);
    return values;
  };
  const auto plain = logits({});
  EXPECT_NE(logits({{adapter, 1.0F}}), plain);
  EXPECT_EQ(logits({{adapter, 0.0F}}), plain);
  const orrery_adapter_use unknown{7, 1.0F};
  EXPECT_EQ(orrery_session_set_adapters(session, &unknown, 1, &error), 1);
  EXPECT_STREQ(error.kind, "E_ADAPTER");
  EXPECT_EQ(orrery_adapter_load(model, nullptr, &adapter, &error), 1);
  EXPECT_EQ(orrery_adapter_load(model, files.file("none").c_str(), &adapter, &error), 1);
  EXPECT_STREQ(error.kind, "E_NOTFOUND");
  orrery_session_close(session);
}

}  // namespace
