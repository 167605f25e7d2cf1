// Short causal convolutions of each channel by itself: rows have channels as lanes, blocks tokens.
#pragma once

#include "kernels/body/row_elementwise.hpp"
#include "kernels/state_kernels.hpp"

namespace orrery::kernels {
namespace {

inline void conv_row(const ConvRow& a) {
  const Conv& conv = a.conv;
  const std::size_t stride = conv.stride;
  const int last = conv.taps - 1;
  for_each_vector(conv.n, [&](int i, auto load, auto store) {
    V::F x = load(a.x + i);
    if (conv.gate_in != nullptr) x = V::mul(x, load(conv.gate_in + i));
    V::F y = conv.bias != nullptr ? load(conv.bias + i) : V::zero();
    for (int j = 0; j < last; ++j) {
      const std::size_t at = static_cast<std::size_t>(j) * stride + static_cast<std::size_t>(i);
      const V::F past = conv.before != nullptr ? load(conv.before + at) : V::zero();
      y = V::fma(load(conv.filter + at), past, y);
      // Each row of the history moves up by one, the oldest goes.
      if (j > 0) store(conv.after + at - stride, past);
    }
    const std::size_t newest =
        static_cast<std::size_t>(last) * stride + static_cast<std::size_t>(i);
    y = V::fma(load(conv.filter + newest), x, y);
    if (last > 0) store(conv.after + newest - stride, x);
    y = activation(conv.activation, y);
    if (conv.gate_out != nullptr) y = V::mul(y, load(conv.gate_out + i));
    store(a.out + i, y);
  });
}

// One channel: values holds the history and after it the inputs of n tokens.
inline void conv_channel(const ConvBlock& a, int c, float* values, int n) {
  const Conv& conv = a.conv;
  const std::size_t stride = conv.stride, channel = static_cast<std::size_t>(c);
  const int last = conv.taps - 1;
  for (int j = 0; j < last; ++j) {
    const std::size_t at = static_cast<std::size_t>(j) * stride + channel;
    values[j] = conv.before != nullptr ? conv.before[at] : 0.0F;
  }
  const std::size_t first = channel * 32 + static_cast<std::size_t>(a.begin);
  for (int t = 0; t < n; t += 16) {
    const int rest = n - t < 16 ? n - t : 16;
    const std::size_t at = first + static_cast<std::size_t>(t);
    V::F x = V::load_partial(a.x + at, rest);
    if (conv.gate_in != nullptr) x = V::mul(x, V::load_partial(conv.gate_in + at, rest));
    V::store(values + last + t, x);
  }
  for (int t = 0; t < n; t += 16) {
    const int rest = n - t < 16 ? n - t : 16;
    const std::size_t at = first + static_cast<std::size_t>(t);
    V::F y = V::splat(conv.bias != nullptr ? conv.bias[c] : 0.0F);
    for (int j = 0; j < conv.taps; ++j) {
      const float weight = conv.filter[static_cast<std::size_t>(j) * stride + channel];
      y = V::fma(V::splat(weight), V::load(values + t + j), y);
    }
    y = activation(conv.activation, y);
    if (conv.gate_out != nullptr) y = V::mul(y, V::load_partial(conv.gate_out + at, rest));
    V::store_partial(a.out + at, y, rest);
  }
  for (int j = 0; j < last; ++j) {
    conv.after[static_cast<std::size_t>(j) * stride + channel] = values[n + j];
  }
}

inline void conv_block(const ConvBlock& a) {
  float values[kMaxConvTaps + 32 + 16] = {};
  for (int c = 0; c < a.conv.n; ++c) conv_channel(a, c, values, a.end - a.begin);
}

}  // namespace
}  // namespace orrery::kernels
