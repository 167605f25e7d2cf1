#include <gtest/gtest.h>

#include <vector>

#include "plan/builder.hpp"
#include "plan/passes.hpp"

namespace orrery::plan {
namespace {

// A matrix and a mixture of experts of `inner` and `outer` types, each behind a norm; fused.
Plan with_experts(DType inner, DType outer, bool experts_as_decode) {
  Builder b("moe", Phase::prefill, {64, 1, 1}, false, experts_as_decode);
  const BufferId x = b.embed(b.weight({"embed", DType::f32, 9, 64}), kNone, 1.0F);
  const BufferId h = b.norm("h", x, b.weight({"norm", DType::f32, 1, 64}), {});
  b.matmul("m", h, b.weight({"matrix", DType::q4_0, 64, 64}), {});
  MatmulOptions router;
  router.as_decode = true;
  const BufferId logits = b.matmul("r", h, b.weight({"router", DType::f32, 8, 64}), router);
  const auto stack = [&](const char* name, DType type, std::uint32_t rows, std::uint32_t cols) {
    return b.weight({.tensor = name, .dtype = type, .rows = rows, .cols = cols, .experts = 8});
  };
  ExpertOptions options;
  options.gate = stack("gate", inner, 32, 64);
  options.up = stack("up", inner, 32, 64);
  options.down = stack("down", outer, 64, 32);
  const BufferId e = b.norm("e", x, b.weight({"norm", DType::f32, 1, 64}), {});
  b.experts("moe", e, b.moe_route(logits, {.used = 2}), options);
  return fuse(b.finish(), [](const Plan&, const Step&) { return true; });
}

std::vector<NumberClass> classes(const Plan& plan, Op op) {
  std::vector<NumberClass> found;
  for (const Step& step : plan.steps) {
    if (step.op == op) found.push_back(step.number_class);
  }
  return found;
}

using enum NumberClass;

TEST(Experts, PrefillKeepsDecodesClassForQuantizedOnesAlone) {
  const Plan mixed = with_experts(DType::q4_0, DType::q8_0, true);
  EXPECT_EQ(classes(mixed, Op::moe_matmul), (std::vector{i8, i8}));
  EXPECT_EQ(classes(mixed, Op::matmul), (std::vector{b16, f32}));
  EXPECT_EQ(classes(with_experts(DType::q4_0, DType::q8_0, false), Op::moe_matmul),
            (std::vector{b16, b16}));
  // One operand form leads from the first product to the second.
  EXPECT_EQ(classes(with_experts(DType::q4_0, DType::f16, true), Op::moe_matmul),
            (std::vector{b16, b16}));
  EXPECT_EQ(classes(with_experts(DType::f32, DType::f32, true), Op::moe_matmul),
            (std::vector{b16, b16}));
}

// The norm writes blocks, also where nobody but the experts reads it.
TEST(Experts, TheirOperandIsRowsAmongBlocks) {
  const Plan plan = with_experts(DType::q4_0, DType::q4_0, true);
  int rows = 0;
  for (const Step& step : plan.steps) {
    if (step.op != Op::quantize_rows) continue;
    const Buffer& out = plan.buffers[step.out[0]];
    EXPECT_EQ(out.order == Order::rows, out.form == Form::q8);
    rows += out.form == Form::q8 ? 1 : 0;
  }
  EXPECT_EQ(rows, 1);
}

}  // namespace
}  // namespace orrery::plan
