#include "plan/builder.hpp"

#include <utility>

#include "base/check.hpp"

namespace orrery::plan {

NumberClass weight_class(Phase phase, DType dtype, bool deterministic) {
  if (phase != Phase::decode && !deterministic) return NumberClass::b16;
  return dtype_info(dtype).is_quantized ? NumberClass::i8 : NumberClass::f32;
}

Builder::Builder(std::string family, Phase phase, Capacity capacity, bool deterministic)
    : deterministic_(deterministic) {
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

BufferId Builder::buffer(std::string name, Extent rows, std::uint32_t cols, Form form) {
  plan_.buffers.push_back({std::move(name), rows, cols, form, 0});
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
NumberClass Builder::class_of(WeightId weight, Extent rows) const {
  const Phase phase = rows == kOutputs ? Phase::decode : plan_.phase;
  return weight_class(phase, plan_.weights[weight].dtype, deterministic_);
}

BufferId Builder::operand(BufferId x, NumberClass number_class) {
  if (number_class == NumberClass::f32) return x;
  const Form form = number_class == NumberClass::i8 ? Form::q8 : Form::bf16;
  const auto key = std::pair(x, form);
  if (const auto found = operands_.find(key); found != operands_.end()) return found->second;
  const Buffer source = plan_.buffers[x];
  const BufferId out = buffer(source.name, source.rows, source.cols, form);
  Step& step = append(Op::quantize_rows, NumberClass::f32);
  step.in[0] = x;
  step.out[0] = out;
  operands_.emplace(key, out);
  return out;
}

BufferId Builder::embed(WeightId table, WeightId positions, float scale) {
  const BufferId out = buffer("x", kTokens, plan_.weights[table].cols, Form::f32);
  Step& step = append(Op::embed, NumberClass::f32);
  step.w = {table, positions, kNone};
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
    const NumberClass number_class = class_of(weights[begin], rows);
    std::size_t end = begin + 1;
    while (end < weights.size() && class_of(weights[end], rows) == number_class) ++end;
    const BufferId in = operand(x, number_class);
    for (std::size_t i = begin; i < end; ++i) {
      ORRERY_CHECK(plan_.weights[weights[i]].cols == plan_.buffers[x].cols);
      outs.push_back(buffer(names[i], rows, plan_.weights[weights[i]].rows, Form::f32));
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
    const BufferId out = buffer(std::move(name), rows, plan_.weights[gate].rows, Form::f32);
    Step& product = append(Op::mul, NumberClass::f32);
    product.in = {g, u, kNone};
    product.out[0] = out;
    return out;
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

BufferId Builder::attention(BufferId q, BufferId k, BufferId v, const AttentionOptions& options) {
  const BufferId rotated = buffer("q_rope", kTokens, plan_.buffers[q].cols, Form::f32);
  const BufferId out =
      buffer("attn", kTokens, std::uint32_t{options.heads} * options.v_dim, Form::f32);
  const bool b16 = plan_.phase != Phase::decode && !deterministic_;
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
    } else {
      step.in[0] = rotated;
      step.out[0] = out;
      step.scale = options.scale;
      step.softcap = options.softcap;
      step.window = options.window;
    }
  }
  return out;
}

BufferId Builder::add(std::string name, BufferId a, BufferId b) {
  const Buffer source = plan_.buffers[a];
  const BufferId out = buffer(std::move(name), source.rows, source.cols, Form::f32);
  Step& step = append(Op::add, NumberClass::f32);
  step.in = {a, b, kNone};
  step.out[0] = out;
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

void Builder::logits(BufferId x, WeightId head, float scale, float softcap) {
  const NumberClass number_class = class_of(head, kOutputs);
  const BufferId in = operand(x, number_class);
  plan_.vocab = plan_.weights[head].rows;
  plan_.result = buffer("logits", kOutputs, plan_.vocab, Form::f32);
  Step& step = append(Op::logits, number_class);
  step.in[0] = in;
  step.w[0] = head;
  step.out[0] = plan_.result;
  step.scale = scale;
  step.softcap = softcap;
}

Plan Builder::finish() {
  return std::move(plan_);
}

}  // namespace orrery::plan
