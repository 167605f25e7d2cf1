// `orrery pull` against a server on this machine.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace orrery::cli {
namespace {

using test::Outcome;

class Pull : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v python3 >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs python3";
    for (int i = 0; i < 400000; ++i) bytes_ += static_cast<char>((i * 2654435761U) >> 13);
    source_ = folder_.write("source.bin", bytes_);
  }
  void TearDown() override {
    if (server_ != nullptr) pclose(server_);
  }
  // The server lives until the pipe closes; its port comes through a file.
  void serve(const std::string& options) {
    const std::string port_file = folder_.file("port");
    const std::string command = "python3 " + test::source_dir() + "/tests/cli/range_server.py " +
                                source_ + " " + options + " >" + port_file;
    server_ = popen(command.c_str(), "w");
    for (int i = 0; i < 200 && port_.empty(); ++i) {
      usleep(50'000);
      std::ifstream(port_file) >> port_;
    }
    ASSERT_FALSE(port_.empty());
  }
  Outcome pull(const std::string& name) {
    return test::run_program({"pull", name}, "",
                             {"HF_ENDPOINT=http://127.0.0.1:" + port_, "HF_TOKEN=",
                              "XDG_CACHE_HOME=" + folder_.path(), "no_proxy=127.0.0.1"});
  }
  std::string cached() const { return folder_.file("orrery/tiny-Q4_K_M.gguf"); }

  test::TempDir folder_;
  std::string bytes_, source_, port_;
  std::FILE* server_ = nullptr;
};

TEST_F(Pull, GetsAFileOfARepositoryAndVerifiesIt) {
  serve("");
  const Outcome outcome = pull("org/repo");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, cached() + "\n");
  EXPECT_TRUE(test::slurp(cached()) == bytes_);
  const Outcome again = pull("org/repo:q4_k_m");
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("there already"), std::string::npos) << again.err;
}

TEST_F(Pull, ResumesAfterABrokenConnection) {
  serve("cut");
  const Outcome first = pull("org/repo");
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_EQ(first.err.rfind("error[E_NETWORK]: ", 0), 0U) << first.err;
  EXPECT_FALSE(std::filesystem::exists(cached()));
  const auto half = std::filesystem::file_size(cached() + ".part");
  EXPECT_GT(half, 0U);
  EXPECT_LT(half, bytes_.size());
  const Outcome second = pull("org/repo");
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_TRUE(test::slurp(cached()) == bytes_);
}

TEST_F(Pull, StartsOverWhereTheServerCannotResume) {
  serve("cut no-range");
  EXPECT_EQ(pull("org/repo").exit_code, 1);
  EXPECT_EQ(pull("org/repo").exit_code, 0);
  EXPECT_TRUE(test::slurp(cached()) == bytes_);
}

TEST_F(Pull, AWrongChecksumLeavesNothing) {
  serve("wrong-sha");
  const Outcome outcome = pull("org/repo");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err.rfind("error[E_CHECKSUM]: ", 0), 0U) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(cached()));
  EXPECT_FALSE(std::filesystem::exists(cached() + ".part"));
}

TEST_F(Pull, NamesWhatIsNotThere) {
  serve("");
  const Outcome no_file = pull("org/repo:q2_k");
  EXPECT_EQ(no_file.exit_code, 1);
  EXPECT_NE(no_file.err.find("tiny-Q8_0.gguf"), std::string::npos) << no_file.err;
  const Outcome no_repository = pull("org/nothing");
  EXPECT_EQ(no_repository.err.rfind("error[E_HTTP]: ", 0), 0U) << no_repository.err;
  const Outcome no_page = pull("http://127.0.0.1:" + port_ + "/missing.gguf");
  EXPECT_EQ(no_page.err.rfind("error[E_HTTP]: ", 0), 0U) << no_page.err;
  EXPECT_EQ(pull("http://example.invalid/x.gguf").err.rfind("error[E_URL]: ", 0), 0U);
  EXPECT_EQ(pull("../../etc/passwd").exit_code, 1);
  EXPECT_EQ(pull("nonsense").exit_code, 1);
}

}  // namespace
}  // namespace orrery::cli
