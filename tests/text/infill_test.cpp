#include "text/infill.hpp"

#include <gtest/gtest.h>

#include "text/vocabulary_support.hpp"

namespace orrery::text {
namespace {

std::shared_ptr<const Tokenizer> vocabulary(const std::string& name) {
  return test::load_gguf(test::shared_data() + "/tokenizers/ggml-vocab-" + name + ".gguf");
}

TEST(Infill, IsFoundByItsSpellings) {
  const auto starcoder = vocabulary("starcoder");
  const InfillTokens tokens = find_infill_tokens({}, *starcoder);
  EXPECT_TRUE(tokens.is_whole());
  EXPECT_EQ(starcoder->token_text(tokens.prefix), "<fim_prefix>");
  EXPECT_EQ(starcoder->token_text(tokens.suffix), "<fim_suffix>");
  EXPECT_EQ(starcoder->token_text(tokens.middle), "<fim_middle>");
  EXPECT_EQ(starcoder->token_text(tokens.repository), "<repo_name>");
  EXPECT_EQ(starcoder->token_text(tokens.file), "<file_sep>");
  const auto deepseek = vocabulary("deepseek-coder");
  const InfillTokens others = find_infill_tokens({}, *deepseek);
  EXPECT_TRUE(others.is_whole());
  EXPECT_TRUE(deepseek->token_text(others.suffix).contains("hole"));
  EXPECT_EQ(others.repository, kNoToken);
  EXPECT_FALSE(find_infill_tokens({}, *vocabulary("gpt-2")).is_whole());
}

TEST(Infill, FilesSayIt) {
  const auto tokenizer = vocabulary("gpt-2");
  storage::Metadata metadata;
  metadata.insert("tokenizer.ggml.fim_pre_token_id", std::uint64_t{5});
  metadata.insert("tokenizer.ggml.prefix_token_id", std::uint64_t{4});
  metadata.insert("tokenizer.ggml.suffix_token_id", std::uint64_t{6});
  metadata.insert("tokenizer.ggml.fim_mid_token_id", std::uint64_t{1} << 31);
  metadata.insert("tokenizer.ggml.fim_sep_token_id", std::string_view("no number"));
  const InfillTokens tokens = find_infill_tokens(metadata, *tokenizer);
  EXPECT_EQ(tokens.prefix, 5);
  EXPECT_EQ(tokens.suffix, 6);
  EXPECT_EQ(tokens.middle, kNoToken);
  EXPECT_EQ(tokens.file, kNoToken);
  EXPECT_FALSE(tokens.is_whole());
}

}  // namespace
}  // namespace orrery::text
