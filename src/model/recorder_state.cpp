// What layers with a state are written in.
#include <cmath>
#include <numeric>

#include "model/recorder.hpp"

namespace orrery::model {

using plan::BufferId;
using plan::WeightId;

namespace {

// Under the roots of the norms of q and k; no file says it.
constexpr float kDeltaEps = 1e-6F;

}  // namespace

WeightId Recorder::filters(std::string_view stem, std::uint32_t channels, std::uint32_t taps) {
  const std::string name = full_name(stem, "weight");
  return add(name, tensors_.filters(name, channels, taps), 0, channels, taps);
}

WeightId Recorder::series(std::string_view name, std::uint32_t n) {
  const std::string full = full_name(name, "");
  return add(full, tensors_.series(full, n), 0, 1, n);
}

WeightId Recorder::decay(std::string_view name, std::uint32_t n) {
  const std::string full = full_name(name, "");
  return add(full, tensors_.decay(full, n), 0, 1, n);
}

bool Recorder::has(std::string_view stem) const {
  return tensors_.has(full_name(stem, "weight"));
}

std::vector<BufferId> Recorder::together(std::initializer_list<Product> products, BufferId x) {
  std::vector<std::string> names;
  std::vector<WeightId> weights;
  for (const Product& product : products) {
    names.emplace_back(product.stem);
    weights.push_back(matrix(product.stem, product.rows, h_.hidden_dim));
  }
  return builder_.matmul(names, x, weights, {});
}

std::vector<BufferId> Recorder::parts(std::string_view stem, BufferId x,
                                      std::span<const std::string> names,
                                      std::span<const std::uint32_t> widths) {
  const std::uint32_t total = std::reduce(widths.begin(), widths.end());
  std::vector<WeightId> weights;
  std::uint32_t begin = 0;
  for (const std::uint32_t width : widths) {
    weights.push_back(slice(stem, total, begin, width, h_.hidden_dim));
    begin += width;
  }
  return builder_.matmul(names, x, weights, {});
}

BufferId Recorder::convolve(std::string_view stem, BufferId x, plan::ConvOptions options) {
  const Place& place = places_[static_cast<std::size_t>(layer_)];
  options.group = place.group;
  options.group_layer = place.layer;
  if (has_bias(stem)) options.bias = bias(stem, h_.state.conv_dim);
  return builder_.conv_state("conv", x, filters(stem, h_.state.conv_dim, h_.state.conv_taps),
                             options);
}

plan::RecurrenceOptions Recorder::recurrence() {
  const Place& place = places_[static_cast<std::size_t>(layer_)];
  plan::RecurrenceOptions options;
  options.group = place.group;
  options.group_layer = place.layer;
  options.heads = static_cast<std::uint16_t>(h_.state.heads);
  options.kv_heads = static_cast<std::uint16_t>(h_.state.key_heads);
  options.k_dim = static_cast<std::uint16_t>(h_.state.k_dim);
  options.v_dim = static_cast<std::uint16_t>(h_.state.v_dim);
  options.decay = decay("ssm_a", h_.state.heads);
  options.dt_bias = series("ssm_dt.bias", h_.state.heads);
  return options;
}

BufferId Recorder::scan(BufferId xbc, BufferId dt) {
  plan::RecurrenceOptions options = recurrence();
  options.skip = series("ssm_d", h_.state.heads);
  return builder_.scan_state(xbc, dt, options);
}

BufferId Recorder::delta_rule(BufferId qkv, BufferId beta, BufferId dt) {
  plan::RecurrenceOptions options = recurrence();
  options.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(h_.state.k_dim)));
  options.eps = kDeltaEps;
  return builder_.delta_state(qkv, beta, dt, options);
}

plan::Builder::Sections Recorder::split(std::string first, std::string last, BufferId x,
                                        std::uint32_t heads,
                                        const std::array<std::uint32_t, 4>& widths) {
  return builder_.split(std::move(first), std::move(last), x, static_cast<std::uint16_t>(heads),
                        widths);
}

BufferId Recorder::mul(std::string name, BufferId a, BufferId b, plan::Activation activation) {
  return builder_.mul(std::move(name), a, b, activation);
}

BufferId Recorder::norm_parts(std::string_view stem, BufferId x, std::uint32_t parts,
                              std::uint32_t width) {
  plan::NormOptions options;
  options.eps = h_.norm_eps;
  options.parts = static_cast<std::uint16_t>(parts);
  return builder_.norm(std::string(stem), x, series(std::string(stem) + ".weight", width), options);
}

}  // namespace orrery::model
