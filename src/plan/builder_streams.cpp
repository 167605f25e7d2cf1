// Steps on parts of rows, and on the several residual streams of AltUp.
#include <utility>

#include "base/check.hpp"
#include "plan/builder.hpp"

namespace orrery::plan {

BufferId Builder::columns(std::string name, BufferId x, std::uint32_t begin, std::uint32_t cols) {
  const Buffer source = plan_.buffers[x];
  ORRERY_CHECK(begin + cols <= source.cols);
  const BufferId out = buffer(std::move(name), source.rows, cols, Form::f32);
  Step& step = append(Op::columns, NumberClass::f32);
  step.in[0] = x;
  step.out[0] = out;
  step.begin = begin;
  return out;
}

BufferId Builder::join(std::string name, BufferId a, BufferId b) {
  const Buffer source = plan_.buffers[a];
  const BufferId out =
      buffer(std::move(name), source.rows, source.cols + plan_.buffers[b].cols, Form::f32);
  Step& step = append(Op::join, NumberClass::f32);
  step.in = {a, b, kNone};
  step.out[0] = out;
  return out;
}

BufferId Builder::sparsify(std::string name, BufferId x, float deviations) {
  const Buffer source = plan_.buffers[x];
  const BufferId out = buffer(std::move(name), source.rows, source.cols, Form::f32);
  Step& step = append(Op::sparsify, NumberClass::f32);
  step.in[0] = x;
  step.out[0] = out;
  step.scale = deviations;
  return out;
}

BufferId Builder::match_rms(std::string name, BufferId x, BufferId like,
                            const MatchOptions& options) {
  const Buffer source = plan_.buffers[x];
  ORRERY_CHECK(source.cols == plan_.buffers[like].cols);
  const BufferId out = buffer(std::move(name), source.rows, source.cols, Form::f32);
  Step& step = append(Op::match_rms, NumberClass::f32);
  step.in = {x, like, kNone};
  step.out[0] = out;
  step.eps = options.least;
  step.scale = options.scale;
  step.residual = options.residual;
  return out;
}

Builder::Streams Builder::altup_predict(BufferId streams, BufferId router, WeightId coefficients,
                                        std::uint16_t active) {
  const Buffer source = plan_.buffers[streams];
  const std::uint32_t n = plan_.buffers[router].cols;
  ORRERY_CHECK(source.cols % n == 0 && active < n);
  ORRERY_CHECK(plan_.weights[coefficients].cols == n && plan_.weights[coefficients].rows == n * n);
  const Streams out{buffer("predicted", source.rows, source.cols, Form::f32),
                    buffer("active", source.rows, source.cols / n, Form::f32)};
  Step& step = append(Op::altup_predict, NumberClass::f32);
  step.in = {streams, router, kNone};
  step.out = {out.all, out.active, kNone};
  step.w[0] = coefficients;
  step.active = active;
  return out;
}

Builder::Streams Builder::altup_correct(BufferId predicted, BufferId activated, BufferId router,
                                        WeightId coefficients, WeightId scale,
                                        std::uint16_t active) {
  const Buffer source = plan_.buffers[predicted];
  const std::uint32_t n = plan_.buffers[router].cols;
  ORRERY_CHECK(source.cols == n * plan_.buffers[activated].cols && active < n);
  ORRERY_CHECK(plan_.weights[coefficients].cols == n && plan_.weights[coefficients].rows == n);
  const Streams out{buffer("corrected", source.rows, source.cols, Form::f32),
                    buffer("scaled", source.rows, source.cols / n, Form::f32)};
  Step& step = append(Op::altup_correct, NumberClass::f32);
  step.in = {predicted, activated, router};
  step.out = {out.all, out.active, kNone};
  step.w = {coefficients, scale, kNone};
  step.active = active;
  return out;
}

BufferId Builder::altup_add(BufferId streams, BufferId x) {
  const Buffer source = plan_.buffers[streams];
  ORRERY_CHECK(source.cols % plan_.buffers[x].cols == 0);
  const BufferId out = buffer("streams", source.rows, source.cols, Form::f32);
  Step& step = append(Op::altup_add, NumberClass::f32);
  step.in = {streams, x, kNone};
  step.out[0] = out;
  return out;
}

}  // namespace orrery::plan
