// Adapters on both backends: what they add, to which rows, and that nobody else gets other bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/dispatch.hpp"
#include "support/tiny_llama.hpp"

namespace orrery::backend {
namespace {

using test::Runner;
using test::TinyLlama;
using Rows = std::vector<Runner::Row>;

constexpr plan::Capacity kCapacity{80, 4, 80};

Rows prompt(int n, std::int32_t sequence) {
  Rows rows;
  for (int i = 0; i < n; ++i) rows.push_back({sequence, i, (i * 31 + 7 * sequence + 3) % 97});
  return rows;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0, size = 1e-9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return 1e30;
    worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
    size = std::max(size, std::abs(double(b[i])));
  }
  return worst / size;
}

// Random pairs for some weights of the tiny model, large enough to change every logit.
class Adapter {
 public:
  Adapter(std::uint32_t rank, std::vector<std::string> tensors, std::uint32_t seed)
      : rank_(rank), tensors_(std::move(tensors)), seed_(seed) {}

  void bind(Runner& runner, std::uint32_t slot) {
    std::vector<LowRank> pairs;
    for (std::size_t i = 0; i < runner.plan().weights.size(); ++i) {
      const plan::Weight& weight = runner.plan().weights[i];
      if (std::ranges::find(tensors_, weight.tensor) == tensors_.end()) continue;
      const Pair& pair = of(weight);
      pairs.push_back(
          {static_cast<plan::WeightId>(i), rank_, pair.a.data(), pair.b.data(), weight.rows});
    }
    EXPECT_EQ(pairs.size(), tensors_.size());
    EXPECT_TRUE(runner.program().bind_adapter(slot, pairs));
  }

  // W + scale B A, of f32 weights.
  void merge(const plan::Weight& weight, float scale, std::vector<std::byte>& bytes) {
    if (std::ranges::find(tensors_, weight.tensor) == tensors_.end()) return;
    auto* w = reinterpret_cast<float*>(bytes.data());
    const Pair& pair = of(weight);
    for (std::size_t r = 0; r < weight.rows; ++r) {
      for (std::size_t c = 0; c < weight.cols; ++c) {
        double sum = 0;
        for (std::size_t j = 0; j < rank_; ++j) {
          sum += double{pair.b[j * weight.rows + r]} * double{pair.a[j * weight.cols + c]};
        }
        w[r * weight.cols + c] += static_cast<float>(scale * sum);
      }
    }
  }

 private:
  struct Pair {
    std::vector<float> a, b;
  };
  const Pair& of(const plan::Weight& weight) {
    Pair& pair = pairs_[weight.tensor];
    if (pair.a.empty()) {
      std::mt19937 rng(seed_ + static_cast<std::uint32_t>(std::hash<std::string>{}(weight.tensor)));
      std::normal_distribution<float> normal;
      pair.a.resize(std::size_t{rank_} * weight.cols);
      pair.b.resize(std::size_t{rank_} * weight.rows);
      for (float& x : pair.a) x = normal(rng) / std::sqrt(static_cast<float>(weight.cols));
      for (float& x : pair.b) x = normal(rng) / std::sqrt(static_cast<float>(rank_));
    }
    return pair;
  }

