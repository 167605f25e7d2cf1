#include "engine/model_defaults.hpp"

#include <gtest/gtest.h>

namespace orrery::engine {
namespace {

class Checkpoint final : public storage::Checkpoint {
 public:
  storage::Format format() const override { return storage::Format::safetensors; }
  const std::string& path() const override { return empty; }
  std::span<const std::string> files() const override { return {}; }
  const storage::Metadata& metadata() const override { return meta; }
  std::span<const storage::TensorInfo> tensors() const override { return {}; }
  const storage::TensorInfo* find(std::string_view) const override { return nullptr; }
  std::string_view config_json() const override { return {}; }
  std::string_view tokenizer_json() const override { return {}; }
  std::string_view tokenizer_config_json() const override { return tokenizer_config; }
  std::string_view generation_config_json() const override { return generation_config; }
  std::string_view chat_template_jinja() const override { return jinja; }
  std::span<const std::string> warnings() const override { return {}; }
  Status check_files(bool /*on_disk*/) const override { return {}; }

  storage::Metadata meta;
  std::string tokenizer_config, generation_config, jinja, empty;
};

TEST(ModelDefaults, TheEnginesOwn) {
  std::vector<std::string> warnings;
  const SamplerParams p = sampling_defaults(Checkpoint{}, warnings);
  EXPECT_EQ(p.temperature, 0.8F);
  EXPECT_EQ(p.top_k, 40);
  EXPECT_EQ(p.top_p, 0.95F);
  EXPECT_EQ(p.min_p, 0.05F);
  EXPECT_TRUE(warnings.empty());
}

TEST(ModelDefaults, GenerationConfig) {
  Checkpoint checkpoint;
  checkpoint.generation_config =
      R"({"temperature": 0.7, "top_k": 20, "top_p": 3, "min_p": "x", "repetition_penalty": 1.1})";
  std::vector<std::string> warnings;
  SamplerParams p = sampling_defaults(checkpoint, warnings);
  EXPECT_EQ(p.temperature, 0.7F);
  EXPECT_EQ(p.top_k, 20);
  EXPECT_EQ(p.top_p, 0.95F);
  EXPECT_EQ(p.min_p, 0.05F);
  EXPECT_EQ(p.repeat_penalty, 1.1F);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[0].find("top_p"), std::string::npos);
  warnings.clear();
  checkpoint.generation_config = R"({"do_sample": false, "top_k": 2.5})";
  p = sampling_defaults(checkpoint, warnings);
  EXPECT_EQ(p.temperature, 0.0F);
  EXPECT_EQ(p.top_k, 40);
  EXPECT_EQ(warnings.size(), 1U);
  checkpoint.generation_config = "[";
  EXPECT_EQ(sampling_defaults(checkpoint, warnings).top_k, 40);
  EXPECT_EQ(warnings.size(), 2U);
}

TEST(ModelDefaults, GgufKeys) {
  Checkpoint checkpoint;
  checkpoint.meta.insert("general.sampling.temp", 0.25);
  checkpoint.meta.insert("general.sampling.top_k", std::uint64_t{7});
  checkpoint.meta.insert("general.sampling.mirostat", std::int64_t{9});
  std::vector<std::string> warnings;
  const SamplerParams p = sampling_defaults(checkpoint, warnings);
  EXPECT_EQ(p.temperature, 0.25F);
  EXPECT_EQ(p.top_k, 7);
  EXPECT_EQ(p.mirostat, 0);
  EXPECT_EQ(warnings.size(), 1U);
}

TEST(ModelDefaults, TemplateSources) {
  Checkpoint checkpoint;
  EXPECT_EQ(*chat_template_source(checkpoint), "");
  checkpoint.tokenizer_config = R"({"chat_template": "a"})";
  EXPECT_EQ(*chat_template_source(checkpoint), "a");
  checkpoint.tokenizer_config =
      R"({"chat_template": [{"name": "tool_use", "template": "t"},
                            {"name": "default", "template": "d"}]})";
  EXPECT_EQ(*chat_template_source(checkpoint), "d");
  checkpoint.tokenizer_config = R"({"chat_template": [{"name": "tool_use", "template": "t"}]})";
  EXPECT_EQ(chat_template_source(checkpoint).error().kind, "E_TEMPLATE");
  checkpoint.tokenizer_config = R"({"chat_template": null})";
  EXPECT_EQ(*chat_template_source(checkpoint), "");
  checkpoint.jinja = "j";
  EXPECT_EQ(*chat_template_source(checkpoint), "j");
  checkpoint.meta.insert("tokenizer.chat_template", std::string_view("g"));
  EXPECT_EQ(*chat_template_source(checkpoint), "g");
}

}  // namespace
}  // namespace orrery::engine
