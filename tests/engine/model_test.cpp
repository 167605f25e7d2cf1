// Models from real files: the golden llama of the shared folder.
#include "engine/model.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/eval.hpp"
#include "engine/session.hpp"
#include "support/memory_io.hpp"
#include "support/paths.hpp"
#include "support/process.hpp"

namespace orrery::engine {
namespace {

std::string golden(const std::string& file) {
  return test::shared_dir() + "/data/golden/llama/" + file;
}

class ModelTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(golden("golden.json"))) {
      GTEST_SKIP() << "the golden models are not here";
    }
  }
  static std::shared_ptr<const Model> open(const std::string& file, ModelOptions options = {}) {
    options.threads = 1;
    auto model = Model::open(golden(file), options, storage::system_io());
    EXPECT_TRUE(model.has_value()) << model.error().message;
    return *model;
  }
};

TEST_F(ModelTest, FiguresForPeople) {
  const auto model = open("llama-f16.gguf");
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.family, "llama");
  EXPECT_EQ(info.context, 512U);
  EXPECT_EQ(info.training_context, 512U);
  EXPECT_EQ(info.threads, 1);
  EXPECT_GT(info.scratch_bytes, 0U);
  const plan::CacheGroup& group = model->executor()->decode_plan().groups[0];
  EXPECT_EQ(info.cache_bytes_per_token, group.page_bytes() / 64);
  EXPECT_EQ(model->n_tokens(), 512);
  EXPECT_EQ(model->chat_template().error().kind, "E_NOTEMPLATE");
  std::uint64_t matrices = 0, bytes = 0;
  for (const storage::TensorInfo& tensor : model->checkpoint().tensors()) {
    if (tensor.n_dims > 1) matrices += tensor.bytes;
  }
  for (const auto span : model->weight_spans()) bytes += span.size();
  EXPECT_EQ(bytes, matrices);
  EXPECT_LT(bytes, info.weight_bytes);
}

TEST_F(ModelTest, KeysAndValuesHaveTypesOfTheirOwn) {
  ModelOptions options;
  options.k_type = DType::f32;
  options.v_type = DType::bf16;
  const auto mixed = open("llama-f16.gguf", options);
  const plan::CacheGroup group = mixed->executor()->prefill_plan().groups[0];
  EXPECT_EQ(group.k_type, DType::f32);
  EXPECT_EQ(group.v_type, DType::bf16);
  EXPECT_EQ(mixed->info().cache_bytes_per_token,
            group.layers * group.kv_heads * (4 * group.k_dim + 2 * group.v_dim));
  options.device = Device::cpu_f32;  // nearly exact, whatever was asked for
  EXPECT_EQ(open("llama-f16.gguf", options)->executor()->decode_plan().groups[0].v_type,
            DType::f32);
}

TEST_F(ModelTest, AQuantizedCacheTakesLessAndWholeBlocks) {
  const std::uint64_t half = open("llama-f16.gguf")->info().cache_bytes_per_token;
  ModelOptions options;
  options.k_type = DType::q8_0;
  options.v_type = DType::q4_0;
  EXPECT_EQ(open("llama-f16.gguf", options)->info().cache_bytes_per_token, half * (34 + 18) / 128);
  const std::string latent = golden("../deepseek-v2-lite/deepseek-v2-lite-f16.gguf");
  EXPECT_EQ(Model::open(latent, options, storage::system_io()).error().message,
            "the latents of this model are not cached as Q8_0: choose f16, bf16 or f32");
  const std::string heads_of_48 = golden("../mistral/mistral-f16.gguf");
  const auto refused = Model::open(heads_of_48, options, storage::system_io());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_UNSUPPORTED");
  EXPECT_EQ(refused.error().message,
            "a cache of Q8_0 needs heads of a multiple of 32 values and those of this model have "
            "48: choose f16, bf16 or f32");
}