  std::uint32_t rank_;
  std::vector<std::string> tensors_;
  std::uint32_t seed_;
  std::map<std::string, Pair> pairs_;
};

// Some of the weights of shared steps, both of a gated one, one with a bias, one before a residual,
// and the head.
Adapter first() {
  return {
      5, {"blk.0.q", "blk.0.v", "blk.0.o", "blk.0.gate", "blk.0.up", "blk.1.down", "output"}, 1};
}
Adapter second() {
  return {16, {"blk.0.v", "blk.0.k", "blk.1.gate", "blk.1.q"}, 2};
}

std::vector<float> scales(std::initializer_list<std::pair<float, float>> sequences) {
  std::vector<float> all;
  for (const auto& [of_first, of_second] : sequences) {
    all.resize(all.size() + kMaxAdapters);
    all[all.size() - kMaxAdapters] = of_first;
    all[all.size() - kMaxAdapters + 3] = of_second;
  }
  return all;
}

// A runner with the first adapter in slot 0 and the second in slot 3.
struct Adapted {
  Adapted(Backend& device, const TinyLlama& model, plan::Phase phase, bool deterministic = false)
      : runner(device, model.record(phase, kCapacity, deterministic), 1) {
    b.bind(runner, 3);
    a.bind(runner, 0);
  }
  std::vector<float> run(const Rows& rows, std::vector<float> factors) {
    runner.adapter_scales = std::move(factors);
    return runner.run(rows);
  }
  Adapter a = first(), b = second();
  Runner runner;
};

std::vector<float> expected_of(const TinyLlama& model, const std::vector<float>& factors,
                               const Rows& rows) {
  const auto reference = make_reference_backend();
  return Adapted(*reference, model, plan::Phase::decode).run(rows, factors);
}

TEST(ReferenceAdapters, EqualMergedWeights) {
  const auto device = make_reference_backend();
  Adapter a = first(), b = second();
  Runner merged(*device, TinyLlama{}.record(plan::Phase::decode, kCapacity, false), 1,
                [&](const plan::Weight& weight, std::vector<std::byte>& bytes) {
                  a.merge(weight, 0.5F, bytes);
                  b.merge(weight, -0.75F, bytes);
                });
  const auto rows = prompt(20, 0);
  const auto expected = merged.run(rows);
  const auto got = expected_of({}, scales({{0.5F, -0.75F}}), rows);
  EXPECT_LT(difference(got, expected), 1e-5);
  EXPECT_GT(difference(expected_of({}, scales({{0.5F, 0.0F}}), rows), expected), 0.05);
}

class CpuAdapters : public testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  std::unique_ptr<Backend> device(int threads) const {
    return *make_cpu_backend({threads, std::get<0>(GetParam())});
  }
  TinyLlama model() const {
    TinyLlama tiny;
    tiny.type = std::get<1>(GetParam());
    return tiny;
  }
  bool quantized() const { return dtype_info(std::get<1>(GetParam())).is_quantized; }
};

TEST_P(CpuAdapters, EqualTheReference) {
  const auto rows = prompt(70, 0);
  const auto factors = scales({{0.5F, -0.75F}});
  const auto expected = expected_of(model(), factors, rows);
  const auto cpu = device(2);
  const auto decode = Adapted(*cpu, model(), plan::Phase::decode).run(rows, factors);
  EXPECT_LT(difference(decode, expected), quantized() ? 0.05 : 1e-5);
  const auto prefill = Adapted(*cpu, model(), plan::Phase::prefill).run(rows, factors);
  EXPECT_LT(difference(prefill, expected), 0.05);
}

TEST_P(CpuAdapters, NeighboursAndThreadsDoNotChangeBits) {
  const auto one = device(1), two = device(2);
  Adapted alone(*one, model(), plan::Phase::decode), batch(*two, model(), plan::Phase::decode);
  Runner plain(*one, model().record(plan::Phase::decode, kCapacity, false), 1);
  const std::vector<std::vector<float>> factors = {scales({{0.5F, -0.75F}}), scales({{0.0F, 0.0F}}),
                                                   scales({{0.0F, 2.0F}})};
  Rows rows;
  for (int s = 0; s < 3; ++s) {
    for (const Runner::Row& row : prompt(9 + s, s)) rows.push_back(row);
  }
  const auto together = batch.run(rows, scales({{0.5F, -0.75F}, {0.0F, 0.0F}, {0.0F, 2.0F}}));
  std::size_t at = 0;
  for (std::size_t s = 0; s < 3; ++s) {
    Rows own = prompt(9 + static_cast<int>(s), static_cast<std::int32_t>(s));
    for (Runner::Row& row : own) row.sequence = 0;
    const auto expected = s == 1 ? plain.run(own) : alone.run(own, factors[s]);
    ASSERT_LE(at + expected.size(), together.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), together.begin() + long(at))) << s;
    at += expected.size();
  }
}

TEST_P(CpuAdapters, WithoutAFactorTheBitsAreThoseOfNone) {
  const auto cpu = device(2);
  const auto rows = prompt(17, 0);
  for (const plan::Phase phase : {plan::Phase::decode, plan::Phase::prefill}) {
    const auto none = Runner(*cpu, model().record(phase, kCapacity, false), 1).run(rows);
    Adapted adapted(*cpu, model(), phase);
    EXPECT_NE(adapted.run(rows, scales({{0.5F, 0.0F}})), none);
    EXPECT_EQ(adapted.run(rows, scales({{0.0F, 0.0F}})), none);
    EXPECT_EQ(adapted.run(rows, {}), none);
  }
}

