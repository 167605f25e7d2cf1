// The reference backend against values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "backend/backend.hpp"
#include "plan/builder.hpp"
#include "plan/passes.hpp"
#include "tensor/half.hpp"

namespace orrery::backend {
namespace {

using plan::BufferId;
using plan::Builder;
using plan::kNone;
using plan::Phase;
using plan::WeightId;

// A plan with f32 weights kept here, run on rows whose token ids are 0, 1, 2, ...
class Reference : public ::testing::Test {
 protected:
  WeightId weight(Builder& builder, std::vector<float> values, std::uint32_t rows) {
    const auto cols = static_cast<std::uint32_t>(values.size()) / rows;
    data_.push_back(std::move(values));
    return builder.weight({"w" + std::to_string(data_.size()), DType::f32, rows, cols, 0});
  }

  // The rows of `result` for tokens at positions first, first + 1, ...
  std::vector<float> run(plan::Plan plan, BufferId result, std::int32_t n, std::int32_t first = 0) {
    plan.result = result;
    Bindings bindings;
    for (const std::vector<float>& values : data_) {
      bindings.weights.push_back(reinterpret_cast<const std::byte*>(values.data()));
    }
    if (pool_.empty() && !plan.groups.empty()) pool_.resize(plan.groups[0].page_bytes() * 4);
    for (std::size_t g = 0; g < plan.groups.size(); ++g)
      bindings.pools.push_back({pool_.data(), 4});
    const auto backend = make_reference_backend();
    auto program = backend->compile(plan::place(plan, false), std::move(bindings));
    EXPECT_TRUE(program);
    std::vector<std::int32_t> ids(n), positions(n), sequences(n, 0), outputs(n);
    std::iota(ids.begin(), ids.end(), 0);
    std::iota(outputs.begin(), outputs.end(), 0);
    std::iota(positions.begin(), positions.end(), first);
    const std::vector<std::int32_t> pages = {2, 0, 3, 1};
    const std::vector<const std::int32_t*> tables(plan.groups.size(), pages.data());
    Batch batch;
    batch.n_tokens = batch.n_outputs = n;
    batch.n_sequences = 1;
    batch.ids = ids.data();
    batch.positions = positions.data();
    batch.row_sequence = sequences.data();
    batch.output_rows = outputs.data();
    batch.page_tables = tables;
    batch.pages_stride = 4;
    // In two parts: a program can be left at every step boundary.
    EXPECT_TRUE((*program)->run(batch, 0, 1));
    EXPECT_TRUE((*program)->run(batch, 1, (*program)->n_steps()));
    const float* rows = (*program)->result();
    return {rows, rows + static_cast<std::size_t>(n) * plan.buffers[result].cols};
  }

  std::vector<std::vector<float>> data_;
  std::vector<std::byte> pool_;
};

void expect_near(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-6 * (1 + std::abs(want[i]))) << "element " << i;
  }
}

TEST_F(Reference, EmbedScalesRowsAndAddsPositions) {
  Builder b("t", Phase::decode, {4, 1, 4}, false);
  const WeightId table = weight(b, {1, 2, 3, 4}, 2);
  const WeightId positions = weight(b, {10, 20, 30, 40, 50, 60}, 3);
  const BufferId x = b.embed(table, positions, 2.0F);
  b.tap("x", x);
  expect_near(run(b.finish(), x, 2, 1), {2 + 30, 4 + 40, 6 + 50, 8 + 60});
}

TEST_F(Reference, NormsWithOffsetBiasAndResidual) {
  Builder b("t", Phase::decode, {4, 1, 4}, false);
  const BufferId x = b.embed(weight(b, {3, 4}, 1), kNone, 1.0F);
  plan::NormOptions rms;
  rms.eps = 0.5F;
  rms.offset = 1.0F;
  rms.residual = x;
  const BufferId a = b.norm("a", x, weight(b, {1, 2}, 1), rms);
  const double r = 1 / std::sqrt(12.5 + 0.5);
  plan::NormOptions layer;
  layer.kind = plan::NormKind::layer;
  layer.eps = 0.75F;
  layer.bias = weight(b, {5, 6}, 1);
  const WeightId w = weight(b, {2, 3}, 1);
  const BufferId l = b.norm("l", x, w, layer);
  const plan::Plan plan = b.finish();
  expect_near(run(plan, a, 1), {3 + 3 * r * 2, 4 + 4 * r * 3});
  expect_near(run(plan, l, 1), {-0.5 * 2 + 5, 0.5 * 3 + 6});  // variance 0.25 + 0.75 is 1
}

