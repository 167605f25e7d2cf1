// Golden models of every kind of cache, saved by one process and restored by another (a model that
// was opened anew): the bits of a session that was never interrupted.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/model.hpp"
#include "engine/session_file.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

struct Case {
  const char* name;
  DType k_type = DType::f16, v_type = DType::f16;
  bool deterministic = true;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << " " << dtype_info(c.k_type).name << (c.deterministic ? " deterministic" : "");
}

class GoldenRestore : public testing::TestWithParam<Case> {
 protected:
  std::shared_ptr<const Model> open() {
    const std::string name = GetParam().name;
    const std::string file = test::shared_dir() + "/data/golden/" + name + "/" + name + "-f16.gguf";
    ModelOptions options;
    options.threads = 2;
    options.deterministic = GetParam().deterministic;
    options.k_type = GetParam().k_type;
    options.v_type = GetParam().v_type;
    auto model = Model::open(file, options, storage::system_io());
    EXPECT_TRUE(model) << model.error().message;
    return model ? *model : nullptr;
  }
  Tokens golden_tokens() const {
    Tokens tokens;
    std::ifstream file(test::shared_dir() + "/data/golden/" + GetParam().name + "/golden.json");
    const auto json = nlohmann::json::parse(file, nullptr, false);
    for (const auto& prompt : json["prompts"]) {
      for (const char* part : {"ids", "greedy"}) {
        const Tokens more = prompt[part];
        tokens.insert(tokens.end(), more.begin(), more.end());
      }
    }
    return tokens;
  }
  static std::vector<float> evaluate(Session& session, const Tokens& tokens) {
    const auto result = session.evaluate(tokens);
    EXPECT_TRUE(result) << result.error().message;
    return {result->logits.begin(), result->logits.end()};
  }
};

TEST_P(GoldenRestore, GoesOnWithTheSameBits) {
  if (!std::filesystem::exists(test::shared_dir() + "/data/golden/" + GetParam().name)) {
    GTEST_SKIP() << "needs ../shared/data/golden";
  }
  const test::TempDir folder;
  const auto before = open(), after = open();
  ASSERT_TRUE(before && after);
  Tokens tokens = golden_tokens();
  tokens.resize(std::min<std::size_t>(tokens.size(), before->info().context - 16));
  ASSERT_GT(tokens.size(), 90U);
  const auto uninterrupted = *Session::open(before->executor());
  evaluate(*uninterrupted, Tokens(tokens.begin(), tokens.begin() + 70));  // cut in two
  evaluate(*uninterrupted, tokens);
  const auto identity = kv_identity(*before->executor(), &before->checkpoint());
  ASSERT_EQ(identity, kv_identity(*after->executor(), &after->checkpoint()));
  {
    const auto file = *SessionFile::open(storage::system_state_io(), folder.file("s"), identity);
    ASSERT_TRUE(file->save(*uninterrupted, "text"));
  }
  const auto restored = *Session::open(after->executor());
  const auto file = *SessionFile::open(storage::system_state_io(), folder.file("s"), identity);
  const Restored what = file->restore(*restored);
  EXPECT_EQ(what.tokens, tokens.size());
  EXPECT_FALSE(what.problem);
  for (int i = 0; i < 12; ++i) {
    tokens.push_back(static_cast<text::TokenId>(tokens[i]));
    const std::vector<float> expected = evaluate(*uninterrupted, tokens);
    const auto result = restored->evaluate(tokens);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->reused, tokens.size() - 1);
    ASSERT_TRUE(std::ranges::equal(result->logits, expected)) << i;
    ASSERT_TRUE(std::ranges::any_of(expected, [](float x) { return x != 0.0F; }));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GoldenRestore,
    testing::Values(Case{"llama"}, Case{"llama", DType::f16, DType::f16, false},
                    Case{"llama", DType::q8_0, DType::q8_0}, Case{"gemma3"},
                    Case{"gemma3", DType::f16, DType::f16, false}, Case{"deepseek-v2"},
                    Case{"deepseek-v3", DType::f16, DType::f16, false}, Case{"lfm2"},
                    Case{"mamba2"}, Case{"qwen3-next"},
                    Case{"mamba2", DType::f16, DType::f16, false}, Case{"gpt-oss"}));

// Other weights, other types, another way to compute: none takes the other's pages.
TEST(KvIdentity, TellsModelsApart) {
  const std::string golden = test::shared_dir() + "/data/golden/";
  if (!std::filesystem::exists(golden + "llama")) GTEST_SKIP() << "needs ../shared/data/golden";
  const auto identity_of = [&](const std::string& file, bool deterministic, DType type) {
    ModelOptions options;
    options.threads = 2;
    options.deterministic = deterministic;
    options.k_type = options.v_type = type;
    const auto model = *Model::open(file, options, storage::system_io());
    return kv_identity(*model->executor(), &model->checkpoint());
  };
  const std::string llama = golden + "llama/llama-f16.gguf";
  const KvIdentity mine = identity_of(llama, false, DType::f16);
  EXPECT_EQ(identity_of(llama, false, DType::f16), mine);
  EXPECT_NE(difference(identity_of(llama, true, DType::f16), mine).find("--deterministic"),
            std::string_view::npos);
  EXPECT_NE(difference(identity_of(llama, false, DType::q8_0), mine).find("--kv-type"),
            std::string_view::npos);
  // The same table with another number in the middle of a tensor.
  const test::TempDir folder;
  std::ifstream in(llama, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto model = *Model::open(llama, {}, storage::system_io());
  const storage::TensorInfo& tensor = model->checkpoint().tensors().back();
  bytes[tensor.offset + tensor.bytes / 2] ^= 1;
  const KvIdentity other = identity_of(folder.write("a.gguf", bytes), false, DType::f16);
  EXPECT_EQ(difference(other, mine), "it is of another model");
}

}  // namespace
}  // namespace orrery::engine
