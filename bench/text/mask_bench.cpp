// What a token costs under a schema: the mask and the acceptance, the first time and once masks are
// kept. Usage: mask_bench MODEL.gguf
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "storage/checkpoint.hpp"
#include "text/grammar.hpp"

namespace {

using namespace orrery;
using Clock = std::chrono::steady_clock;

struct Case {
  const char* name;
  const char* schema;
  const char* text;
};

constexpr Case kCases[] = {
    {"object", R"({"type":"object"})",
     R"({"name": "Ada Lovelace", "born": 1815, "tags": ["math", "engine"], "x": {"y": [1, 2]}})"},
    {"properties",
     R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},
         "mail":{"type":"string","format":"email"},"tags":{"type":"array","items":
         {"enum":["red","green","blue"]}}},"required":["name","age","mail","tags"]})",
     R"({"name": "Ada Lovelace, London", "age": 36, "mail": "ada@example.org", "tags": ["red"]})"},
    {"lengths",
     R"({"type":"object","properties":{"a":{"type":"string","minLength":10,"maxLength":500}},
         "required":["a"]})",
     R"({"a": "It was a bright cold day in April, and the clocks were striking thirteen."})"}};

double microseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

// Of each token of the text: microseconds for its mask and its acceptance.
std::vector<double> write(const text::ConstraintSource& source,
                          const std::vector<text::TokenId>& tokens) {
  std::vector<double> times;
  const auto constraint = source.start();
  for (const text::TokenId token : tokens) {
    const auto start = Clock::now();
    constraint->allowed();
    const bool fits = constraint->accept(token).has_value();
    times.push_back(microseconds(start));
    if (!fits) std::printf("a token does not fit\n");
  }
  std::sort(times.begin(), times.end());
  return times;
}

double mean(const std::vector<double>& times) {
  double sum = 0;
  for (const double time : times) sum += time;
  return sum / static_cast<double>(times.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::puts("usage: mask_bench MODEL.gguf"), 2;
  const auto file = storage::Checkpoint::open(argv[1], storage::system_io());
  const auto tokenizer = file ? text::Tokenizer::load(**file) : std::unexpected(file.error());
  if (!tokenizer) return std::puts(tokenizer.error().message.c_str()), 1;
  text::Grammars grammars(*tokenizer);
  const auto start = Clock::now();
  if (!grammars.regex("a")) return 1;  // makes the tree of the vocabulary
  std::printf("%d tokens, tree %.1f ms\n", (*tokenizer)->vocab_size(), microseconds(start) / 1e3);
  std::puts("microseconds a token: mean and largest, the first text and the second");
  for (const Case& test : kCases) {
    const auto compile = Clock::now();
    const auto source = grammars.json_schema(text::Json::parse(test.schema));
    if (!source) return std::puts(source.error().message.c_str()), 1;
    const double compiled = microseconds(compile);
    const auto tokens = (*tokenizer)->encode(test.text, {});
    const auto first = write(**source, tokens);
    const auto second = write(**source, tokens);
    std::printf("%-12s compile %7.0f  first %7.1f %8.1f  second %6.1f %7.1f  (%zu tokens)\n",
                test.name, compiled, mean(first), first.back(), mean(second), second.back(),
                tokens.size());
  }
  return 0;
}
