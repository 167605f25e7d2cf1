// Calls as the templates of the families write them: what a template renders is what a model was
// taught to write, so the constraint has to let it through and the parser has to read it.
#include <gtest/gtest.h>

#include "text/chat_template.hpp"
#include "text/conversation.hpp"
#include "text/grammar_support.hpp"
#include "text/tool_argument_rules.hpp"
#include "text/tool_constraint.hpp"
#include "text/vocabulary_support.hpp"

namespace orrery::text {
namespace {

using Kind = ReplyPart::Kind;

struct Family {
  const char* name;
  bool is_parallel = true;  // the template renders more than one call of a turn
};

constexpr Family kFamilies[] = {{"Apertus-8B-Instruct"},
                                {"Apriel-1.6-15b-Thinker-fixed"},
                                {"Bielik-11B-v3.0-Instruct"},
                                {"ByteDance-Seed-OSS"},
                                {"CohereForAI-c4ai-command-r7b-12-2024-tool_use"},
                                {"Cohere2MoE"},
                                {"GLM-4.6"},
                                {"GigaChat3.1-10B-A1.8B", false},
                                {"MiMo-VL"},
                                {"MiniMax-M1"},
                                {"Mistral-Small-3.2-24B-Instruct-2506"},
                                {"NVIDIA-Nemotron-Nano-v2"},
                                {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use"},
                                {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use"},
                                {"Qwen-QwQ-32B"},
                                {"Qwen-Qwen2.5-7B-Instruct"},
                                {"Qwen-Qwen3-0.6B"},
                                {"Qwen3-Coder"},
                                {"Reka-Edge"},
                                {"Spark2.5"},
                                {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B"},
                                {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"},
                                {"deepseek-ai-DeepSeek-V3.1"},
                                {"deepseek-ai-DeepSeek-V4"},
                                {"deepseek-ai-DeepSeek-V4-Flash-0731"},
                                {"google-gemma-4-31B-it"},
                                {"ibm-granite-granite-4.0"},
                                {"inclusionai-ling-3.0-flash"},
                                {"meetkai-functionary-medium-v3.1"},
                                {"meta-llama-Llama-3.1-8B-Instruct", false},
                                {"meta-llama-Llama-3.2-3B-Instruct", false},
                                {"meta-llama-Llama-3.3-70B-Instruct", false},
                                {"mistralai-Mistral-Nemo-Instruct-2407"},
                                {"moonshotai-Kimi-K2"},
                                {"openai-gpt-oss-120b", false},
                                {"openbmb-MiniCPM5-1B"},
                                {"poolside-Laguna-S-2.1"},
                                {"poolside-Laguna-XS-2.1"},
                                {"poolside-Laguna-XS.2"},
                                {"unsloth-Apriel-1.5"},
                                {"unsloth-mistral-Devstral-Small-2507"}};

Json tools() {
  return Json::parse(R"([{"type":"function","function":{"name":"find_train","description":"d",
      "parameters":{"type":"object","properties":{
        "city":{"type":"string","description":"where"},"days":{"type":"integer"},
        "zip":{"type":"string"}},"required":["city","days","zip"]}}},
    {"type":"function","function":{"name":"now","description":"d",
      "parameters":{"type":"object","properties":{}}}}])");
}

Json call(const std::string& name, const Json& arguments, int i) {
  return {{"id", "call0000" + std::to_string(i)},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", arguments.dump()}}}};
}

const Json kArguments = {{"city", "Saint \"Malo\"\n<b>"}, {"days", 3}, {"zip", "35400"}};

// What a template writes for a turn of the model.
std::string written(const Family& family, const Json& calls) {
  const std::string source =
      test::read_text(test::shared_data() + "/templates/" + family.name + ".jinja");
  const auto compiled = ChatTemplate::compile(source);
  if (!compiled) {
    ADD_FAILURE() << family.name << ": " << compiled.error().message;
    return {};
  }
  const auto render = [&](Json messages, bool prompt) {
    const auto pieces = render_conversation(**compiled, {{"messages", std::move(messages)},
                                                         {"tools", tools()},
                                                         {"add_generation_prompt", prompt},
                                                         {"bos_token", "<s>"},
                                                         {"eos_token", "</s>"}});
    EXPECT_TRUE(pieces) << family.name << ": " << (pieces ? "" : pieces.error().message);
    std::string text;
    if (pieces) {
      for (const RenderedPiece& piece : *pieces) text += piece.text;
    }
    return text;
  };
  const Json user = {{"role", "user"}, {"content", "Hello"}};
  const Json turn = {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", calls}};
  const std::string prompt = render(Json::array({user}), true);
  const std::string whole = render(Json::array({user, turn}), false);
  auto differ = std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end()).second;
  // Two marks may begin alike.
  const std::size_t at = static_cast<std::size_t>(differ - whole.begin());
  const std::size_t mark = whole.find_last_of("<>", at);
  if (mark != std::string::npos && whole[mark] == '<') differ = whole.begin() + mark;
  return {differ, whole.end()};
}

ToolFormat format_of(const Family& family) {
  return find_tool_format(
      test::read_text(test::shared_data() + "/templates/" + family.name + ".jinja"));
}

struct Read {
  std::vector<std::pair<std::string, std::string>> calls;  // name, arguments
  std::size_t ended = 0;
  std::string content, reasoning;
  bool operator==(const Read&) const = default;
};

Read read(const ToolFormat& format, const std::vector<std::string_view>& pieces) {
  const auto parser = make_reply_parser(format, {.tools = true, .texts = text_arguments(tools())});
  std::vector<ReplyPart> parts;
  for (const std::string_view piece : pieces) parser->push(piece, parts);
  parser->finish(parts);
  Read out;
  for (const ReplyPart& part : parts) {
    if (part.kind == Kind::content) out.content += part.text;
    if (part.kind == Kind::reasoning) out.reasoning += part.text;
    if (part.kind == Kind::tool_begin) out.calls.emplace_back(part.text, "");
    if (part.kind == Kind::tool_arguments) out.calls.back().second += part.text;
    if (part.kind == Kind::tool_end) ++out.ended;
  }
  return out;
}

class ToolFamilies : public testing::TestWithParam<Family> {};

TEST_P(ToolFamilies, WhatTheTemplateWritesIsRead) {
  const ToolFormat format = format_of(GetParam());
  Json calls = Json::array({call("find_train", kArguments, 0)});
  if (GetParam().is_parallel) calls.push_back(call("now", Json::object(), 1));
  const std::string text = written(GetParam(), calls);
  const Read whole = read(format, {text});
  ASSERT_EQ(whole.calls.size(), calls.size()) << text;
  EXPECT_EQ(whole.ended, calls.size()) << text;
  EXPECT_EQ(whole.calls[0].first, "find_train") << text;
  EXPECT_EQ(Json::parse(whole.calls[0].second, nullptr, false), kArguments)
      << text << whole.calls[0].second;
  if (calls.size() > 1) {
    EXPECT_EQ(whole.calls[1].first, "now") << text;
    EXPECT_EQ(Json::parse(whole.calls[1].second, nullptr, false), Json::object()) << text;
  }
  EXPECT_FALSE(whole.content.contains("find_train")) << whole.content;
  // However it comes.
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < text.size(); ++i)
    bytes.push_back(std::string_view(text).substr(i, 1));
  EXPECT_EQ(read(format, bytes), whole) << text;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const std::string_view all = text;
    EXPECT_EQ(read(format, {all.substr(0, i), all.substr(i)}), whole) << text << " cut at " << i;
  }
}

TEST_P(ToolFamilies, WhatTheTemplateWritesIsAllowed) {
  static Grammars grammars(test::piece_tokenizer());
  const ToolFormat format = format_of(GetParam());
  for (const ToolRules::Choice choice :
       {ToolRules::Choice::required, ToolRules::Choice::automatic}) {
    std::string text = written(GetParam(), Json::array({call("find_train", kArguments, 0)}));
    const auto made = tool_constraint(grammars, format, tools(), {.choice = choice});
    ASSERT_TRUE(made) << made.error().message;
    // From the call on, to where nothing else may come.
    const std::string mark = format.shape == ToolFormat::Shape::harmony ? " to=" : format.open;
    text.erase(0, mark.empty() ? text.find('{') : text.find(mark));
    const auto constraint = made->source->start();
    for (std::size_t i = 0; i < text.size() && !constraint->is_finished(); ++i) {
      ASSERT_TRUE(constraint->accept(static_cast<std::uint8_t>(text[i])))
          << text.substr(0, i) << " >>> " << text.substr(i);
    }
    const TokenId end = test::piece_tokenizer()->special().eos;
    EXPECT_TRUE(test::allows(constraint->allowed(), end)) << text;
    // A tool that is not there, once the call has begun.
    const auto other = made->source->start();
    const std::size_t name = text.find("find_train");
    ASSERT_NE(name, std::string::npos) << text;
    for (std::size_t i = 0; i < name; ++i) {
      ASSERT_TRUE(other->accept(static_cast<std::uint8_t>(text[i]))) << text.substr(0, i);
    }
    EXPECT_FALSE(other->accept('x')) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, ToolFamilies, testing::ValuesIn(kFamilies),
                         [](const auto& family) {
                           std::string name = family.param.name;
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace orrery::text
