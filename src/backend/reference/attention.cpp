// rope_kv_write and attention over pages in the `plain` layout (plan.hpp, CacheGroup).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/reference/reference_program.hpp"
#include "base/check.hpp"
#include "tensor/half.hpp"

namespace orrery::backend::reference {

using plan::kPageTokens;

void store_elements(DType type, std::byte* target, const double* x, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto value = static_cast<float>(x[i]);
    const std::uint16_t half = type == DType::bf16 ? f32_to_bf16(value) : f32_to_f16(value);
    if (type == DType::f32) {
      std::memcpy(target + 4ULL * i, &value, 4);
    } else {
      std::memcpy(target + 2ULL * i, &half, 2);
    }
  }
}

double load_element(DType type, const std::byte* source, std::uint32_t i) {
  float value = 0.0F;
  std::uint16_t half = 0;
  if (type == DType::f32) {
    std::memcpy(&value, source + 4ULL * i, 4);
    return value;
  }
  std::memcpy(&half, source + 2ULL * i, 2);
  return type == DType::bf16 ? bf16_to_f32(half) : f16_to_f32(half);
}

void rotate(const plan::Step& step, const std::vector<float>& frequencies, std::int32_t position,
            double* x) {
  const int pairs = step.rope_dim / 2;
  for (int i = 0; i < pairs; ++i) {
    const bool adjacent = step.rope == plan::RopeStyle::adjacent;
    double& a = x[adjacent ? 2 * i : i];
    double& b = x[adjacent ? 2 * i + 1 : i + pairs];
    const double angle = double{frequencies[i]} * position;
    const double c = std::cos(angle) * step.rope_mscale, s = std::sin(angle) * step.rope_mscale;
    const double before = a;
    a = before * c - b * s;
    b = before * s + b * c;
  }
}

namespace {

// q or k of one token: (heads, dim) in place.
void normalise_and_rotate(const plan::Step& step, const std::vector<float>& weight,
                          const std::vector<float>& frequencies, std::int32_t position,
                          std::uint32_t heads, double* x) {
  const std::uint32_t dim = step.k_dim;
  if (step.qk_norm == plan::QkNorm::width) {
    rms_norm(x, heads * dim, weight.data(), step.norm_offset, step.eps);
  }
  for (std::uint32_t h = 0; h < heads; ++h) {
    if (step.qk_norm == plan::QkNorm::head) {
      rms_norm(x + h * dim, dim, weight.data(), step.norm_offset, step.eps);
    }
    if (step.rope != plan::RopeStyle::none) rotate(step, frequencies, position, x + h * dim);
  }
}

}  // namespace

// The address of K (or V) of one head at a position of the sequence that `row` belongs to.
std::byte* ReferenceProgram::cache_row(const plan::Step& step, const Batch& batch, std::int64_t row,
                                       std::int32_t position, std::uint32_t head,
                                       bool value) const {
  const plan::CacheGroup& group = plan_.groups[step.group];
  const PagePool& pool = bindings_.pools[step.group];
  const std::int64_t entry = std::int64_t{batch.row_sequence[row]} * batch.pages_stride +
                             position / static_cast<std::int32_t>(kPageTokens);
  const std::int32_t page = batch.page_tables[step.group][entry];
  ORRERY_CHECK(page >= 0 && static_cast<std::uint32_t>(page) < pool.capacity);
  const std::uint64_t head_index = std::uint64_t{group.kv_heads} * step.group_layer + head;
  const std::uint64_t slot = static_cast<std::uint32_t>(position) % kPageTokens;
  const std::uint64_t offset =
      value ? group.v_offset() + slot * group.v_stride() : slot * group.k_row_bytes();
  return pool.base + group.page_bytes() * static_cast<std::uint32_t>(page) +
         group.head_bytes() * head_index + offset;
}

void ReferenceProgram::rope_kv_write(const plan::Step& step, const Batch& batch) {
  const plan::CacheGroup& group = plan_.groups[step.group];
  std::vector<float> frequencies, q_weight, k_weight;
  if (step.rope_table != plan::kNone) frequencies = plan_.constants[step.rope_table];
  if (step.qk_norm != plan::QkNorm::none) {
    q_weight = weight_row(step.w[0], 0);
    k_weight = weight_row(step.w[1], 0);
  }
  const std::uint32_t q_cols = cols_of(step.in[0]), k_cols = cols_of(step.in[1]);
  const std::uint32_t v_cols = cols_of(step.in[2]);
  std::vector<double> k(k_cols);
  for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
    const std::int32_t position = batch.positions[row];
    const double* q = &buffers_[step.in[0]][std::size_t{q_cols} * row];
    double* rotated = &buffers_[step.out[0]][std::size_t{q_cols} * row];
    std::copy(q, q + q_cols, rotated);
    normalise_and_rotate(step, q_weight, frequencies, position, step.heads, rotated);
    const double* k_in = &buffers_[step.in[1]][std::size_t{k_cols} * row];
    std::copy(k_in, k_in + k_cols, k.begin());
    normalise_and_rotate(step, k_weight, frequencies, position, step.kv_heads, k.data());
    const double* v = &buffers_[step.in[2]][std::size_t{v_cols} * row];
    for (std::uint32_t h = 0; h < step.kv_heads; ++h) {
      store_elements(group.k_type, cache_row(step, batch, row, position, h, false),
                     &k[std::size_t{h} * step.k_dim], step.k_dim);
      store_elements(group.v_type, cache_row(step, batch, row, position, h, true),
                     v + h * step.v_dim, step.v_dim);
    }
  }
}

void ReferenceProgram::attention(const plan::Step& step, const Batch& batch) {
  const plan::CacheGroup& group = plan_.groups[step.group];
  const std::uint32_t k_dim = step.k_dim, v_dim = step.v_dim;
  for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
    const std::int32_t own = batch.positions[row];
    const auto window = static_cast<std::int32_t>(step.window);
    const std::int32_t first = window == 0 ? 0 : std::max(0, own - window + 1);
    std::int32_t last = step.causal ? own : batch.positions[batch.n_tokens - 1];
    if (window != 0) last = std::min(last, own + window - 1);
    for (std::uint32_t h = 0; h < step.heads; ++h) {
      const std::uint32_t kv_head = h / (std::uint32_t{step.heads} / step.kv_heads);
      const std::size_t head = std::size_t{step.heads} * row + h;
      const double* q = &buffers_[step.in[0]][head * k_dim];
      std::vector<double> scores;
      for (std::int32_t p = first; p <= last; ++p) {
        const std::byte* k = cache_row(step, batch, row, p, kv_head, false);
        double score = 0.0;
        for (std::uint32_t i = 0; i < k_dim; ++i) score += q[i] * load_element(group.k_type, k, i);
        score *= step.scale;
        if (step.softcap > 0.0F) score = step.softcap * std::tanh(score / step.softcap);
        scores.push_back(score);
      }
      const double top = *std::ranges::max_element(scores);
      double sum = 0.0;
      for (double& score : scores) sum += score = std::exp(score - top);
      double* out = &buffers_[step.out[0]][head * v_dim];
      std::fill(out, out + v_dim, 0.0);
      for (std::int32_t p = first; p <= last; ++p) {
        const std::byte* v = cache_row(step, batch, row, p, kv_head, true);
        const double weight = scores[p - first] / sum;
        for (std::uint32_t i = 0; i < v_dim; ++i)
          out[i] += weight * load_element(group.v_type, v, i);
      }
    }
  }
}

}  // namespace orrery::backend::reference
