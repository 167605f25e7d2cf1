// The steps of layers with a state: convolutions and recurrences.
#include <utility>

#include "base/check.hpp"
#include "plan/builder.hpp"

namespace orrery::plan {

Builder::Sections Builder::split(std::string first, std::string last, BufferId x,
                                 std::uint16_t heads, const std::array<std::uint32_t, 4>& widths) {
  const Buffer source = plan_.buffers[x];
  std::uint32_t all = 0, end = 0;  // columns of a part, of its last section
  for (const std::uint32_t width : widths) {
    all += width;
    if (width != 0) end = width;
  }
  ORRERY_CHECK(all > end && end > 0 && source.cols == heads * all);
  const Sections sections{buffer(std::move(first), source.rows, heads * (all - end), Form::f32),
                          buffer(std::move(last), source.rows, heads * end, Form::f32)};
  Step& step = append(Op::split, NumberClass::f32);
  step.in[0] = x;
  step.out = {sections.first, sections.last, kNone};
  step.heads = heads;
  step.widths = widths;
  return sections;
}

BufferId Builder::conv_state(std::string name, BufferId x, WeightId filter,
                             const ConvOptions& options) {
  const std::uint32_t channels = plan_.buffers[x].cols;
  ORRERY_CHECK(plan_.weights[filter].rows == channels);
  const BufferId out = buffer(std::move(name), kTokens, channels, Form::f32);
  Step& step = append(Op::conv_state, NumberClass::f32);
  step.in = {x, options.gate_in, options.gate_out};
  step.out[0] = out;
  step.w[0] = filter;
  step.bias[0] = options.bias;
  step.activation = options.activation;
  step.group = options.group;
  step.group_layer = options.group_layer;
  return out;
}

Step& Builder::append_recurrence(Op op, const RecurrenceOptions& options) {
  const BufferId out =
      buffer("state_out", kTokens, std::uint32_t{options.heads} * options.v_dim, Form::f32);
  Step& step = append(op, NumberClass::f32);
  step.out[0] = out;
  step.w = {options.decay, options.skip, kNone};
  step.bias[0] = options.dt_bias;
  step.group = options.group;
  step.group_layer = options.group_layer;
  step.heads = options.heads;
  step.kv_heads = options.kv_heads;
  step.k_dim = options.k_dim;
  step.v_dim = options.v_dim;
  step.scale = options.scale;
  step.eps = options.eps;
  return step;
}

BufferId Builder::scan_state(BufferId xbc, BufferId dt, const RecurrenceOptions& options) {
  Step& step = append_recurrence(Op::scan_state, options);
  step.in = {xbc, dt, kNone};
  return step.out[0];
}

BufferId Builder::delta_state(BufferId qkv, BufferId beta, BufferId dt,
                              const RecurrenceOptions& options) {
  Step& step = append_recurrence(Op::delta_state, options);
  step.in = {qkv, beta, dt};
  return step.out[0];
}

}  // namespace orrery::plan
