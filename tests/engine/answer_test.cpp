// Which special tokens are part of an answer.
#include "engine/answer.hpp"

#include <gtest/gtest.h>

#include "engine/fake_tokenizer.hpp"

namespace orrery::engine {
namespace {

TEST(Answer, SpecialTokensAreTextOnlyWhereTheyAreMarks) {
  const fake::Tokenizer tokenizer({"a", "[CALL]", "[PAD]", "</s>"}, 3);
  auto sampler = Sampler::create({}, tokenizer.vocab_size(), 16);
  ASSERT_TRUE(sampler);
  const auto text_of = [&](std::vector<text::TokenId> shown) {
    AnswerOptions options;
    options.shown = std::move(shown);
    Answer answer(tokenizer, options);
    std::string out;
    for (const text::TokenId token : {0, 1, 2, 0}) {
      EXPECT_EQ(answer.take(*sampler, token), true);
      out += answer.text();
    }
    return out + std::string(answer.rest());
  };
  EXPECT_EQ(text_of({}), "aa");
  EXPECT_EQ(text_of({1}), "a[CALL]a");
}

}  // namespace
}  // namespace orrery::engine
