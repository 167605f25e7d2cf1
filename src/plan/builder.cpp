#include "plan/builder.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace orrery::plan {

NumberClass weight_class(Phase phase, DType dtype, bool deterministic) {
  if (phase != Phase::decode && !deterministic) return NumberClass::b16;
  return dtype_info(dtype).is_quantized ? NumberClass::i8 : NumberClass::f32;
}

Builder::Builder(std::string family, Phase phase, Capacity capacity, bool deterministic,
                 bool experts_as_decode)
    : deterministic_(deterministic), experts_as_decode_(experts_as_decode) {
  plan_.family = std::move(family);
  plan_.phase = phase;
  plan_.capacity = capacity;
}

WeightId Builder::weight(Weight weight) {
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    if (plan_.weights[i] == weight) return static_cast<WeightId>(i);  // a tied head is one weight
  }
  plan_.weights.push_back(std::move(weight));
  ORRERY_CHECK(plan_.weights.size() <= 32767);
  return static_cast<WeightId>(plan_.weights.size() - 1);
}

std::int16_t Builder::constant(std::vector<float> values) {
  for (std::size_t i = 0; i < plan_.constants.size(); ++i) {
    if (plan_.constants[i] == values) return static_cast<std::int16_t>(i);
  }
  plan_.constants.push_back(std::move(values));
  return static_cast<std::int16_t>(plan_.constants.size() - 1);
}

std::int16_t Builder::cache_group(CacheGroup group) {
  plan_.groups.push_back(group);
  return static_cast<std::int16_t>(plan_.groups.size() - 1);
}

BufferId Builder::buffer(std::string name, Extent rows, std::uint32_t cols, Form form,
                         Order order) {
  plan_.buffers.push_back({std::move(name), rows, cols, form, 0, order});
  ORRERY_CHECK(plan_.buffers.size() <= 32767);
  return static_cast<BufferId>(plan_.buffers.size() - 1);
}

Step& Builder::append(Op op, NumberClass number_class) {
  Step step;
  step.op = op;
  step.number_class = number_class;
  step.layer = layer_;
  plan_.steps.push_back(step);
  return plan_.steps.back();
}

// The vocabulary head has few rows in every phase: it keeps decode's class, so that the logits of a
// prompt's last token and of the tokens that follow are rounded alike.
NumberClass Builder::class_of(WeightId weight, Extent rows, bool as_decode) const {
  const Phase phase = rows == kOutputs || as_decode ? Phase::decode : plan_.phase;
  return weight_class(phase, plan_.weights[weight].dtype, deterministic_);
}

BufferId Builder::operand(BufferId x, NumberClass number_class) {
  if (number_class == NumberClass::f32) return x;
  const Form form = number_class == NumberClass::i8 ? Form::q8 : Form::bf16;
  const auto key = std::pair(x, form);
  if (const auto found = operands_.find(key); found != operands_.end()) return found->second;
  const Buffer source = plan_.buffers[x];
  // Products of class i8 take rows, also among those of token blocks.
  const Order order = form == Form::q8 && is_b16() ? Order::rows : Order::any;
  const BufferId out = buffer(source.name, source.rows, source.cols, form, order);
  Step& step = append(Op::quantize_rows, NumberClass::f32);
  step.in[0] = x;
  step.out[0] = out;
  operands_.emplace(key, out);
  return out;
}

BufferId Builder::embed(WeightId table, WeightId positions, float scale, WeightId types) {
  const BufferId out = buffer("x", kTokens, plan_.weights[table].cols, Form::f32);
  Step& step = append(Op::embed, NumberClass::f32);
  step.w = {table, positions, types};
  step.scale = scale;
  step.out[0] = out;
  return out;
}

BufferId Builder::norm(std::string name, BufferId x, WeightId weight, const NormOptions& options) {
  const Buffer source = plan_.buffers[x];
  const BufferId out = buffer(std::move(name), source.rows, source.cols, Form::f32);
  Step& step = append(Op::norm, NumberClass::f32);
  step.in[0] = x;
  step.out[0] = out;
  step.w[0] = weight;
  step.bias[0] = options.bias;
  step.residual = options.residual;
  step.norm_kind = options.kind;
  step.eps = options.eps;
  step.norm_offset = options.offset;
  step.heads = options.parts;
  return out;
}

