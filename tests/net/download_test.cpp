// What the HTTP client refuses, and one file from a server on this machine. Resuming and checksums
// are tested through `orrery pull` (tests/cli/pull_test.cpp).
#include "net/download.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace orrery::net {
namespace {

std::string_view kind(const Status& status) {
  return status ? "" : status.error().kind;
}

DownloadRequest request_of(const std::string& url, const std::string& target) {
  DownloadRequest request;
  request.url = url;
  request.target = target;
  return request;
}

TEST(Download, OnlyThisMachineMayDoWithoutTls) {
  const test::TempDir folder;
  for (const char* url : {"http://example.org/x", "http://127.0.0.1.example.org/x", "ftp://a/x",
                          "file:///etc/hostname", "HTTP://example.org", ""}) {
    EXPECT_EQ(kind(download(request_of(url, folder.file("x")))), "E_URL") << url;
    const Result<std::string> body = fetch(url, "", 1000);
    ASSERT_FALSE(body) << url;
    EXPECT_EQ(body.error().kind, "E_URL") << url;
  }
}

TEST(Download, AClosedPortIsANetworkError) {
  const test::TempDir folder;
  EXPECT_EQ(kind(download(request_of("http://127.0.0.1:1/x", folder.file("x")))), "E_NETWORK");
  EXPECT_FALSE(std::filesystem::exists(folder.file("x")));
}

// The server of the tests of `orrery pull`; it lives until the pipe closes.
class FromServer : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v python3 >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs python3";
    setenv("no_proxy", "127.0.0.1", 1);
    const std::string source = folder_.write("source.bin", bytes_);
    const std::string port_file = folder_.file("port");
    server_ = popen(("python3 " + test::source_dir() + "/tests/cli/range_server.py " + source +
                     " >" + port_file)
                        .c_str(),
                    "w");
    std::string port;
    for (int i = 0; i < 200 && port.empty(); ++i) {
      usleep(50'000);
      std::ifstream(port_file) >> port;
    }
    ASSERT_FALSE(port.empty());
    base_ = "http://127.0.0.1:" + port;
  }
  void TearDown() override {
    if (server_ != nullptr) pclose(server_);
  }

  const test::TempDir folder_;
  const std::string bytes_ = std::string(100'000, 'a') + "end";
  std::string base_;
  std::FILE* server_ = nullptr;
};

TEST_F(FromServer, TheFileGetsItsNameWhenItIsWholeAndVerified) {
  DownloadRequest request = request_of(base_ + "/blob", folder_.file("got"));
  request.verify = [&](const std::string& part) -> Status {
    EXPECT_NE(part, request.target);
    EXPECT_EQ(test::slurp(part), bytes_);
    EXPECT_FALSE(std::filesystem::exists(request.target));
    return {};
  };
  const Status status = download(request);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(test::slurp(request.target), bytes_);
}

TEST_F(FromServer, WhatVerifyRefusesIsNotKept) {
  DownloadRequest request = request_of(base_ + "/blob", folder_.file("got"));
  request.verify = [](const std::string&) -> Status { return fail("E_CHECKSUM", "no"); };
  EXPECT_EQ(kind(download(request)), "E_CHECKSUM");
  EXPECT_FALSE(std::filesystem::exists(request.target));
  EXPECT_FALSE(std::filesystem::exists(request.target + ".part"));
}

TEST_F(FromServer, AnErrorPageIsNotTheFile) {
  EXPECT_EQ(kind(download(request_of(base_ + "/none", folder_.file("got")))), "E_HTTP");
  EXPECT_FALSE(std::filesystem::exists(folder_.file("got")));
}

TEST_F(FromServer, ADocumentHasALimit) {
  const Result<std::string> body = fetch(base_ + "/blob", "", bytes_.size());
  ASSERT_TRUE(body) << body.error().message;
  EXPECT_EQ(*body, bytes_);
  const Result<std::string> longer = fetch(base_ + "/blob", "", bytes_.size() - 1);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().kind, "E_TOOBIG");
}

}  // namespace
}  // namespace orrery::net
