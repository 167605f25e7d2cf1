#include "plan/plan.hpp"

#include <cmath>

#include "base/check.hpp"
#include "base/checked.hpp"

namespace orrery::plan {

float QueryGrowth::at(std::int32_t position) const {
  const double steps = std::floor((position + 1.0) / step);
  return static_cast<float>(1.0 + rate * std::log1p(steps));
}

std::string_view op_name(Op op) {
  switch (op) {
    case Op::embed:
      return "embed";
    case Op::norm:
      return "norm";
    case Op::quantize_rows:
      return "quantize_rows";
    case Op::matmul:
      return "matmul";
    case Op::mul:
      return "mul";
    case Op::split:
      return "split";
    case Op::conv_state:
      return "conv_state";
    case Op::scan_state:
      return "scan_state";
    case Op::delta_state:
      return "delta_state";
    case Op::columns:
      return "columns";
    case Op::join:
      return "join";
    case Op::sparsify:
      return "sparsify";
    case Op::match_rms:
      return "match_rms";
    case Op::altup_predict:
      return "altup_predict";
    case Op::altup_correct:
      return "altup_correct";
    case Op::altup_add:
      return "altup_add";
    case Op::rope_kv_write:
      return "rope_kv_write";
    case Op::attention:
      return "attention";
    case Op::mla_write:
      return "mla_write";
    case Op::mla_values:
      return "mla_values";
    case Op::mla_attention:
      return "mla_attention";
    case Op::select_rows:
      return "select_rows";
    case Op::pool:
      return "pool";
    case Op::logits:
      return "logits";
    case Op::moe_route:
      return "moe_route";
    case Op::moe_matmul:
      return "moe_matmul";
    case Op::moe_combine:
      return "moe_combine";
    case Op::add:
      return "add";
    case Op::tap:
      return "tap";
  }
  ORRERY_CHECK(false);
}

std::string_view class_name(NumberClass number_class) {
  constexpr std::string_view kNames[] = {"f32", "b16", "i8"};
  return kNames[static_cast<std::size_t>(number_class)];
}

std::uint64_t form_row_bytes(Form form, std::uint32_t cols) {
  switch (form) {
    case Form::f32:
      return std::uint64_t{cols} * 4;
    case Form::bf16:
      return align_up(cols, 32) * 2;
    case Form::q8:
      ORRERY_CHECK(cols % 32 == 0);
      return align_up(cols, 64) + align_up(cols / 8, 64) + align_up(cols / 8, 64);
  }
  ORRERY_CHECK(false);
}

std::uint64_t buffer_bytes(const Buffer& buffer, std::uint64_t rows) {
  return align_up(form_row_bytes(buffer.form, buffer.cols) * align_up(rows, 32), 64);
}

}  // namespace orrery::plan
