// Conversations on a model folder with a chat template: the golden llama and a file of ours.
#include "engine/chat.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace orrery::engine {
namespace {

constexpr std::string_view kTemplate =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

class ChatTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path golden = test::shared_dir() + "/data/golden/llama";
    if (!std::filesystem::exists(golden)) GTEST_SKIP() << "the golden models are not here";
    for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
      std::filesystem::create_symlink(std::filesystem::absolute(golden / file), folder_.file(file));
    }
    folder_.write("tokenizer_config.json", R"({"bos_token": "<|bos|>", "eos_token": "<|eos|>"})");
  }
  std::shared_ptr<const Model> open(std::string_view chat_template) {
    folder_.write("chat_template.jinja", chat_template);
    ModelOptions options;
    options.threads = 1;
    auto model = Model::open(folder_.path(), options, storage::system_io());
    EXPECT_TRUE(model.has_value()) << model.error().message;
    return *model;
  }
  test::TempDir folder_;
};

TEST_F(ChatTest, MarkupGivesSpecialTokensAndContentDoesNot) {
  const auto model = open(kTemplate);
  const auto variables =
      parse_conversation(R"([{"role": "user", "content": "Hi <|eos|> you"}])", true);
  ASSERT_TRUE(variables.has_value());
  const auto ids = chat_tokens(*model, *variables);
  ASSERT_TRUE(ids.has_value()) << ids.error().message;
  const text::Tokenizer& tokenizer = model->tokenizer();
  EXPECT_EQ(tokenizer.decode(*ids, true), "<|bos|>[user] Hi <|eos|> you<|eos|>[assistant]");
  EXPECT_EQ(ids->front(), tokenizer.special().bos);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), tokenizer.special().eos), 1);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), tokenizer.special().bos), 1);
}

TEST_F(ChatTest, ObjectsOfVariablesStayAsTheyAre) {
  const auto model = open(kTemplate);
  const auto variables =
      parse_conversation(R"({"messages": [], "add_generation_prompt": false})", true);
  ASSERT_TRUE(variables.has_value());
  EXPECT_EQ(*render_chat(*model, *variables), "<|bos|>");
  EXPECT_EQ(*render_chat(*model, *parse_conversation("[]", true)), "<|bos|>[assistant]");
  EXPECT_EQ(parse_conversation("7", true).error().kind, "E_JSON");
  EXPECT_EQ(parse_conversation("[", true).error().kind, "E_JSON");
}

TEST_F(ChatTest, BrokenTemplateDoesNotStopTheModel) {
  const auto model = open("line one\n{% if %}");
  EXPECT_TRUE(model->has_chat_template());
  const auto refused = model->chat_template();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, "E_TEMPLATE");
  EXPECT_NE(refused.error().message.find("line 2"), std::string::npos) << refused.error().message;
  EXPECT_EQ(chat_tokens(*model, text::Json::object()).error().kind, "E_TEMPLATE");
}

}  // namespace
}  // namespace orrery::engine
