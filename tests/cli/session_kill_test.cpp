// `orrery run --session` that is killed at any moment: what an answer ended with is kept, and the
// next one goes on. ORRERY_KILLS sets how many kills there are.
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "base/clock.hpp"
#include "support/process.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::cli {
namespace {

constexpr int kTurn = 60;          // tokens of a question
constexpr int kMostReused = 1500;  // then a new conversation: the context has 2048 tokens

class SessionKill : public testing::Test {
 protected:
  SessionKill() {
    test::TinyGguf tiny;
    tiny.set("llama.context_length", 2048U);
    tiny.set("tokenizer.chat_template",
             "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>");
    model_ = folder_.write("tiny.gguf", tiny.build());
  }

  // One more turn; killed after so many seconds, 0: never.
  test::Outcome ask(double kill_after = 0) const {
    return test::run_program({"run", model_, "--session", "s", "-p", std::string(kTurn, 'q'), "-n",
                              "9", "--temp", "0", "--threads", "1"},
                             "", {"XDG_STATE_HOME=" + folder_.path()}, kill_after);
  }
  // Tokens that the last turn needed not compute.
  static int reused_of(const test::Outcome& outcome) {
    const std::size_t end = outcome.err.find(" reused");
    const std::size_t begin = outcome.err.rfind('(', end);
    return end == std::string::npos ? -1 : std::atoi(outcome.err.c_str() + begin + 1);
  }

  test::TempDir folder_;
  std::string model_;
};

TEST_F(SessionKill, NoKillLosesATurn) {
  const char* asked = std::getenv("ORRERY_KILLS");
  const int kills = asked != nullptr ? std::atoi(asked) : test::kSanitized ? 10 : 40;
  std::mt19937 rng(3);
  double begin = now_seconds();
  ASSERT_EQ(ask().exit_code, 0);
  double whole = now_seconds() - begin;
  int least = 0, killed = 0, kept = 0;
  for (int round = 0; killed < kills && round < 4 * kills; ++round) {
    // Later moments more often: the save is the end of a turn.
    const double part = std::sqrt(std::uniform_real_distribution(0.0, 1.2)(rng));
    const test::Outcome cut = ask(whole * part);
    killed += cut.exit_code == 128 + SIGKILL ? 1 : 0;
    begin = now_seconds();
    const test::Outcome next = ask();
    whole = 0.7 * whole + 0.3 * (now_seconds() - begin);
    ASSERT_EQ(next.exit_code, 0) << next.err;
    ASSERT_EQ(next.err.find("note:"), std::string::npos) << next.err;
    const int reused = reused_of(next);
    ASSERT_GE(reused, least) << "round " << round << ": " << next.err;
    kept += least > 0 && reused >= least + kTurn ? 1 : 0;  // the turn that was killed is there
    least = reused + kTurn;
    if (reused < kMostReused) continue;
    std::filesystem::remove(folder_.file("orrery/sessions/s"));
    ASSERT_EQ(ask().exit_code, 0);
    least = 0;
  }
  EXPECT_EQ(killed, kills);
  RecordProperty("kept", kept);
}

}  // namespace
}  // namespace orrery::cli
