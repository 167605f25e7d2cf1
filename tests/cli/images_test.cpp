// orrery pack, --quantize, --fit and orrery models as a user runs them, and what a run that dies
// leaves behind.
#include "cli/images.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "support/process.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

class Images : public testing::Test {
 protected:
  test::Outcome run(std::vector<std::string> arguments, std::vector<std::string> more = {}) {
    more.push_back("XDG_CACHE_HOME=" + folder.path());
    return test::run_program(arguments, "", more);
  }
  // Names of files in the folder of images.
  std::vector<std::string> images() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder.path() + "/orrery/images", error)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  std::string logits_of(const std::string& model, std::vector<std::string> more = {}) {
    const auto done =
        run({"eval", "logits", model, "--ids", "3 4 5 9", "--json", "-c", "64"}, std::move(more));
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.out;
  }

  const test::TempDir folder;
  const std::string in = folder.write("in.gguf", test::TinyGguf(2).quantize(DType::q8_0).build());
  const std::string plain = folder.write("plain.gguf", test::TinyGguf(2).build());
};

TEST_F(Images, ArePackedListedUsedAndRemoved) {
  const std::string before = logits_of(in);
  const auto packed = run({"pack", in});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  ASSERT_EQ(images().size(), 1U);
  EXPECT_NE(images()[0].find(".as-is.packed.gguf"), std::string::npos);
  EXPECT_EQ(packed.out, folder.path() + "/orrery/images/" + images()[0] + "\n");
  EXPECT_EQ(logits_of(in), before);
  // What was packed is not packed again.
  const auto copies = run({"bench", "copies", in});
  EXPECT_NE(copies.out.find("packed for small models              0  none"), std::string::npos)
      << copies.out;
  const auto list = run({"models"});
  const std::string name = "images/" + images()[0].substr(0, images()[0].size() - 5);
  EXPECT_NE(list.out.find(name), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("image         Q8_0"), std::string::npos) << list.out;
  EXPECT_EQ(logits_of(name), before);
  const auto whole = run({"models", "verify", name});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(run({"models", "remove", name}).exit_code, 0);
  EXPECT_TRUE(images().empty());
  for (const std::string& none : {name, std::string("images/../in"), in, std::string("in")}) {
    const auto refused = run({"models", "remove", none});
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_NE(refused.err.find("E_NOMODEL"), std::string::npos) << refused.err;
  }
  EXPECT_TRUE(fs::exists(in));
}

