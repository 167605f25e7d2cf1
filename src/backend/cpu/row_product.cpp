#include "backend/cpu/row_product.hpp"

#include <cstring>

namespace orrery::backend::cpu {

RowProduct::RowProduct(const CompileContext& context, const plan::Step& step)
    : kernels_(context.kernels->rows),
      activation_(activation_kind(step.activation)),
      scale_(step.scale),
      softcap_(step.softcap),
      k_(context.buffer(step.in[0]).cols),
      glu_(step.glu) {
  residual_ = context.buffer(step.residual);
}

Status RowProduct::check(const CompileContext& context, const plan::Step& step) {
  for (const plan::WeightId id : step.w) {
    if (id == plan::kNone) continue;
    const plan::Weight& weight = context.info(id);
    if (row_matmul(*context.kernels->rows, weight.dtype, weight.layout, 1) == nullptr) {
      return fail("E_UNSUPPORTED", "the CPU backend has no row kernel for weights of type " +
                                       std::string(dtype_info(weight.dtype).name));
    }
  }
  return {};
}

std::size_t RowProduct::scratch_bytes(std::uint32_t most_weight_rows) {
  return std::size_t{kRowsAtOnce} * most_weight_rows * 4 * 2 +
         kernels::q8_layout(most_weight_rows).stride;
}

void RowProduct::run(const Worker& worker, const WeightRows& weights, const OperandRows& rows,
                     const BufferRef& out, std::byte* scratch) const {
  const std::uint32_t begin = weights.begin, n = weights.rows;
  float* gate = reinterpret_cast<float*>(scratch);  // (m, n)
  float* up = gate + std::size_t{kRowsAtOnce} * n;
  std::byte* temporary = reinterpret_cast<std::byte*>(up + std::size_t{kRowsAtOnce} * n);
  const bool direct = out.form == plan::Form::f32 && !glu_;
  kernels::MatmulRows args{};
  args.n = static_cast<int>(n);
  args.k = static_cast<int>(k_);
  args.x = rows.x;
  args.x_stride = rows.stride;
  args.m = rows.m;
  const auto multiply = [&](const Matrix& w, float* y, std::size_t y_stride) {
    args.w = w.row(begin);
    args.w_stride = w.stride;
    args.y = y;
    args.y_stride = y_stride;
    row_matmul(*kernels_, w.dtype, w.layout, rows.m)(args);
  };
  if (direct) {
    multiply(*weights.w, out.row(rows.out) + begin, out.cols);
  } else {
    multiply(*weights.w, gate, n);
  }
  if (glu_) multiply(*weights.up, up, n);
  for (std::int32_t i = 0; i < rows.m; ++i) {
    float* y = direct ? out.row(rows.out + i) + begin : gate + std::size_t{n} * i;
    if (rows.adapters != nullptr) {
      rows.adapters->add(weights.part, rows.out + i, begin, n, y);
      if (glu_)
        rows.adapters->add(weights.part + 1, rows.out + i, begin, n, up + std::size_t{n} * i);
    }
    if (rows.factors != nullptr) {
      kernels_->scale_add(y, rows.factors[i], nullptr, static_cast<int>(n));
      if (glu_)
        kernels_->scale_add(up + std::size_t{n} * i, rows.factors[i], nullptr, static_cast<int>(n));
    }
    finish_row(worker, weights, rows.out + i, y, up + std::size_t{n} * i, out, temporary);
  }
}

// y = act(y + bias) * scale + residual (glu: act(y + bias) * (up + bias)) -> the output buffer.
void RowProduct::finish_row(const Worker& worker, const WeightRows& weights, std::int64_t row,
                            float* y, float* up, const BufferRef& out, std::byte* temporary) const {
  const std::uint32_t begin = weights.begin;
  const int count = static_cast<int>(weights.rows);
  const auto add_bias = [&](const Matrix& w, float* to) {
    if (w.bias != nullptr) kernels_->add(to, w.bias + begin, to, count);
  };
  add_bias(*weights.w, y);
  if (glu_) {
    add_bias(*weights.up, up);
    float* target = out.form == plan::Form::f32 ? out.row(row) + begin : y;
    kernels_->glu(activation_, y, up, target, count);
  } else {
    if (activation_ != kernels::ActivationKind::none) kernels_->activate(activation_, y, count);
    const float* residual = residual_ ? residual_.row(row, worker) + begin : nullptr;
    if (scale_ != 1.0F || residual != nullptr) kernels_->scale_add(y, scale_, residual, count);
    if (softcap_ != 0.0F) kernels_->softcap(y, softcap_, count);
  }
  if (out.form == plan::Form::q8) {
    store_q8(*kernels_, y, begin, weights.rows, out.bytes(row), out.cols, temporary);
  }
}

}  // namespace orrery::backend::cpu