TEST_F(Reference, MatmulOrderIsBiasActivationScaleResidual) {
  Builder b("t", Phase::decode, {4, 1, 4}, false);
  const BufferId x = b.embed(weight(b, {1, 2}, 1), kNone, 1.0F);
  const WeightId w = weight(b, {1, 1, -1, 1}, 2);
  plan::MatmulOptions options;
  options.bias[0] = weight(b, {1, -3}, 1);
  options.activation = plan::Activation::silu;
  options.scale = 10.0F;
  options.residual = x;
  const BufferId y = b.matmul("y", x, w, options);
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  expect_near(run(b.finish(), y, 1), {10 * silu(4) + 1, 10 * silu(-2) + 2});
}

TEST_F(Reference, GluAndGelus) {
  Builder b("t", Phase::decode, {4, 1, 4}, false);
  const BufferId x = b.embed(weight(b, {1, 2}, 1), kNone, 1.0F);
  const WeightId gate = weight(b, {1, 1}, 1), up = weight(b, {2, 3}, 1);
  const BufferId y = b.glu("y", x, gate, up, plan::Activation::gelu_erf);
  plan::MatmulOptions options;
  options.activation = plan::Activation::gelu_tanh;
  const BufferId z = b.matmul("z", x, gate, options);
  const plan::Plan plan = b.finish();
  // Phi(3) = 0.998650102, from tables of the normal distribution.
  expect_near(run(plan, y, 1), {3 * 0.9986501019683699 * 8});
  expect_near(run(plan, z, 1), {2.996362607});
}

TEST_F(Reference, LogitsAreScaledThenCapped) {
  Builder b("t", Phase::decode, {4, 1, 4}, false);
  const BufferId x = b.embed(weight(b, {1, 2}, 1), kNone, 1.0F);
  b.logits(b.select_rows(x), weight(b, {1, 1, 30, 0}, 2), 0.5F, 3.0F);
  const plan::Plan plan = b.finish();
  expect_near(run(plan, plan.result, 1), {3 * std::tanh(1.5 / 3), 3 * std::tanh(15.0 / 3)});
}

// Identity projections: q = k = v = the embedding row, one head of 4.
struct AttentionCase {
  plan::AttentionOptions options;
  DType type = DType::f32;  // of K and V
};

class ReferenceAttention : public Reference {
 protected:
  std::vector<float> attend(const AttentionCase& c, const std::vector<float>& rows, std::int32_t n,
                            BufferId* rotated = nullptr, std::int32_t first = 0) {
    data_.clear();
    Builder b("t", Phase::decode, {8, 1, 8}, false);
    const auto tokens = static_cast<std::uint32_t>(rows.size() / 4);
    const BufferId x = b.embed(weight(b, rows, tokens), kNone, 1.0F);
    plan::AttentionOptions options = c.options;
    options.heads = options.kv_heads = 1;
    options.k_dim = options.v_dim = 4;
    options.group = b.cache_group({plan::CacheKind::full, 0, 1, 1, 4, 4, c.type, c.type});
    if (options.rope != plan::RopeStyle::none) options.rope_table = b.constant({0.5F, 0.25F});
    if (options.qk_norm != plan::QkNorm::none) {
      options.q_norm = weight(b, {1, 2, 3, 4}, 1);
      options.k_norm = weight(b, {1, 1, 1, 1}, 1);
    }
    const BufferId out = b.attention(x, x, x, options);
    const plan::Plan plan = b.finish();
    return run(plan, rotated == nullptr ? out : plan.steps[1].out[0], n, first);
  }
};