TEST_F(Images, AreMadeOnceForQuantizeAndFit) {
  const auto first =
      run({"run", plain, "--quantize", "q8_0", "-p", "ab", "--raw", "-n", "3", "--temp", "0"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("image: "), std::string::npos) << first.err;
  ASSERT_EQ(images().size(), 1U);
  const auto second =
      run({"run", plain, "--quantize", "Q8_0", "-p", "ab", "--raw", "-n", "3", "--temp", "0"});
  EXPECT_EQ(second.err.find("image: "), std::string::npos) << second.err;
  EXPECT_EQ(second.out, first.out);
  // The same form, found by the bytes that it takes.
  const auto smallest = run({"run", plain, "--fit", "1", "-p", "ab"});
  EXPECT_EQ(smallest.exit_code, 1);
  EXPECT_NE(smallest.err.find("E_MEMORY"), std::string::npos) << smallest.err;
  EXPECT_NE(smallest.err.find("its smallest form, needs "), std::string::npos) << smallest.err;
  const auto roomy =
      run({"run", plain, "--fit", "1G", "-p", "ab", "--raw", "-n", "3", "--temp", "0"});
  EXPECT_EQ(roomy.exit_code, 0) << roomy.err;
  EXPECT_NE(roomy.err.find("as they are"), std::string::npos) << roomy.err;
  EXPECT_EQ(images().size(), 1U);
  const auto wrong = run({"run", plain, "--quantize", "Q9", "-p", "ab"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(run({"run", plain, "--fit", "lots", "-p", "ab"}).exit_code, 2);
}

TEST_F(Images, OfASourceThatChangedOrThatAreDamagedAreNotUsed) {
  ASSERT_EQ(run({"pack", in}).exit_code, 0);
  ASSERT_EQ(run({"run", plain, "--quantize", "Q8_0", "-p", "ab", "-n", "1"}).exit_code, 0);
  ASSERT_EQ(images().size(), 2U);
  const std::string other = test::TinyGguf(2).fill("output_norm.weight", 0.5F).build();
  folder.write("plain.gguf", other);
  const auto again = run({"run", plain, "--quantize", "Q8_0", "-p", "ab", "-n", "1"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_NE(again.err.find("has changed since"), std::string::npos) << again.err;
  EXPECT_NE(again.err.find("kept as"), std::string::npos) << again.err;
  folder.write("in.gguf", test::TinyGguf(2).quantize(DType::q4_0).build());
  const auto stale = run({"run", in, "-p", "ab", "-n", "1"});
  EXPECT_EQ(stale.exit_code, 0);
  EXPECT_NE(stale.err.find("the image is not used"), std::string::npos) << stale.err;
  for (const std::string& name : images()) {
    fs::resize_file(folder.path() + "/orrery/images/" + name, 50000);
  }
  const auto cut = run({"run", plain, "--quantize", "Q8_0", "-p", "ab", "-n", "1"});
  EXPECT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_NE(cut.err.find("the image is not used"), std::string::npos) << cut.err;
}

TEST_F(Images, AreTheSameForEveryInstructionSet) {
  ASSERT_EQ(run({"pack", in}, {"ORRERY_ISA=avx2"}).exit_code, 0);
  const std::string image = folder.path() + "/orrery/images/" + images()[0];
  for (const char* isa : {"ORRERY_ISA=avx2", "ORRERY_ISA="}) {
    const std::string wanted = logits_of(in, {isa, "XDG_CACHE_HOME=/nonexistent"});
    EXPECT_EQ(logits_of(image, {isa}), wanted) << isa;
  }
}

TEST_F(Images, LeaveNothingWhenTheDiskIsFull) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // the write fails instead
  const rlimit tight{64 << 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto full = run({"pack", in});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_NE(full.err.find("cannot write"), std::string::npos) << full.err;
  EXPECT_TRUE(images().empty());
}

// Killed at any moment: the folder is empty, or has the whole image.
TEST_F(Images, LeaveNothingHalfMadeWhenKilled) {
  const std::string model = folder.write("big.gguf", test::TinyGguf(48).build());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run({"pack", model}).exit_code, 0);
  auto whole = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(images().size(), 1U);
  const std::string image = folder.path() + "/orrery/images/" + images()[0];
  const auto bytes = fs::file_size(image);
  const int kills = test::kSanitized ? 10 : 50;
  int died = 0;
  for (int i = 0; i < kills; ++i) {
    fs::remove(image);
    const pid_t child = fork();
    if (child == 0) {
      setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
      freopen("/dev/null", "w", stdout);
      freopen("/dev/null", "w", stderr);
      const std::string program = test::program();
      execl(program.c_str(), program.c_str(), "pack", model.c_str(), nullptr);
      _exit(127);
    }
    std::this_thread::sleep_for(whole * i / kills);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    died += WIFSIGNALED(status) ? 1 : 0;
    if (!WIFSIGNALED(status)) whole = whole * 3 / 4;  // it was slower when it was measured
    const auto left = images();
    if (left.empty()) continue;
    // A temporary name lasts for a moment, beside no other; it is the whole file already.
    ASSERT_EQ(left.size(), 1U) << i;
    EXPECT_EQ(fs::file_size(folder.path() + "/orrery/images/" + left[0]), bytes) << i;
    fs::remove(folder.path() + "/orrery/images/" + left[0]);
  }
  EXPECT_GT(died, kills / 5);
}

}  // namespace
}  // namespace orrery::cli
