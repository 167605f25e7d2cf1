// What a token costs under a constraint, in time of the processor: the mask and the acceptance, the
// first time and once masks are kept. Usage: mask_bench MODEL.gguf
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#include "storage/checkpoint.hpp"
#include "text/constraint_cases.hpp"

namespace {

using namespace orrery;
// Of this thread alone: what others do on the machine says nothing about masks.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

// Of each token of the text: microseconds for its mask and its acceptance, ascending.
std::vector<double> write(const text::ConstraintSource& source,
                          const std::vector<text::TokenId>& tokens) {
  std::vector<double> times;
  const auto constraint = source.start();
  for (const text::TokenId token : tokens) {
    const double start = now();
    constraint->allowed();
    const bool fits = constraint->accept(token).has_value();
    times.push_back(now() - start);
    if (!fits) std::printf("a token does not fit\n");
  }
  std::sort(times.begin(), times.end());
  return times;
}

double mean(const std::vector<double>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::puts("usage: mask_bench MODEL.gguf"), 2;
  const auto file = storage::Checkpoint::open(argv[1], storage::system_io());
  const auto tokenizer = file ? text::Tokenizer::load(**file) : std::unexpected(file.error());
  if (!tokenizer) return std::puts(tokenizer.error().message.c_str()), 1;
  text::Grammars grammars(*tokenizer);
  const double start = now();
  if (!grammars.regex("a")) return 1;  // makes the tree of the vocabulary
  std::printf("%d tokens, tree %.1f ms\n", (*tokenizer)->vocab_size(), (now() - start) / 1e3);
  std::puts("microseconds a token: mean and largest, of the first text and of the second");
  for (const bench::ConstraintCase& test : bench::constraint_cases()) {
    const double compile = now();
    const auto source = test.compile(grammars);
    if (!source) return std::puts(source.error().message.c_str()), 1;
    const double compiled = now() - compile;
    const auto tokens = (*tokenizer)->encode(test.text, {});
    const auto first = write(**source, tokens);
    const auto second = write(**source, tokens);
    std::printf("%-15s compile %7.0f  first %7.1f %8.1f  second %6.1f %7.1f  (%zu tokens)\n",
                test.name, compiled, mean(first), first.back(), mean(second), second.back(),
                tokens.size());
  }
  return 0;
}
