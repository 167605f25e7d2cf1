// Every family against transformers, on the reference backend, from GGUF and from safetensors.
#include <gtest/gtest.h>

#include "support/golden.hpp"
#include "support/paths.hpp"

namespace orrery::model {
namespace {

struct Param {
  std::string name;
  bool gguf;
};

std::string print_name(const ::testing::TestParamInfo<Param>& info) {
  std::string name = info.param.name + (info.param.gguf ? "_gguf" : "_safetensors");
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<Param> all_cases() {
  std::vector<Param> params;
  for (const char* name :
       {"llama",     "mistral",     "llama3-rope",      "smollm3",     "qwen2", "qwen2-untied",
        "qwen3",     "gemma2",      "gemma3",           "phi3",        "glm4",  "olmo2",
        "gpt2",      "mixtral",     "qwen2-moe",        "qwen3-moe",   "olmoe", "granitemoe",
        "gpt-oss",   "deepseek-v2", "deepseek-v2-lite", "deepseek-v3", "lfm2",  "mamba2",
        "qwen3-next"}) {
    for (const bool gguf : {true, false}) params.push_back({name, gguf});
  }
  return params;
}

class Golden : public ::testing::TestWithParam<Param> {};

TEST_P(Golden, ReferenceBackendEqualsTransformers) {
  const std::string folder = test::shared_dir() + "/data/golden/" + GetParam().name;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  testing::GoldenCase golden;
  golden.folder = folder;
  golden.model = GetParam().gguf ? folder + "/" + GetParam().name + "-f16.gguf" : folder;
  const auto backend = backend::make_reference_backend();
  testing::check_golden(*backend, golden);
}

// Models of tests/golden/make.py: what no folder of transformers' models exercises.
class OwnGolden : public ::testing::TestWithParam<Param> {};

TEST_P(OwnGolden, ReferenceBackendEqualsDefinitions) {
  const std::string folder = test::source_dir() + "/tests/golden/" + GetParam().name;
  testing::GoldenCase golden;
  golden.folder = folder;
  golden.model = GetParam().gguf ? folder + "/" + GetParam().name + "-f16.gguf" : folder;
  const auto backend = backend::make_reference_backend();
  testing::check_golden(*backend, golden);
}

std::vector<Param> own_cases() {
  std::vector<Param> params;
  for (const char* name : {"granite", "qwen2-yarn", "phi3-longrope", "mistral-window",
                           "deepseek-yarn", "cohere", "cohere2", "phi2", "starcoder2", "llama4",
                           "gemma3n", "gemma4", "gemma4-moe", "gpt-oss-mxfp4"}) {
    for (const bool gguf : {true, false}) params.push_back({name, gguf});
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(Definitions, OwnGolden, ::testing::ValuesIn(own_cases()), print_name);
INSTANTIATE_TEST_SUITE_P(Families, Golden, ::testing::ValuesIn(all_cases()), print_name);

}  // namespace
}  // namespace orrery::model