TEST_F(ReferenceAttention, SoftmaxOverEarlierPositions) {
  AttentionCase c;
  c.options.scale = 0.5F;
  const std::vector<float> got = attend(c, {1, 0, 0, 0, 2, 0, 0, 4}, 2);
  // Row 1: scores 0.5 * 2 and 0.5 * 20.
  const double a = std::exp(1.0 - 10.0), sum = a + 1;
  expect_near(got, {1, 0, 0, 0, (a * 1 + 2) / sum, 0, 0, 4 / sum});
}

TEST_F(ReferenceAttention, SoftcapBoundsTheScores) {
  AttentionCase c;
  c.options.softcap = 2.0F;
  const std::vector<float> got = attend(c, {1, 0, 0, 0, 2, 0, 0, 4}, 2);
  const double a = std::exp(2 * std::tanh(1.0)), b = std::exp(2 * std::tanh(10.0));
  expect_near({got.begin() + 4, got.end()}, {(a + 2 * b) / (a + b), 0, 0, 4 * b / (a + b)});
}

TEST_F(ReferenceAttention, WindowOfTwoSeesItselfAndOneMore) {
  AttentionCase c;
  c.options.scale = 0.0F;  // equal weights
  c.options.window = 2;
  const std::vector<float> got = attend(c, {8, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0}, 3);
  expect_near(got, {8, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0});
}

TEST_F(ReferenceAttention, PagesContinueTheSequence) {
  AttentionCase c;
  c.options.scale = 0.0F;
  c.options.window = 3;
  // Positions 62 and 63 lie in the first page, 64 in the second.
  EXPECT_EQ(attend(c, {1, 0, 0, 0, 2, 0, 0, 0}, 2, nullptr, 62).size(), 8U);
  expect_near(attend(c, {6, 0, 0, 0}, 1, nullptr, 64), {3, 0, 0, 0});
}

TEST_F(ReferenceAttention, PagesRoundToTheirType) {
  const float third = 1.0F / 3;
  const auto through = [&](DType type) {
    AttentionCase c;
    c.type = type;
    pool_.clear();  // pages of another size
    return attend(c, {third, 0, 0, 0}, 1)[0];
  };
  EXPECT_EQ(through(DType::f16), f16_to_f32(f32_to_f16(third)));
  EXPECT_EQ(through(DType::bf16), bf16_to_f32(f32_to_bf16(third)));
  EXPECT_EQ(through(DType::f32), third);
}

TEST_F(ReferenceAttention, RotatesPairsByPositionTimesFrequency) {
  AttentionCase c;
  BufferId rotated = 0;
  const double s1 = std::sin(1.5), c1 = std::cos(1.5), s2 = std::sin(0.75), c2 = std::cos(0.75);
  c.options.rope_dim = 4;
  c.options.rope = plan::RopeStyle::adjacent;
  c.options.rope_mscale = 2.0F;
  expect_near(attend(c, {1, 2, 3, 4}, 1, &rotated, 3),
              {2 * (c1 - 2 * s1), 2 * (s1 + 2 * c1), 2 * (3 * c2 - 4 * s2), 2 * (3 * s2 + 4 * c2)});
  c.options.rope = plan::RopeStyle::halves;
  c.options.rope_mscale = 1.0F;
  expect_near(attend(c, {1, 2, 3, 4}, 1, &rotated, 3),
              {c1 - 3 * s1, 2 * c2 - 4 * s2, s1 + 3 * c1, 2 * s2 + 4 * c2});
  c.options.rope_dim = 2;  // the rest of the head stays
  expect_near(attend(c, {1, 2, 3, 4}, 1, &rotated, 3), {c1 - 2 * s1, s1 + 2 * c1, 3, 4});
}

TEST_F(ReferenceAttention, NormalisesHeadsBeforeRotation) {
  AttentionCase c;
  BufferId rotated = 0;
  c.options.qk_norm = plan::QkNorm::head;
  c.options.norm_offset = 1.0F;
  expect_near(attend(c, {1, 1, 1, 1}, 1, &rotated), {2, 3, 4, 5});
}

}  // namespace
}  // namespace orrery::backend