TEST_F(ModelTest, ContextIsCappedByMemoryOrRefused) {
  ModelOptions options;
  const std::uint64_t page = open("llama-f16.gguf")->info().cache_bytes_per_token * 64;
  options.cache_budget_bytes = page * 3 + 10;
  const auto capped = open("llama-f16.gguf", options);
  EXPECT_EQ(capped->info().context, 192U);
  ASSERT_EQ(capped->warnings().size(), 1U);
  options.context = 193;
  EXPECT_EQ(Model::open(golden("llama-f16.gguf"), options, storage::system_io()).error().kind,
            "E_MEMORY");
  options.context = 100;
  EXPECT_EQ(open("llama-f16.gguf", options)->info().context, 100U);
  options.cache_budget_bytes = page - 1;
  options.context = 0;
  EXPECT_EQ(Model::open(golden("llama-f16.gguf"), options, storage::system_io()).error().kind,
            "E_MEMORY");
}

TEST_F(ModelTest, GreedyTokensOfEveryFormatAndDevice) {
  const auto expected = nlohmann::json::parse(std::ifstream(golden("golden.json")));
  for (const char* file : {"llama-f16.gguf", ""}) {
    for (const Device device : {Device::cpu, Device::cpu_f32, Device::reference}) {
      ModelOptions options;
      options.device = device;
      options.deterministic = true;
      const auto model = open(file, options);
      const auto session = *Session::open(model->executor());
      for (const auto& prompt : expected["prompts"]) {
        const auto ids = prompt["ids"].get<std::vector<text::TokenId>>();
        const auto greedy = prompt["greedy"].get<std::vector<text::TokenId>>();
        const auto report =
            report_logits(*session, ids, 10, static_cast<std::uint32_t>(greedy.size()));
        ASSERT_TRUE(report.has_value());
        EXPECT_EQ(report->greedy, greedy) << file;
        EXPECT_NEAR(report->top[0].second, prompt["top10"][0][1].get<float>(), 0.03);
      }
    }
  }
}

TEST_F(ModelTest, DivergenceOfTheFastPathFromTheReferenceIsSmall) {
  ModelOptions options;
  const auto fast = open("llama-f16.gguf", options);
  options.device = Device::reference;
  const auto slow = open("llama-f16.gguf", options);
  EvalText text;
  text.context = 64;
  for (int i = 0; i < 200; ++i) text.tokens.push_back((i * i + 7 * i) % 512);
  const auto a = *Session::open(fast->executor());
  const auto b = *Session::open(slow->executor());
  const auto result = evaluate_divergence(*a, *b, text);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->scored, 3U * 31U);
  EXPECT_LT(result->mean_kl, 1e-4);
  EXPECT_GT(result->same_top1, 0.95);
}

// Fails the k-th call for every k of a load: an error each time, until there is no such call. Gives
// the number of calls.
int fail_every_call(test::MemoryIo& io, const std::string& path, const ModelOptions& options) {
  for (int k = 1; k < 100; ++k) {
    io.calls = 0;
    io.fail_call = k;
    const auto model = Model::open(path, options, io);
    if (io.calls < k) {
      EXPECT_TRUE(model.has_value()) << model.error().message;
      if (model && options.load == storage::LoadMode::direct) {
        EXPECT_EQ((*model)->info().load.rfind("read by memory into a ", 0), 0U);
      }
      return k - 1;
    }
    const std::string_view kind = model ? "" : model.error().kind;
    EXPECT_TRUE(kind == "E_IO" || kind == "E_CHANGED") << k << " " << kind;
  }
  return 100;
}

TEST_F(ModelTest, EveryCallOfALoadMayFail) {
  test::MemoryIo io;
  io.files["m.gguf"] = test::slurp(golden("llama-f16.gguf"));
  for (const auto& file : std::filesystem::directory_iterator(golden(""))) {
    if (!file.is_regular_file() || file.path().extension() == ".gguf") continue;
    io.files["folder/" + file.path().filename().string()] = test::slurp(file.path());
  }
  ModelOptions options;
  options.threads = 1;
  EXPECT_EQ(fail_every_call(io, "m.gguf", options), 2);  // looked at, mapped
  EXPECT_EQ(fail_every_call(io, "folder", options), 10);
  options.load = storage::LoadMode::direct;
  // Looked at twice, opened, one request started and ended, compared.
  EXPECT_EQ(fail_every_call(io, "m.gguf", options), 6);
}

}  // namespace
}  // namespace orrery::engine
