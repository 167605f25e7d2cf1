#include <fmt/format.h>

#include <iterator>
#include <set>

#include "plan/passes.hpp"

namespace orrery::plan {
namespace {

constexpr std::string_view kPhases[] = {"decode", "prefill", "embed"};
constexpr std::string_view kForms[] = {"f32", "q8", "bf16"};
constexpr std::string_view kKinds[] = {"full", "window", "state"};
constexpr std::string_view kPools[] = {"mean", "first", "last"};
constexpr std::string_view kActivations[] = {"none",     "silu",    "gelu_tanh",
                                             "gelu_erf", "sigmoid", "swiglu_clamped"};
constexpr std::string_view kRopes[] = {"none", "adjacent", "halves"};
constexpr std::string_view kLatents[] = {"none", "joint", "split"};
constexpr std::string_view kGates[] = {"softmax", "softmax_used", "sigmoid"};
constexpr std::string_view kGroupScores[] = {"best", "best_two"};
constexpr std::string_view kQkNorms[] = {"none", "head", "width"};

template <std::size_t n, class E>
std::string_view name_in(const std::string_view (&names)[n], E value) {
  return names[static_cast<std::size_t>(value)];
}

std::string extent_text(const Extent& extent) {
  std::string text;
  const auto term = [&](std::int32_t factor, std::string_view unit) {
    if (factor == 0) return;
    if (!text.empty()) text += '+';
    if (factor != 1 || unit.empty()) text += fmt::format("{}", factor);
    text += unit;
  };
  term(extent.per_token, "N");
  term(extent.per_sequence, "S");
  term(extent.per_output, "R");
  term(extent.fixed, "");
  return text.empty() ? "0" : text;
}

std::string buffer_text(const Plan& plan, BufferId id) {
  const Buffer& buffer = plan.buffers[id];
  return fmt::format("{}:{}({}, {}) {} @{}", id, buffer.name, extent_text(buffer.rows), buffer.cols,
                     name_in(kForms, buffer.form), buffer.offset);
}

std::string weight_text(const Plan& plan, WeightId id) {
  const Weight& weight = plan.weights[id];
  const std::string slice = weight.row_begin == 0 ? "" : fmt::format("[{}..]", weight.row_begin);
  const std::string stack = weight.experts == 0 ? "" : fmt::format("{}, ", weight.experts);
  return fmt::format("{}{}({}{}, {}) {} {} B", weight.tensor, slice, stack, weight.rows,
                     weight.cols, dtype_info(weight.dtype).name, weight.bytes());
}

// The fields that an op uses beyond its buffers and weights.
std::string details(const Step& step) {
  std::string text;
  const auto add = [&](std::string_view name, const auto& value, bool wanted) {
    if (wanted) text += fmt::format(" {}={}", name, value);
  };
  add("scale", step.scale, step.scale != 1.0F);
  add("softcap", step.softcap, step.softcap != 0.0F);
  add("kind", "layer", step.norm_kind == NormKind::layer);
  add("kind", name_in(kPools, step.pool_kind), step.op == Op::pool);
  add("eps", step.eps, step.eps != 0.0F);
  add("offset", step.norm_offset, step.norm_offset != 0.0F);
  add("glu", name_in(kActivations, step.activation), step.glu);
  add("activation", name_in(kActivations, step.activation),
      !step.glu && step.activation != Activation::none);
  add("experts", fmt::format("{}/{}", step.experts_used, step.experts), step.experts != 0);
  add("gate", name_in(kGates, step.gate), step.op == Op::moe_route);
  add("renormalise", "yes", step.renormalise);
  add("groups", fmt::format("{}/{}", step.groups_used, step.groups), step.groups != 0);
  add("group_score", name_in(kGroupScores, step.group_score), step.groups != 0);
  add("weighs", "input", step.weigh_input);
  add("parts", step.heads, step.heads != 0 && step.group == kNone);
  add("begin", step.begin, step.op == Op::columns);
  add("active", step.active, step.op == Op::altup_predict || step.op == Op::altup_correct);
  add("widths", fmt::format("{}", fmt::join(step.widths, "/")), step.widths[0] != 0);
  if (step.group == kNone) return text;
  if (step.op == Op::conv_state) {
    add("group", fmt::format("{}.{}", step.group, step.group_layer), true);
    return text;
  }
  add("group", fmt::format("{}.{}", step.group, step.group_layer), true);
  add("heads", fmt::format("{}/{}", step.heads, step.kv_heads), true);
  add("dims", fmt::format("{}/{}", step.k_dim, step.v_dim), true);
  add("latent", name_in(kLatents, step.latent), step.latent != LatentWeights::none);
  add("head", fmt::format("{}+{}/{}", step.nope_dim, step.rope_dim, step.v_head),
      step.latent != LatentWeights::none);
  add(step.chunked ? "chunk" : "window", step.window, step.window != 0);
  add("sees", "all", !step.causal);
  add("rope", name_in(kRopes, step.rope), step.rope != RopeStyle::none);
  add("rope_dim", step.rope_dim, step.rope != RopeStyle::none);
  add("rope_mscale", step.rope_mscale, step.rope_mscale != 1.0F);
  add("qk_norm", name_in(kQkNorms, step.qk_norm), step.qk_norm != QkNorm::none);
  const QueryGrowth& growth = step.query_growth;
  add("query_growth", fmt::format("{}/{}", growth.rate, growth.step), growth.rate != 0.0F);
  return text;
}

void print_step(std::string& text, const Plan& plan, std::size_t index) {
  const Step& step = plan.steps[index];
  const auto to = std::back_inserter(text);
  const std::string layer = step.layer < 0 ? "-" : fmt::format("{}", step.layer);
  fmt::format_to(to, "{:>4} {:>3} {:<13} {:<3}", index, layer, op_name(step.op),
                 class_name(step.number_class));
  for (const BufferId id : step.in) {
    if (id != kNone) fmt::format_to(to, " {}", buffer_text(plan, id));
  }
  for (const WeightId id : step.w) {
    if (id != kNone) fmt::format_to(to, " x {}", weight_text(plan, id));
  }
  for (const WeightId id : step.bias) {
    if (id != kNone) fmt::format_to(to, " + {}", weight_text(plan, id));
  }
  if (step.residual != kNone) fmt::format_to(to, " + {}", buffer_text(plan, step.residual));
  text += details(step);
  bool first = true;
  for (const BufferId id : step.out) {
    if (id == kNone) continue;
    fmt::format_to(to, "{} {}", first ? " ->" : ",", buffer_text(plan, id));
    first = false;
  }
  text += '\n';
}

}  // namespace

std::string to_text(const Plan& plan) {
  const Capacity& capacity = plan.capacity;
  std::string text = fmt::format(
      "plan {} {}: tokens {}, sequences {}, outputs {}, vocab {}, scratch {} B, weights {} B\n",
      plan.family, name_in(kPhases, plan.phase), capacity.tokens, capacity.sequences,
      capacity.outputs, plan.vocab, plan.scratch_bytes, weight_bytes(plan));
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const CacheGroup& group = plan.groups[i];
    if (group.kind == CacheKind::state) {
      text += fmt::format(
          "group {} state: layers {}, history {} x {}, states {} x {} x {}, f32, page {} B\n", i,
          group.layers, group.conv_rows, group.conv_dim, group.kv_heads, group.k_dim, group.v_dim,
          group.page_bytes());
      continue;
    }
    const std::string window =
        group.kind == CacheKind::window ? fmt::format("({})", group.window) : "";
    text +=
        fmt::format("group {} {}{}: layers {}, kv heads {}, dims {}/{}, {}/{}, page {} B{}\n", i,
                    name_in(kKinds, group.kind), window, group.layers, group.kv_heads, group.k_dim,
                    group.v_dim, dtype_info(group.k_type).name, dtype_info(group.v_type).name,
                    group.page_bytes(), group.v_in_k ? ", values in keys" : "");
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i) print_step(text, plan, i);
  return text;
}

std::uint64_t step_weight_bytes(const Plan& plan, const Step& step) {
  if (step.op == Op::embed) return 0;
  std::uint64_t bytes = 0;
  for (const auto& ids : {step.w, step.bias}) {
    for (const WeightId id : ids) {
      if (id != kNone) bytes += plan.weights[id].bytes();
    }
  }
  return bytes;
}

std::uint64_t weight_bytes(const Plan& plan) {
  std::set<WeightId> read;
  for (const Step& step : plan.steps) {
    if (step.op == Op::embed) continue;
    for (const auto& ids : {step.w, step.bias}) {
      for (const WeightId id : ids) {
        if (id != kNone) read.insert(id);
      }
    }
  }
  std::uint64_t bytes = 0;
  for (const WeightId id : read) bytes += plan.weights[id].bytes();
  return bytes;
}

}  // namespace orrery::plan
