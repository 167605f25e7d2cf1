// Layers with a state on the CPU backend: against the reference, and against itself however the
// rows are cut, batched and shared by threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/dispatch.hpp"
#include "support/sanitized.hpp"
#include "support/tiny_hybrid.hpp"
#include "support/tiny_llama.hpp"

namespace orrery::backend {
namespace {

using test::Runner;
using test::TinyHybrid;

constexpr plan::Capacity kCapacity{80, 4, 80};

std::vector<Runner::Row> prompt(int n, std::int32_t sequence, int first = 0) {
  std::vector<Runner::Row> rows;
  for (int i = first; i < first + n; ++i) {
    rows.push_back({sequence, i, (i * 31 + 7 * sequence + 3) % 97});
  }
  return rows;
}

// Largest difference in units of the largest logit.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0, size = 1e-9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return 1e30;
    worst = std::max(worst, std::abs(double{a[i]} - double{b[i]}));
    size = std::max(size, std::abs(double{b[i]}));
  }
  return worst / size;
}

std::unique_ptr<Backend> cpu(int threads, const std::string& isa) {
  auto device = make_cpu_backend({threads, isa});
  EXPECT_TRUE(device);
  return std::move(*device);
}

std::vector<float> join(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The first row of logits that differs, or -1.
std::ptrdiff_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 0;
  const auto at = std::ranges::mismatch(a, b).in1;
  return at == a.end() ? -1 : (at - a.begin()) / std::ptrdiff_t{TinyHybrid::kVocab};
}

class StateLayers : public testing::TestWithParam<std::string> {
 protected:
  Runner make(Backend& device, plan::Phase phase, bool deterministic,
              DType type = DType::f32) const {
    return Runner(device, TinyHybrid{type}.record(phase, kCapacity, deterministic), 1);
  }
};

TEST_P(StateLayers, DecodeEqualsTheReference) {
  const auto device = cpu(2, GetParam());
  const auto reference = make_reference_backend();
  Runner want = make(*reference, plan::Phase::decode, false);
  Runner got = make(*device, plan::Phase::decode, false);
  EXPECT_LT(difference(got.run(prompt(75, 0)), want.run(prompt(75, 0))), 1e-5);
}

TEST_P(StateLayers, PrefillEqualsTheReference) {
  const auto device = cpu(2, GetParam());
  const auto reference = make_reference_backend();
  Runner want = make(*reference, plan::Phase::prefill, false);
  Runner got = make(*device, plan::Phase::prefill, false);
  EXPECT_LT(difference(got.run(prompt(75, 0)), want.run(prompt(75, 0))), 0.05);
}

// Parts of a prompt, as blocks that begin and end anywhere, in class b16.
TEST_P(StateLayers, PrefillInPartsHasTheBitsOfTheWhole) {
  const auto device = cpu(2, GetParam());
  Runner whole = make(*device, plan::Phase::prefill, false);
  Runner parts = make(*device, plan::Phase::prefill, false);
  const std::vector<float> expected = whole.run(prompt(75, 0));
  std::vector<float> got = parts.run(prompt(21, 0));
  got = join(got, parts.run(prompt(46, 0, 21)));
  got = join(got, parts.run(prompt(8, 0, 67)));
  EXPECT_EQ(first_difference(got, expected), -1);
}

TEST_P(StateLayers, DeterministicPrefillHasTheBitsOfDecode) {
  for (const DType type : {DType::f32, DType::q8_0}) {
    const auto one = cpu(1, GetParam());
    const auto two = cpu(2, GetParam());
    Runner whole = make(*two, plan::Phase::prefill, true, type);
    const std::vector<float> expected = whole.run(prompt(75, 0));
    Runner decode = make(*one, plan::Phase::decode, false, type);
    std::vector<float> got;
    for (const Runner::Row& row : prompt(75, 0)) got = join(got, decode.run({row}));
    EXPECT_EQ(first_difference(got, expected), -1);
    Runner parts = make(*one, plan::Phase::prefill, true, type);
    got = parts.run(prompt(63, 0));
    got = join(got, parts.run(prompt(12, 0, 63)));
    EXPECT_EQ(first_difference(got, expected), -1);
  }
}

TEST_P(StateLayers, BatchOfSequencesHasTheBitsOfEachAlone) {
  const auto device = cpu(2, GetParam());
  Runner together = make(*device, plan::Phase::decode, false);
  Runner alone = make(*device, plan::Phase::decode, false);
  std::vector<Runner::Row> batch = prompt(17, 0);
  for (const Runner::Row& row : prompt(9, 1)) batch.push_back(row);
  for (const Runner::Row& row : prompt(1, 2)) batch.push_back(row);
  std::vector<float> expected = alone.run(prompt(17, 0));
  expected = join(expected, alone.run(prompt(9, 1)));
  expected = join(expected, alone.run(prompt(1, 2)));
  EXPECT_EQ(first_difference(together.run(batch), expected), -1);
}

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const kernels::KernelSet& set : kernels::available_kernels()) {
    const bool slow = set.name.starts_with("emu");
    if (!test::kSanitized || !slow) names.push_back(set.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Isas, StateLayers, testing::ValuesIn(isas()));

}  // namespace
}  // namespace orrery::backend
