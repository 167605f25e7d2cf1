// safetensors written as GGUF: read again, the model is the same.
#include <gmock/gmock.h>

#include "support/gguf_export.hpp"
#include "support/golden.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace orrery::model {
namespace {

using testing::write_f32;

void check_export(const std::string& folder) {
  const test::TempDir temporary;
  const std::string out = temporary.file("out.gguf");
  const auto written = write_f32(folder, out);
  ASSERT_TRUE(written) << written.error().message;
  const auto backend = backend::make_reference_backend();
  testing::GoldenCase golden;
  golden.folder = folder;
  golden.model = out;
  testing::check_golden(*backend, golden);
}

std::string print_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

class Export : public ::testing::TestWithParam<const char*> {};

TEST_P(Export, IsTheSameModel) {
  const std::string folder = test::shared_dir() + "/data/golden/" + GetParam();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  check_export(folder);
}

INSTANTIATE_TEST_SUITE_P(Families, Export,
                         ::testing::Values("llama", "mistral", "llama3-rope", "smollm3", "qwen2",
                                           "qwen2-untied", "qwen3", "gemma2", "gemma3", "phi3",
                                           "glm4", "olmo2", "gpt2", "mixtral", "qwen2-moe",
                                           "qwen3-moe", "olmoe", "granitemoe", "gpt-oss",
                                           "deepseek-v2", "deepseek-v2-lite", "deepseek-v3", "lfm2",
                                           "mamba2", "qwen3-next"),
                         print_name);

class OwnExport : public ::testing::TestWithParam<const char*> {};

TEST_P(OwnExport, IsTheSameModel) {
  check_export(test::source_dir() + "/tests/golden/" + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Definitions, OwnExport,
                         ::testing::Values("granite", "qwen2-yarn", "phi3-longrope",
                                           "mistral-window", "deepseek-yarn", "cohere", "cohere2",
                                           "phi2", "starcoder2", "llama4", "gemma3n", "gemma4",
                                           "gemma4-moe", "gpt-oss-mxfp4"),
                         print_name);

// The last layers of Gemma 3n do without keys; llama.cpp asks for those that published files have.
TEST(ExportOfUnreadTensors, KeepsKeysOfGemma3n) {
  const test::TempDir temporary;
  std::filesystem::copy(test::source_dir() + "/tests/golden/gemma3n", temporary.path());
  const std::string theirs = "model.layers.4.self_attn.k_proj.weight";
  testing::edit_safetensors(
      temporary.file("model.safetensors"), [&](nlohmann::json& header, std::string& data) {
        const std::size_t begin = data.size(), bytes = 32 * 64 * 4;
        data.append(bytes, '\x3e');
        header[theirs] = {
            {"dtype", "F32"}, {"shape", {32, 64}}, {"data_offsets", {begin, begin + bytes}}};
      });
  const std::string out = temporary.file("out.gguf");
  const auto written = write_f32(temporary.path(), out);
  ASSERT_TRUE(written) << written.error().message;
  const auto checkpoint = storage::Checkpoint::open(out, storage::system_io());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const storage::TensorInfo* keys = (*checkpoint)->find("blk.4.attn_k.weight");
  ASSERT_NE(keys, nullptr);
  EXPECT_EQ(keys->dims, (std::array<std::uint64_t, 4>{64, 32, 1, 1}));
  EXPECT_EQ(keys->data[0], std::byte{0x3e});
  const storage::TensorInfo* inputs = (*checkpoint)->find("per_layer_token_embd.weight");
  ASSERT_NE(inputs, nullptr);  // 92 rows there, and a vocabulary of 96
  EXPECT_EQ(inputs->dims, (std::array<std::uint64_t, 4>{80, 96, 1, 1}));
  EXPECT_TRUE(load_model(*checkpoint));
}

// What Sentence Transformers keep beside the model comes along.
TEST(ExportOfEmbeddings, KeepsTheLongestText) {
  const test::TempDir temporary;
  std::filesystem::copy(test::source_dir() + "/tests/golden/bert", temporary.path(),
                        std::filesystem::copy_options::recursive);
  temporary.write("sentence_bert_config.json", R"({"max_seq_length": 64})");
  const std::string out = temporary.file("out.gguf");
  ASSERT_TRUE(write_f32(temporary.path(), out));
  const auto checkpoint = storage::Checkpoint::open(out, storage::system_io());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto model = load_model(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->hparams().text_tokens, 64U);
  EXPECT_EQ(model->hparams().pooling, plan::PoolKind::first);
}

TEST(ExportOfEmbeddings, NamesThePoolingOfModelsThatAlsoWrite) {
  const std::string folder = test::shared_dir() + "/data/golden/qwen3";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const test::TempDir temporary;
  std::filesystem::copy(folder, temporary.path());
  temporary.write("modules.json", R"([
    {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  temporary.write("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
  const std::string out = temporary.file("out.gguf");
  const auto written = write_f32(temporary.path(), out);
  ASSERT_TRUE(written) << written.error().message;
  const auto checkpoint = storage::Checkpoint::open(out, storage::system_io());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ((*checkpoint)->metadata().u32("qwen3.pooling_type").value_or(0), 3U);
}

// Changes members of a JSON file.
void update_json(const std::string& path, const nlohmann::json& changes) {
  std::ifstream in(path);
  auto config = nlohmann::json::parse(in);
  config.update(changes);
  std::filesystem::remove(path);
  std::ofstream(path) << config.dump();
}

// The error of writing a folder of tests/golden with a file changed; empty: none.
std::string refusal_of(const char* name, const nlohmann::json& changes,
                       const char* file = "config.json") {
  const test::TempDir temporary;
  std::filesystem::copy(test::source_dir() + "/tests/golden/" + name, temporary.path(),
                        std::filesystem::copy_options::recursive);
  update_json(temporary.file(file), changes);
  const auto refused = write_f32(temporary.path(), temporary.file("out.gguf"));
  if (refused) return "";
  EXPECT_EQ(refused.error().kind, "E_EXPORT");
  return refused.error().message;
}

using ::testing::HasSubstr;

// GGUF has no key for an activation function: its readers take the family's own.
TEST(ExportRefusal, NamesWhatGgufCannotSay) {
  EXPECT_THAT(refusal_of("granite", {{"hidden_act", "gelu"}}), HasSubstr("activation function"));
  EXPECT_THAT(refusal_of("deepseek-yarn", {{"rope_interleave", false}}),
              HasSubstr("rotary embedding"));
  EXPECT_THAT(refusal_of("llama4", {{"no_rope_layers", {1, 0, 1, 1}}}),
              HasSubstr("hyper-parameters"));
  EXPECT_EQ(refusal_of("llama4", {{"attn_temperature_tuning", false}}), "");
}

TEST(ExportRefusal, NamesDenseLayersOfOtherKinds) {
  EXPECT_THAT(
      refusal_of("gemma3-embed", {{"activation_function", "torch.nn.modules.activation.Tanh"}},
                 "2_Dense/config.json"),
      HasSubstr("dense layers"));
}

TEST(ExportRefusal, NamesStreamsOfUnlikeTypes) {
  const test::TempDir temporary;
  std::filesystem::copy(test::source_dir() + "/tests/golden/gemma3n", temporary.path());
  testing::edit_safetensors(temporary.file("model.safetensors"),
                            [](nlohmann::json& header, std::string&) {
                              header["model.altup_projections.1.weight"]["dtype"] = "F16";
                            });
  const auto refused = write_f32(temporary.path(), temporary.file("out.gguf"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("altup_proj of unlike types"));
}

TEST(ExportRefusal, NamesTheBiasOfExperts) {
  EXPECT_THAT(refusal_of("nomic-bert-moe", nlohmann::json::object()),
              HasSubstr("a bias of its experts (encoder.layers.1.mlp.experts.bias)"));
}

}  // namespace
}  // namespace orrery::model