TEST_P(CpuAdapters, DeterministicPrefillHasTheBitsOfDecode) {
  const auto cpu = device(2);
  const auto rows = prompt(18, 0);
  const auto factors = scales({{0.5F, -0.75F}});
  const auto whole = Adapted(*cpu, model(), plan::Phase::prefill, true).run(rows, factors);
  Adapted decode(*cpu, model(), plan::Phase::decode);
  std::vector<float> last;
  for (const Runner::Row& row : rows) last = decode.run({row}, factors);
  ASSERT_EQ(last.size(), 97U);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), whole.end() - 97));
}

TEST_P(CpuAdapters, ASliceOfAPromptHasTheBitsOfTheWhole) {
  const auto cpu = device(2);
  const auto rows = prompt(70, 0);
  const auto factors = scales({{0.5F, -0.75F}});
  Adapted adapted(*cpu, model(), plan::Phase::prefill);
  const auto whole = adapted.run(rows, factors);
  adapted.run(Rows(rows.begin(), rows.begin() + 32), factors);
  const auto rest = adapted.run(Rows(rows.begin() + 32, rows.end()), factors);
  ASSERT_EQ(rest.size(), 38U * 97U);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 32 * 97));
}

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const kernels::KernelSet& set : kernels::available_kernels()) names.push_back(set.name);
  return names;
}

// Every set with blocks, whose operands are the harder ones; floats with the first, which is what
// the machine would choose.
std::vector<std::tuple<std::string, DType>> cases() {
  std::vector<std::tuple<std::string, DType>> all;
  for (const std::string& isa : isas()) all.emplace_back(isa, DType::q8_0);
  all.emplace_back(isas().front(), DType::f32);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Everywhere, CpuAdapters, testing::ValuesIn(cases()), [](const auto& test) {
  return fmt::format("{}_{}", std::get<0>(test.param), dtype_info(std::get<1>(test.param)).name);
});

// Widths that are no multiple of 32, an activation without a gate, one row.
TEST(CpuAdapterShapes, AnActivationAndCutBlocksEqualTheReference) {
  const auto record = [](plan::Phase phase) {
    plan::Builder b("tiny", phase, {40, 1, 40}, false);
    const auto matrix = [&](const char* name, std::uint32_t rows, std::uint32_t cols) {
      return b.weight({name, DType::f32, rows, cols, 0});
    };
    const plan::BufferId x = b.embed(matrix("embd", 97, 80), plan::kNone, 1.0F);
    plan::MatmulOptions up;
    up.bias[0] = b.weight({"up_bias", DType::f32, 1, 72, 0});
    up.activation = plan::Activation::gelu_tanh;
    const plan::BufferId h = b.matmul("h", x, matrix("up", 72, 80), up);
    plan::MatmulOptions down;
    down.residual = x;
    down.scale = 0.5F;
    const plan::BufferId y = b.matmul("y", h, matrix("down", 80, 72), down);
    b.logits(b.select_rows(y), matrix("output", 97, 80), 1.0F, 0.0F);
    return b.finish();
  };
  const auto run = [&](Backend& device, plan::Phase phase, bool adapts) {
    Adapter adapter(3, {"up", "down", "output"}, 4);
    Runner runner(device, record(phase), 1);
    adapter.bind(runner, 15);
    runner.adapter_scales.resize(kMaxAdapters);
    runner.adapter_scales[15] = adapts ? 1.5F : 0.0F;
    return runner.run(prompt(37, 0));
  };
  const auto reference = make_reference_backend();
  const auto expected = run(*reference, plan::Phase::decode, true);
  EXPECT_GT(difference(run(*reference, plan::Phase::decode, false), expected), 0.1);
  for (const std::string& isa : isas()) {
    const auto cpu = *make_cpu_backend({2, isa});
    EXPECT_LT(difference(run(*cpu, plan::Phase::decode, true), expected), 1e-5) << isa;
    EXPECT_LT(difference(run(*cpu, plan::Phase::prefill, true), expected), 0.02) << isa;
  }
}

}  // namespace
}  // namespace orrery::backend
