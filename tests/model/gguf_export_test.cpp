// safetensors written as GGUF: read again, the model is the same.
#include <gtest/gtest.h>

#include "model/gguf_image.hpp"
#include "storage/gguf_writer.hpp"
#include "support/golden.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace orrery::model {
namespace {

// Everything in F32: exact.
Status write_f32(const std::string& folder, const std::string& out) {
  storage::Io& io = storage::system_io();
  ORRERY_TRY(const auto checkpoint, storage::Checkpoint::open(folder, io));
  ORRERY_TRY(const GgufImage image, gguf_image(checkpoint));
  std::vector<storage::GgufTensor> targets;
  for (const ImageTensor& tensor : image.tensors) {
    targets.push_back(tensor.as);
    targets.back().type = DType::f32;
  }
  ORRERY_TRY(auto writer, storage::GgufWriter::create(out, image.metadata, targets, io));
  for (const ImageTensor& tensor : image.tensors) {
    std::vector<float> row(tensor.as.dims[0]);
    for (std::uint64_t r = 0; r < tensor.as.n_rows(); ++r) {
      tensor.read_row(r, row.data());
      ORRERY_TRY_VOID(writer.append(std::as_bytes(std::span(row))));
    }
  }
  return writer.finish();
}

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
                         ::testing::Values("llama", "llama3-rope", "smollm3", "qwen2", "qwen3",
                                           "gemma2", "gemma3", "phi3", "glm4", "olmo2", "gpt2",
                                           "mixtral"),
                         print_name);

class OwnExport : public ::testing::TestWithParam<const char*> {};

TEST_P(OwnExport, IsTheSameModel) {
  check_export(test::source_dir() + "/tests/golden/" + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Definitions, OwnExport,
                         ::testing::Values("granite", "qwen2-yarn", "phi3-longrope",
                                           "mistral-window"),
                         print_name);

// GGUF has no key for an activation function: its readers take the family's own.
TEST(ExportRefusal, NamesWhatGgufCannotSay) {
  const std::string folder = test::source_dir() + "/tests/golden/granite";
  const test::TempDir temporary;
  std::filesystem::copy(folder, temporary.path());
  std::ifstream file(folder + "/config.json");
  auto config = nlohmann::json::parse(file);
  config["hidden_act"] = "gelu";
  std::filesystem::remove(temporary.file("config.json"));
  temporary.write("config.json", config.dump());
  const auto refused = write_f32(temporary.path(), temporary.file("out.gguf"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_EXPORT");
  EXPECT_NE(refused.error().message.find("activation function"), std::string::npos);
}

TEST(ExportRefusal, NamesTheFamiliesThatCanBeWritten) {
  const std::string folder = test::shared_dir() + "/data/golden/deepseek-v3";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const test::TempDir temporary;
  const auto refused = write_f32(folder, temporary.file("out.gguf"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_EXPORT");
  EXPECT_NE(refused.error().message.find("only these: llama"), std::string::npos);
}

}  // namespace
}  // namespace orrery::model
