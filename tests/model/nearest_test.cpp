#include "model/nearest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/fake_checkpoint.hpp"

namespace orrery::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The keys of fake_llama under another architecture.
std::shared_ptr<FakeCheckpoint> renamed(const std::string& architecture) {
  using std::uint64_t;
  static std::set<std::string> names;  // keys are views
  const std::string_view arch = *names.insert(architecture).first;
  std::vector<Change> keys = {{"general.architecture", arch}};
  const auto add = [&](const char* key, auto value) {
    keys.push_back({*names.insert(architecture + "." + key).first, value});
  };
  add("block_count", uint64_t{1});
  add("context_length", uint64_t{128});
  add("embedding_length", uint64_t{64});
  add("feed_forward_length", uint64_t{96});
  add("attention.head_count", uint64_t{4});
  add("attention.head_count_kv", uint64_t{2});
  add("attention.layer_norm_rms_epsilon", 1e-5);
  return fake_llama(keys);
}

TEST(Nearest, SameTensorsUnderAnotherName) {
  const auto nearest = nearest_family(renamed("llama9"));
  ASSERT_TRUE(nearest) << nearest.error().message;
  EXPECT_EQ(nearest->family, "llama");
  EXPECT_THAT(nearest->missing, IsEmpty());
  EXPECT_THAT(nearest->unknown, IsEmpty());
  EXPECT_THAT(to_sentence(*nearest),
              HasSubstr("\"llama9\" is not supported; the nearest is llama"));
}

TEST(Nearest, NamesWhatIsMissingAndWhatIsUnknown) {
  const auto fake = renamed("lamma");
  fake->remove("blk.0.ffn_norm.weight");
  fake->add("blk.0.ssm_a", DType::f32, {16});
  fake->add("blk.0.attn_gate.weight", DType::f32, {64, 64});
  const auto nearest = nearest_family(fake);
  ASSERT_TRUE(nearest) << nearest.error().message;
  EXPECT_EQ(nearest->family, "llama");
  EXPECT_THAT(nearest->missing, ElementsAre("blk.N.ffn_norm.weight"));
  EXPECT_THAT(nearest->unknown, ElementsAre("blk.N.attn_gate.weight", "blk.N.ssm_a"));
  const std::string text = to_sentence(*nearest);
  EXPECT_THAT(text, HasSubstr("the file lacks 1 of its tensors (blk.N.ffn_norm.weight)"));
  EXPECT_THAT(text, HasSubstr("2 of the file's are unknown to it"));
}

TEST(Nearest, TensorsCountMoreThanTheName) {
  const auto fake = renamed("gemma4");
  fake->add("blk.0.attn_q_norm.weight", DType::f32, {16});
  fake->add("blk.0.attn_k_norm.weight", DType::f32, {16});
  const auto nearest = nearest_family(fake);
  ASSERT_TRUE(nearest) << nearest.error().message;
  EXPECT_EQ(nearest->family, "qwen3");
}

TEST(Nearest, WithoutParametersTheNameDecides) {
  const auto nearest =
      nearest_family(fake_llama({{"general.architecture", std::string_view("qwen2x")}}));
  ASSERT_TRUE(nearest) << nearest.error().message;
  EXPECT_EQ(nearest->family, "qwen2");
  EXPECT_THAT(to_sentence(*nearest), HasSubstr("but key qwen2x.block_count is missing"));
}

}  // namespace
}  // namespace orrery::model
