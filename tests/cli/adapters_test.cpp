// --lora and orrery inspect of an adapter, through the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_adapter.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery {
namespace {

class AdapterCommands : public testing::Test {
 protected:
  AdapterCommands() {
    test::TinyAdapter adapter;
    adapter.add({"blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj", 64, 96, 4});
    files_.write("m.gguf", test::TinyGguf().build());
    files_.write("a.gguf", adapter.gguf());
    files_.write("a/adapter_model.safetensors", adapter.tensors());
    files_.write("a/adapter_config.json", adapter.config());
  }
  test::Outcome run(std::vector<std::string> arguments) const {
    return test::run_program(arguments);
  }
  std::string logits(const std::vector<std::string>& adapters) const {
    std::vector<std::string> arguments = {"eval",  "logits",  files_.file("m.gguf"),
                                          "--ids", "3 4 5 9", "--json"};
    for (const std::string& adapter : adapters) {
      arguments.insert(arguments.end(), {"--lora", files_.file(adapter)});
    }
    const test::Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }
  test::TempDir files_;
};

TEST_F(AdapterCommands, LoraChangesTheAnswerByItsScale) {
  const std::string plain = logits({}), adapted = logits({"a.gguf"});
  EXPECT_NE(adapted, plain);
  EXPECT_EQ(logits({"a"}), adapted);
  EXPECT_EQ(logits({"a.gguf:1"}), adapted);
  EXPECT_EQ(logits({"a.gguf:0", "a:0"}), plain);
  EXPECT_NE(logits({"a.gguf:-0.5"}), adapted);
  EXPECT_NE(logits({"a.gguf", "a"}), adapted);
}

TEST_F(AdapterCommands, RunTakesThemToo) {
  const auto answer = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "run", files_.file("m.gguf"), "-p", "ab", "-n", "12", "--temp", "0", "--raw", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const test::Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_NE(answer({"--lora", files_.file("a") + ":4"}), answer({}));
}

TEST_F(AdapterCommands, InspectShowsThePairs) {
  const test::Outcome gguf = run({"inspect", files_.file("a.gguf")});
  EXPECT_EQ(gguf.exit_code, 0) << gguf.err;
  EXPECT_NE(gguf.out.find("format: LoRA adapter, GGUF\n"), std::string::npos) << gguf.out;
  EXPECT_NE(gguf.out.find("architecture: llama\n"), std::string::npos) << gguf.out;
  EXPECT_NE(gguf.out.find("blk.0.ffn_down.weight"), std::string::npos) << gguf.out;
  const test::Outcome peft = run({"inspect", files_.file("a")});
  EXPECT_EQ(peft.exit_code, 0) << peft.err;
  EXPECT_NE(peft.out.find("format: LoRA adapter, safetensors (PEFT)\n"), std::string::npos);
  EXPECT_NE(peft.out.find("made for: a/base\n"), std::string::npos) << peft.out;
  EXPECT_NE(peft.out.find("rank    4  scale 1.5"), std::string::npos) << peft.out;
}

TEST_F(AdapterCommands, ABadOneIsOneLine) {
  test::TinyAdapter other;
  other.add({"blk.7.ffn_down.weight", "", 64, 96, 4});
  files_.write("other.gguf", other.gguf());
  for (const std::string name : {"other.gguf", "m.gguf", "absent.gguf"}) {
    const test::Outcome outcome =
        run({"run", files_.file("m.gguf"), "-p", "ab", "--raw", "--lora", files_.file(name)});
    EXPECT_EQ(outcome.exit_code, 1) << name;
    EXPECT_EQ(outcome.out, "");
    const std::string kind = name == "absent.gguf" ? "error[E_NOTFOUND]: " : "error[E_ADAPTER]: ";
    EXPECT_TRUE(outcome.err.starts_with(kind)) << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace orrery
