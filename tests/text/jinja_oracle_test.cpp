// Every template of the shared folder and every snippet, on every conversation, against Python's
// jinja2: the same bytes, or an error on both sides.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "support/paths.hpp"
#include "text/chat_template.hpp"

namespace orrery::text {
namespace {

constexpr std::int64_t kOracleNow = 1'700'000'000;  // template_oracle.py: NOW
constexpr int kNoJinja2 = 77;

class Oracle {
 public:
  explicit Oracle(const std::string& arguments)
      : pipe_(popen(
            ("python3 '" + test::source_dir() + "/tests/text/template_oracle.py' " + arguments)
                .c_str(),
            "r")) {}
  ~Oracle() { close(); }
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  bool next(Json& record) {
    char* line = nullptr;
    std::size_t capacity = 0;
    const ssize_t size = pipe_ == nullptr ? -1 : getline(&line, &capacity, pipe_);
    if (size >= 0) record = Json::parse(std::string_view(line, static_cast<std::size_t>(size)));
    free(line);
    return size >= 0;
  }

  int close() {
    if (pipe_ == nullptr) return -1;
    const int status = pclose(pipe_);
    pipe_ = nullptr;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  FILE* pipe_;
};

// Generators and such print their address in Python.
bool has_address(const std::string& text) {
  return text.find(" at 0x") != std::string::npos || text.find("<built-in") != std::string::npos;
}

struct Tally {
  int texts = 0;
  int errors = 0;
};

void compare(const std::string& where, const Result<std::shared_ptr<const ChatTemplate>>& compiled,
             const Json& variables, const Json& expected, Tally& tally) {
  RenderLimits limits;
  limits.now_unix_seconds = kOracleNow;
  const auto rendered = !compiled ? Result<std::string>(std::unexpected(compiled.error()))
                                  : (*compiled)->render(variables, limits);
  if (expected.contains("error")) {
    ++tally.errors;
    EXPECT_FALSE(rendered.has_value())
        << where << ": Python fails with " << expected["error"] << ", here: " << rendered.value();
    return;
  }
  const auto& text = expected["text"].get_ref<const std::string&>();
  if (has_address(text)) return;
  ++tally.texts;
  if (!rendered) {
    ADD_FAILURE() << where << ": " << rendered.error().message << "\nPython: " << text;
    return;
  }
  EXPECT_EQ(*rendered, text) << where;
}

TEST(JinjaOracle, RendersWhatPythonRenders) {
  const std::filesystem::path folder = test::shared_dir() + "/data/templates";
  const bool shared = std::filesystem::is_directory(folder);
  if (!shared) std::puts("the shared templates are not here: snippets only");
  Oracle oracle(shared ? "'" + folder.string() + "'" : "");
  std::map<std::string, Json> cases;
  std::string name;
  Result<std::shared_ptr<const ChatTemplate>> compiled = fail("E_TEMPLATE", "none yet");
  Tally tally;
  Json record;
  while (oracle.next(record)) {
    const auto& kind = record["kind"].get_ref<const std::string&>();
    if (kind == "case") {
      cases[record["name"].get<std::string>()] = record["variables"];
    } else if (kind == "template") {
      name = record["name"].get<std::string>();
      compiled = ChatTemplate::compile(record["source"].get_ref<const std::string&>());
    } else {
      const auto test_case = record["case"].get<std::string>();
      compare(name + " on " + test_case, compiled, cases.at(test_case), record, tally);
    }
  }
  const int status = oracle.close();
  if (status == kNoJinja2) GTEST_SKIP() << "python3 has no jinja2 (package python3-jinja2)";
  ASSERT_EQ(status, 0);
  EXPECT_GT(tally.texts, 90);
  EXPECT_GT(tally.errors, 30);
  std::printf("equal to Python: %d texts, %d errors\n", tally.texts, tally.errors);
}

}  // namespace
}  // namespace orrery::text
