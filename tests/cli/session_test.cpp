// `orrery run --session` and `orrery sessions`: a conversation over several processes.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/process.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::cli {
namespace {

using test::Outcome;

class Sessions : public testing::Test {
 protected:
  Sessions() {
    test::TinyGguf tiny;
    tiny.set("llama.context_length", 2048U);
    tiny.set("tokenizer.chat_template",
             "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>");
    model_ = folder_.write("tiny.gguf", tiny.build());
  }
  Outcome orrery(const std::vector<std::string>& arguments) const {
    return test::run_program(arguments, "", {"XDG_STATE_HOME=" + folder_.path()});
  }
  Outcome ask(const std::string& name, const std::string& text,
              const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {
        "run", model_, "--session", name, "-p", text, "-n", "9", "--temp", "0", "--deterministic"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return orrery(arguments);
  }
  std::string file(const std::string& name) const {
    return folder_.file("orrery/sessions/" + name);
  }

  test::TempDir folder_;
  std::string model_;
};

std::string reused_of(const Outcome& outcome) {
  const std::size_t end = outcome.err.find(" reused");
  const std::size_t begin = outcome.err.rfind('(', end);
  return end == std::string::npos ? "" : outcome.err.substr(begin + 1, end - begin - 1);
}

TEST_F(Sessions, AConversationGoesOnInAnotherProcess) {
  const std::string first(200, 'a');
  const Outcome begun = ask("talk", first);
  ASSERT_EQ(begun.exit_code, 0) << begun.err;
  EXPECT_EQ(reused_of(begun), "0") << begun.err;
  std::filesystem::copy_file(file("talk"), file("copy"));
  const Outcome restored = ask("talk", "more");
  ASSERT_EQ(restored.exit_code, 0) << restored.err;
  EXPECT_GT(std::atoi(reused_of(restored).c_str()), 200) << restored.err;
  EXPECT_EQ(restored.err.find("note:"), std::string::npos) << restored.err;

  // Without its pages the same answer is computed from the text.
  std::string bytes = test::slurp(file("copy"));
  bytes[4096 + 9] ^= 1;
  folder_.write("orrery/sessions/copy", bytes);
  const Outcome computed = ask("copy", "more");
  EXPECT_EQ(reused_of(computed), "0") << computed.err;
  EXPECT_NE(computed.err.find("damaged"), std::string::npos) << computed.err;
  EXPECT_EQ(computed.out, restored.out);
  const Outcome other = ask("talk", "and more", {"--kv-type", "f32"});
  EXPECT_EQ(other.exit_code, 0);
  EXPECT_NE(other.err.find("--kv-type"), std::string::npos) << other.err;
}

TEST_F(Sessions, AreListedAndRemoved) {
  EXPECT_EQ(orrery({"sessions"}).exit_code, 0);
  ASSERT_EQ(ask("one", "a").exit_code, 0);
  ASSERT_EQ(ask("two.b", "a").exit_code, 0);
  folder_.write("orrery/sessions/two.b.77-0.tmp", "left behind");
  const Outcome list = orrery({"sessions"});
  EXPECT_NE(list.out.find("one "), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("two.b "), std::string::npos);
  EXPECT_EQ(list.out.find("tmp"), std::string::npos);
  EXPECT_EQ(orrery({"sessions", "remove", "one"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(file("one")));
  const Outcome gone = orrery({"sessions", "remove", "one"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_NE(gone.err.find("E_NOTFOUND"), std::string::npos) << gone.err;
  ASSERT_EQ(ask("two.b", "b").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(file("two.b.77-0.tmp")));
}

TEST_F(Sessions, NamesAndUsesThatCannotBeAreRefused) {
  for (const char* name : {"", "..", ".a", "a/b", "a b", "a.tmp", "\xC3\xA4"}) {
    const Outcome outcome = orrery({"sessions", "remove", name});
    EXPECT_EQ(outcome.exit_code, 2) << name << outcome.err;
  }
  EXPECT_EQ(ask(std::string(65, 'a'), "x").exit_code, 2);
  EXPECT_EQ(ask("a", "x", {"--raw"}).exit_code, 2);
  const Outcome adapted = ask("a", "x", {"--lora", "a.gguf"});
  EXPECT_EQ(adapted.exit_code, 2);
  EXPECT_NE(adapted.err.find("--session"), std::string::npos) << adapted.err;
  folder_.write("orrery/sessions/other", "not a session");
  const Outcome other = ask("other", "x");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.err.find("E_FORMAT"), std::string::npos) << other.err;
  EXPECT_EQ(test::slurp(file("other")), "not a session");
}

}  // namespace
}  // namespace orrery::cli
