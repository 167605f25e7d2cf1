// rope_kv_write and attention over pages as plan.hpp (CacheGroup) and cache_page.hpp have them.
#include <algorithm>
#include <cmath>

#include "backend/reference/reference_program.hpp"
#include "base/check.hpp"
#include "tensor/cache_page.hpp"

namespace orrery::backend::reference {

using plan::kPageTokens;

namespace {

int slot_of(std::int32_t position) {
  return position % static_cast<int>(kPageTokens);
}

}  // namespace

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
      const float* ones = weight.empty() ? nullptr : weight.data();
      rms_norm(x + h * dim, dim, ones, step.norm_offset, step.eps);
    }
    if (step.rope != plan::RopeStyle::none) rotate(step, frequencies, position, x + h * dim);
  }
}

}  // namespace

// The keys or values of one head in the page of a position of the sequence that `row` belongs to.
std::byte* ReferenceProgram::cache_side(const plan::Step& step, const Batch& batch,
                                        std::int64_t row, std::int32_t position, std::uint32_t head,
                                        CacheSide side) const {
  const plan::CacheGroup& group = plan_.groups[step.group];
  const PagePool& pool = bindings_.pools[step.group];
  const std::int64_t entry = std::int64_t{batch.row_sequence[row]} * batch.pages_stride +
                             position / static_cast<std::int32_t>(kPageTokens);
  const std::int32_t page = batch.page_tables[step.group][entry];
  ORRERY_CHECK(page >= 0 && static_cast<std::uint32_t>(page) < pool.capacity);
  const std::uint64_t head_index = std::uint64_t{group.kv_heads} * step.group_layer + head;
  const std::uint64_t offset = side == CacheSide::values ? group.v_offset() : 0;
  return pool.base + group.page_bytes() * static_cast<std::uint32_t>(page) +
         group.head_bytes() * head_index + offset;
}

void ReferenceProgram::write_cache(const plan::Step& step, const Batch& batch, std::int64_t row,
                                   std::uint32_t head, CacheSide side, const double* x) {
  const plan::CacheGroup& group = plan_.groups[step.group];
  const bool keys = side == CacheSide::keys;
  const std::vector<float> values(x, x + (keys ? group.k_dim : group.v_dim));
  const std::int32_t position = batch.positions[row];
  write_cache_row(keys ? group.k_type : group.v_type, side, static_cast<int>(values.size()),
                  slot_of(position), values.data(),
                  cache_side(step, batch, row, position, head, side));
}

std::vector<float> ReferenceProgram::read_cache(const plan::Step& step, const Batch& batch,
                                                std::int64_t row, std::int32_t position,
                                                std::uint32_t head, CacheSide side) const {
  const plan::CacheGroup& group = plan_.groups[step.group];
  if (group.v_in_k) side = CacheSide::keys;
  const bool keys = side == CacheSide::keys;
  std::vector<float> values(keys ? group.k_dim : group.v_dim);
  read_cache_row(keys ? group.k_type : group.v_type, side, static_cast<int>(values.size()),
                 slot_of(position), cache_side(step, batch, row, position, head, side),
                 values.data());
  return values;
}

void ReferenceProgram::rope_kv_write(const plan::Step& step, const Batch& batch) {
  std::vector<float> frequencies, q_weight, k_weight;
  if (step.rope_table != plan::kNone) frequencies = plan_.constants[step.rope_table];
  if (step.w[0] != plan::kNone) q_weight = weight_row(step.w[0], 0);
  if (step.w[1] != plan::kNone) k_weight = weight_row(step.w[1], 0);
  const bool writes = step.in[1] != plan::kNone;
  const std::uint32_t q_cols = cols_of(step.in[0]);
  const std::uint32_t k_cols = writes ? cols_of(step.in[1]) : 0;
  const std::uint32_t v_cols = writes ? cols_of(step.in[2]) : 0;
  std::vector<double> k(k_cols);
  for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
    const std::int32_t position = batch.positions[row];
    const double* q = &buffers_[step.in[0]][std::size_t{q_cols} * row];
    double* rotated = &buffers_[step.out[0]][std::size_t{q_cols} * row];
    std::copy(q, q + q_cols, rotated);
    normalise_and_rotate(step, q_weight, frequencies, position, step.heads, rotated);
    for (std::uint32_t i = 0; i < q_cols; ++i) rotated[i] *= step.query_growth.at(position);
    if (!writes) continue;
    const double* k_in = &buffers_[step.in[1]][std::size_t{k_cols} * row];
    std::copy(k_in, k_in + k_cols, k.begin());
    normalise_and_rotate(step, k_weight, frequencies, position, step.kv_heads, k.data());
    const double* v = &buffers_[step.in[2]][std::size_t{v_cols} * row];
    for (std::uint32_t h = 0; h < step.kv_heads; ++h) {
      write_cache(step, batch, row, h, CacheSide::keys, &k[std::size_t{h} * step.k_dim]);
      write_cache(step, batch, row, h, CacheSide::values, v + h * step.v_dim);
    }
  }
}

void ReferenceProgram::attention(const plan::Step& step, const Batch& batch) {
  const std::uint32_t k_dim = step.k_dim, v_dim = step.v_dim;
  std::vector<float> sinks;
  if (step.w[0] != plan::kNone) sinks = weight_row(step.w[0], 0);
  for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
    const std::int32_t own = batch.positions[row];
    const auto window = static_cast<std::int32_t>(step.window);
    std::int32_t first = window == 0 ? 0 : std::max(0, own - window + 1);
    if (step.chunked) first = own - own % window;
    std::int32_t last = step.causal ? own : batch.positions[batch.n_tokens - 1];
    if (window != 0) last = std::min(last, own + window - 1);
    for (std::uint32_t h = 0; h < step.heads; ++h) {
      const std::uint32_t kv_head = h / (std::uint32_t{step.heads} / step.kv_heads);
      const std::size_t head = std::size_t{step.heads} * row + h;
      const double* q = &buffers_[step.in[0]][head * k_dim];
      std::vector<double> scores;
      for (std::int32_t p = first; p <= last; ++p) {
        const std::vector<float> k = read_cache(step, batch, row, p, kv_head, CacheSide::keys);
        double score = 0.0;
        for (std::uint32_t i = 0; i < k_dim; ++i) score += q[i] * double{k[i]};
        score *= step.scale;
        if (step.softcap > 0.0F) score = step.softcap * std::tanh(score / step.softcap);
        scores.push_back(score);
      }
      double top = *std::ranges::max_element(scores);
      if (!sinks.empty()) top = std::max(top, double{sinks[h]});
      double sum = sinks.empty() ? 0.0 : std::exp(sinks[h] - top);
      for (double& score : scores) sum += score = std::exp(score - top);
      double* out = &buffers_[step.out[0]][head * v_dim];
      std::fill(out, out + v_dim, 0.0);
      for (std::int32_t p = first; p <= last; ++p) {
        const std::vector<float> v = read_cache(step, batch, row, p, kv_head, CacheSide::values);
        const double weight = scores[p - first] / sum;
        for (std::uint32_t i = 0; i < v_dim; ++i) out[i] += weight * double{v[i]};
      }
    }
  }
}

}  // namespace orrery::backend::reference
