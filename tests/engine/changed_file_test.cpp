// Model files that are cut, written to or replaced while their model answers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/generate.hpp"
#include "engine/model.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::engine {
namespace {

constexpr std::uint32_t kTokens = 12;

class ChangedFile : public testing::Test {
 protected:
  // A model in a file of its own, written to last an hour ago.
  std::shared_ptr<const Model> open(const std::string& name) {
    const std::string path = folder.write(name, test::TinyGguf(2).build());
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    ModelOptions options;
    options.threads = 2;
    auto model = Model::open(path, options, storage::system_io());
    EXPECT_TRUE(model) << model.error().message;
    return model ? *model : nullptr;
  }

  // Greedy; `after_three` runs between the third token and the fourth.
  Result<Generation> answer(const Model& model, const std::function<void()>& after_three = {}) {
    n_tokens = 0;
    ORRERY_TRY(const auto session, Session::open(model.executor()));
    SamplerParams params;
    params.temperature = 0;
    ORRERY_TRY(auto sampler,
               Sampler::create(params, model.n_tokens(), model.executor()->context()));
    GenerateOptions options;
    options.max_tokens = kTokens;
    options.ignore_end = true;
    options.on_token = [&](text::TokenId, const Sampler&) {
      if (++n_tokens == 3 && after_three) after_three();
    };
    const auto tokens = model.tokenizer().encode("ab", {.add_special = true});
    return generate(*session, model.tokenizer(), sampler, tokens, options);
  }

  void expect_refused(const Result<Generation>& answered, std::uint32_t tokens) {
    ASSERT_FALSE(answered);
    EXPECT_EQ(answered.error().kind, "E_CHANGED");
    EXPECT_NE(answered.error().message.find("m.gguf: the model file was changed or cut"),
              std::string::npos)
        << answered.error().message;
    EXPECT_EQ(n_tokens, tokens);
  }

  void write_into(const std::string& name) const {
    std::fstream file(folder.file(name), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-4, std::ios::end);
    file << "....";
  }

  test::TempDir folder;
  std::uint32_t n_tokens = 0;  // of the last answer
};

TEST_F(ChangedFile, ACutOneFailsItsRequestsAndNoOther) {
  const auto model = open("m.gguf");
  const auto other = open("other.gguf");
  const auto whole = answer(*other);
  ASSERT_TRUE(whole) << whole.error().message;
  const std::string path = folder.file("m.gguf");
  const auto size = static_cast<off_t>(std::filesystem::file_size(path));
  expect_refused(answer(*model, [&] { EXPECT_EQ(::truncate(path.c_str(), size / 2), 0); }), 3);
  expect_refused(answer(*model), 0);
  const auto again = answer(*other);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->tokens, whole->tokens);
}

TEST_F(ChangedFile, ACutBetweenRequestsIsSeenToo) {
  const auto model = open("m.gguf");
  ASSERT_TRUE(answer(*model));
  EXPECT_EQ(::truncate(folder.file("m.gguf").c_str(), 0), 0);
  expect_refused(answer(*model), 0);
}

TEST_F(ChangedFile, AWriteFailsTheRequestThatMayHaveReadIt) {
  const auto model = open("m.gguf");
  expect_refused(answer(*model, [&] { write_into("m.gguf"); }), kTokens);
  expect_refused(answer(*model), 0);
}

TEST_F(ChangedFile, AVectorOfAWrittenModelIsRefused) {
  const auto model = open("m.gguf");
  const auto tokens = model->tokenizer().encode("ab", {.add_special = true});
  ASSERT_TRUE(model->embed(tokens));
  write_into("m.gguf");
  const auto vector = model->embed(tokens);
  ASSERT_FALSE(vector);
  EXPECT_EQ(vector.error().kind, "E_CHANGED");
}

TEST_F(ChangedFile, ANewFileUnderTheNameIsAnotherFile) {
  const auto model = open("m.gguf");
  const auto replace = [&] {
    std::filesystem::rename(folder.write("new.gguf", "no model"), folder.file("m.gguf"));
  };
  ASSERT_TRUE(answer(*model, replace));
  std::filesystem::remove(folder.file("m.gguf"));
  EXPECT_TRUE(answer(*model));
}

}  // namespace
}  // namespace orrery::engine
