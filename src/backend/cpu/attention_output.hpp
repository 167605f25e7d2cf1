// Where block attention puts what it computes.
#pragma once

#include "backend/cpu/step.hpp"

namespace orrery::backend::cpu {

// The call's first head and block go to `feature` and `block` of the buffer.
inline void set_output(kernels::AttentionBlock& args, const BufferRef& out, std::int32_t block,
                       std::uint32_t feature) {
  args.out_feature = static_cast<int>(feature);
  args.out_features = static_cast<int>(out.cols);
  if (out.form == plan::Form::f32) {
    args.out_f = out.block(block) + std::size_t{feature} * 32;
    args.out_f_block_stride = out.row_bytes * 32 / sizeof(float);
  } else {
    args.out_x = out.block(block);
    args.out_x_block_stride = out.row_bytes * 32;
  }
}

}  // namespace orrery::backend::cpu