std::vector<BufferId> Builder::matmul(std::span<const std::string> names, BufferId x,
                                      std::span<const WeightId> weights,
                                      const MatmulOptions& options) {
  ORRERY_CHECK(!weights.empty() && weights.size() <= 3 && names.size() == weights.size());
  const Extent rows = plan_.buffers[x].rows;
  std::vector<BufferId> outs;
  std::size_t begin = 0;
  while (begin < weights.size()) {
    const auto class_at = [&](std::size_t i) {
      return class_of(weights[i], rows, options.as_decode);
    };
    const NumberClass number_class = class_at(begin);
    std::size_t end = begin + 1;
    while (end < weights.size() && class_at(end) == number_class) ++end;
    // Where the other operands are of class b16, a step of decode's class rounds its own.
    const BufferId in = options.as_decode && is_b16() ? x : operand(x, number_class);
    const Order order = options.as_decode ? Order::rows : Order::any;
    for (std::size_t i = begin; i < end; ++i) {
      ORRERY_CHECK(plan_.weights[weights[i]].cols == plan_.buffers[x].cols);
      outs.push_back(buffer(names[i], rows, plan_.weights[weights[i]].rows, Form::f32, order));
    }
    Step& step = append(Op::matmul, number_class);
    step.in[0] = in;
    for (std::size_t i = begin; i < end; ++i) {
      step.w[i - begin] = weights[i];
      step.bias[i - begin] = options.bias[i];
      step.out[i - begin] = outs[i];
    }
    step.residual = options.residual;
    step.scale = options.scale;
    step.softcap = options.softcap;
    step.activation = options.activation;
    begin = end;
  }
  return outs;
}

BufferId Builder::matmul(std::string name, BufferId x, WeightId weight,
                         const MatmulOptions& options) {
  return matmul(std::span(&name, 1), x, std::span(&weight, 1), options)[0];
}

BufferId Builder::glu(std::string name, BufferId x, WeightId gate, WeightId up,
                      Activation activation) {
  const Extent rows = plan_.buffers[x].rows;
  const NumberClass number_class = class_of(gate, rows);
  // One step needs one class and one element type: block kernels unpack both weights alike.
  if (class_of(up, rows) != number_class || plan_.weights[gate].dtype != plan_.weights[up].dtype) {
    MatmulOptions activated;
    activated.activation = activation;
    const BufferId g = matmul(name + "_gate", x, gate, activated);
    const BufferId u = matmul(name + "_up", x, up, {});
    return mul(std::move(name), g, u, Activation::none);
  }
  const BufferId in = operand(x, number_class);
  const BufferId out = buffer(std::move(name), rows, plan_.weights[gate].rows, Form::f32);
  Step& step = append(Op::matmul, number_class);
  step.in[0] = in;
  step.w = {gate, up, kNone};
  step.out[0] = out;
  step.activation = activation;
  step.glu = true;
  return out;
}

BufferId Builder::moe_route(BufferId logits, const RouteOptions& options) {
  const std::uint32_t experts = plan_.buffers[logits].cols;
  ORRERY_CHECK(plan_.buffers[logits].order == Order::rows);
  ORRERY_CHECK(options.used > 0 && options.used <= experts);
  const bool shared = options.shared_gate != kNone;
  const std::uint32_t cols = 2U * options.used + (shared ? 1U : 0U);
  const BufferId out = buffer("routes", kTokens, cols, Form::f32, Order::rows);
  Step& step = append(Op::moe_route, NumberClass::f32);
  step.in = {logits, options.shared_gate, kNone};
  step.w = {options.choice_bias, options.factors, kNone};
  step.out[0] = out;
  step.scale = options.scale;
  step.experts = static_cast<std::uint16_t>(experts);
  step.experts_used = options.used;
  step.gate = options.gate;
  step.renormalise = options.renormalise;
  step.groups = options.groups;
  step.groups_used = options.groups_used;
  step.group_score = options.group_score;
  return out;
}

Step& Builder::append_moe_matmul(BufferId x, BufferId routes, std::array<WeightId, 2> weights,
                                 bool as_decode) {
  const Weight& first = plan_.weights[weights[0]];
  const bool of_experts = plan_.buffers[x].order == Order::experts;
  const NumberClass number_class = class_of(weights[0], kTokens, as_decode);
  const BufferId in = of_experts ? x : operand(x, number_class);
  Step& step = append(Op::moe_matmul, number_class);
  step.in = {in, routes, kNone};
  step.w = {weights[0], weights[1], kNone};
  step.experts = static_cast<std::uint16_t>(first.experts);
  step.experts_used = static_cast<std::uint16_t>(plan_.buffers[routes].cols / 2);
  return step;
}

