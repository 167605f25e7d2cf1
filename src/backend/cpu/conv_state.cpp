// conv_state: a short causal convolution of each channel; threads share the channels.
#include <algorithm>

#include "backend/cpu/state_pages.hpp"
#include "kernels/state_kernels.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::uint32_t kChannels = 128;  // of one item

class ConvState : public CpuStep {
 public:
  ConvState(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        gate_in_(context.buffer(step.in[1])),
        gate_out_(context.buffer(step.in[2])),
        out_(context.buffer(step.out[0])),
        pages_(context, step, 0),
        kernels_(*context.kernels->rows->state) {
    const plan::Weight& filter = context.info(step.w[0]);
    const float* rows = context.vector(step.w[0]);  // (channels, taps)
    filter_.resize(std::size_t{filter.rows} * filter.cols);
    for (std::uint32_t c = 0; c < filter.rows; ++c) {
      for (std::uint32_t j = 0; j < filter.cols; ++j) {
        filter_[std::size_t{j} * filter.rows + c] = rows[std::size_t{c} * filter.cols + j];
      }
    }
    conv_.bias = context.vector(step.bias[0]);
    conv_.taps = static_cast<int>(filter.cols);
    conv_.stride = in_.cols;
    conv_.activation = activation_kind(step.activation);
    kernel_ = context.kernel_label(false, "conv_state", plan::kNone);
  }

  void run(const Worker& worker) const override {
    const auto items = static_cast<std::int32_t>((in_.cols + kChannels - 1) / kChannels);
    worker.spread(items, [&](std::int32_t item) {
      const std::uint32_t begin = static_cast<std::uint32_t>(item) * kChannels;
      const std::uint32_t n = std::min(kChannels, in_.cols - begin);
      if (in_.blocks) {
        run_blocks(*worker.batch, begin, n);
      } else {
        run_rows(*worker.batch, begin, n);
      }
    });
  }

 private:
  // The channels from `begin` on, for tokens that follow `row` in its page.
  kernels::Conv channels(const Batch& batch, std::int32_t row, std::uint32_t begin,
                         std::uint32_t n) const {
    kernels::Conv conv = conv_;
    conv.n = static_cast<int>(n);
    conv.filter = filter_.data() + begin;
    if (conv.bias != nullptr) conv.bias += begin;
    const float* before = pages_.before(batch, row);
    conv.before = before == nullptr ? nullptr : before + begin;
    conv.after = pages_.after(batch, row) + begin;
    return conv;
  }

  void run_rows(const Batch& batch, std::uint32_t begin, std::uint32_t n) const {
    for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
      kernels::ConvRow args{channels(batch, row, begin, n), in_.row(row) + begin,
                            out_.row(row) + begin};
      if (gate_in_) args.conv.gate_in = gate_in_.row(row) + begin;
      if (gate_out_) args.conv.gate_out = gate_out_.row(row) + begin;
      kernels_.conv_row(args);
    }
  }

  void run_blocks(const Batch& batch, std::uint32_t begin, std::uint32_t n) const {
    const std::size_t at = std::size_t{begin} * 32;
    each_run(batch, 32, true, [&](std::int32_t first, std::int32_t tokens) {
      const std::int32_t b = first / 32;
      kernels::ConvBlock args{channels(batch, first, begin, n), in_.block(b) + at,
                              out_.block(b) + at, first % 32, first % 32 + tokens};
      if (gate_in_) args.conv.gate_in = gate_in_.block(b) + at;
      if (gate_out_) args.conv.gate_out = gate_out_.block(b) + at;
      kernels_.conv_block(args);
    });
    clear_padding(out_, begin, n, batch.n_tokens);
  }

  BufferRef in_, gate_in_, gate_out_, out_;
  StatePages pages_;
  const kernels::StateKernels& kernels_;
  std::vector<float> filter_;  // (taps, channels)
  kernels::Conv conv_{};
};

}  // namespace

StepResult make_conv_state(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<ConvState>(context, step);
}

}  // namespace orrery::backend::cpu