BufferId Builder::experts(std::string name, BufferId x, BufferId routes,
                          const ExpertOptions& options) {
  const Weight gate = plan_.weights[options.gate], down = plan_.weights[options.down];
  const auto used = static_cast<std::int32_t>(plan_.buffers[routes].cols / 2);
  const bool glu = options.up != kNone;
  ORRERY_CHECK(gate.experts > 0 && (!glu || gate.dtype == plan_.weights[options.up].dtype));
  // The rows between are written as the operand of the next product. Blocks of 32 tokens hold one
  // expert's: each expert that is used may leave all but one of a block's places empty.
  const bool as_decode = experts_as_decode_ && dtype_info(gate.dtype).is_quantized &&
                         dtype_info(down.dtype).is_quantized;
  const NumberClass next = class_of(options.down, kTokens, as_decode);
  const bool blocks = next == NumberClass::b16;
  const Form form = blocks ? Form::bf16 : next == NumberClass::i8 ? Form::q8 : Form::f32;
  const std::int64_t pairs = std::int64_t{plan_.capacity.tokens} * used;
  const auto padded = static_cast<std::int32_t>(31 * std::min<std::int64_t>(gate.experts, pairs));
  const Extent inner_rows{used, 0, 0, blocks ? padded : 0};
  const BufferId inner = buffer(name + "_glu", inner_rows, gate.rows, form, Order::experts);
  const BufferId outer =
      buffer(name + "_down", {used, 0, 0, 0}, down.rows, Form::f32, Order::experts);
  const BufferId out = buffer(std::move(name), kTokens, down.rows, Form::f32);

  Step& widen = append_moe_matmul(x, routes, {options.gate, options.up}, as_decode);
  widen.out[0] = inner;
  widen.bias = {options.gate_bias, options.up_bias, kNone};
  widen.activation = options.activation;
  widen.glu = glu;
  widen.weigh_input = options.weigh_input;
  Step& project = append_moe_matmul(inner, routes, {options.down, kNone}, as_decode);
  project.out[0] = outer;
  project.bias[0] = options.down_bias;
  Step& combine = append(Op::moe_combine, NumberClass::f32);
  combine.in = {outer, routes, options.shared};
  combine.out[0] = out;
  combine.experts = static_cast<std::uint16_t>(gate.experts);
  combine.experts_used = static_cast<std::uint16_t>(used);
  combine.scale = options.scale;
  combine.bias[0] = options.sum_bias;
  combine.weigh_input = options.weigh_input;
  combine.residual = options.residual;
  return out;
}

BufferId Builder::attention(BufferId q, BufferId k, BufferId v, const AttentionOptions& options) {
  const BufferId rotated = buffer("q_rope", kTokens, plan_.buffers[q].cols, Form::f32);
  const BufferId out =
      buffer("attn", kTokens, std::uint32_t{options.heads} * options.v_dim, Form::f32);
  const bool b16 = is_b16();
  for (const Op op : {Op::rope_kv_write, Op::attention}) {
    Step& step = append(op, op == Op::attention && b16 ? NumberClass::b16 : NumberClass::f32);
    step.group = options.group;
    step.group_layer = options.group_layer;
    step.heads = options.heads;
    step.kv_heads = options.kv_heads;
    step.k_dim = options.k_dim;
    step.v_dim = options.v_dim;
    if (op == Op::rope_kv_write) {
      step.in = {q, k, v};
      step.out[0] = rotated;
      step.rope = options.rope;
      step.rope_dim = options.rope_dim;
      step.rope_table = options.rope_table;
      step.rope_mscale = options.rope_mscale;
      step.qk_norm = options.qk_norm;
      step.w = {options.q_norm, options.k_norm, kNone};
      step.eps = options.eps;
      step.norm_offset = options.norm_offset;
      step.query_growth = options.query_growth;
    } else {
      step.in[0] = rotated;
      step.out[0] = out;
      step.scale = options.scale;
      step.softcap = options.softcap;
      step.window = options.window;
      step.chunked = options.chunked;
      step.w[0] = options.sinks;
      step.causal = options.causal;
    }
  }
  return out;
}

BufferId Builder::add(std::string name, BufferId a, BufferId b, float scale) {
  const Buffer source = plan_.buffers[a];
  const BufferId out = buffer(std::move(name), source.rows, source.cols, Form::f32);
  Step& step = append(Op::add, NumberClass::f32);
  step.in = {a, b, kNone};
  step.out[0] = out;
  step.scale = scale;
  return out;
}

BufferId Builder::mul(std::string name, BufferId a, BufferId b, Activation activation) {
  const Buffer source = plan_.buffers[a];
  const BufferId out = buffer(std::move(name), source.rows, source.cols, Form::f32);
  Step& step = append(Op::mul, NumberClass::f32);
  step.in = {a, b, kNone};
  step.out[0] = out;
  step.activation = activation;
  return out;
}

void Builder::tap(std::string name, BufferId x) {
  plan_.buffers[x].name = std::move(name);
  append(Op::tap, NumberClass::f32).in[0] = x;
}

BufferId Builder::select_rows(BufferId x) {
  const BufferId out = buffer("last", kOutputs, plan_.buffers[x].cols, Form::f32);
  Step& step = append(Op::select_rows, NumberClass::f32);
  step.in[0] = x;
  step.out[0] = out;
  return out;
}

void Builder::logits(BufferId x, WeightId head, float scale, float softcap, WeightId bias) {
  const NumberClass number_class = class_of(head, kOutputs);
  const BufferId in = operand(x, number_class);
  plan_.vocab = plan_.weights[head].rows;
  plan_.result = buffer("logits", kOutputs, plan_.vocab, Form::f32);
  Step& step = append(Op::logits, number_class);
  step.in[0] = in;
  step.w[0] = head;
  step.bias[0] = bias;
  step.out[0] = plan_.result;
  step.scale = scale;
  step.softcap = softcap;
}

BufferId Builder::pool(BufferId x, PoolKind kind) {
  const BufferId out = buffer("pooled", kOutputs, plan_.buffers[x].cols, Form::f32);
  Step& step = append(Op::pool, NumberClass::f32);
  step.in[0] = x;
  step.out[0] = out;
  step.pool_kind = kind;
  return out;
}

Plan Builder::finish() {
  return std::move(plan_);
}

}  // namespace orrery::plan
