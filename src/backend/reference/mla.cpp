// Latent attention (plan/mla.hpp): absorbed queries and the cached latents, values of heads, and
// attention over expanded keys and values.
#include <algorithm>
#include <cmath>

#include "backend/reference/reference_program.hpp"
#include "plan/mla.hpp"

namespace orrery::backend::reference {

void ReferenceProgram::mla_write(const plan::Step& step, const Batch& batch) {
  const std::vector<float>& frequencies = plan_.constants[step.rope_table];
  const std::vector<float> norm = weight_row(step.w[1], 0);
  const std::uint32_t rank = step.v_dim, nope = step.nope_dim, rope = step.rope_dim;
  const bool absorbed = step.w[0] != plan::kNone;
  const bool joint = step.latent == plan::LatentWeights::joint;
  for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
    const std::int32_t position = batch.positions[row];
    const double* from = &buffers_[step.in[1]][std::size_t{rank + rope} * row];
    std::vector<double> latent(from, from + rank + rope);
    rms_norm(latent.data(), rank, norm.data(), 0.0, step.eps);
    rotate(step, frequencies, position, &latent[rank]);
    write_cache(step, batch, row, 0, CacheSide::keys, latent.data());
    for (std::uint32_t h = 0; h < step.heads; ++h) {
      const std::size_t head = std::size_t{step.heads} * row + h;
      const double* q = &buffers_[step.in[0]][head * (nope + rope)];
      const std::uint32_t kept = absorbed ? rank : nope;
      double* out = &buffers_[step.out[0]][head * (kept + rope)];
      std::copy(q + nope, q + nope + rope, out + kept);
      rotate(step, frequencies, position, out + kept);
      if (!absorbed) {
        std::copy(q, q + nope, out);
        continue;
      }
      std::fill(out, out + rank, 0.0);
      const plan::HeadRows rows = key_rows(step, h);
      for (std::uint32_t r = 0; r < rows.count; ++r) {
        const std::vector<float> w = weight_row(step.w[0], rows.first + r);
        if (joint) {
          for (std::uint32_t i = 0; i < rank; ++i) out[i] += q[r] * w[i];
        } else {
          for (std::uint32_t i = 0; i < nope; ++i) out[r] += q[i] * w[i];
        }
      }
    }
  }
}

void ReferenceProgram::mla_values(const plan::Step& step, const Batch& batch) {
  const std::uint32_t rank = step.v_dim, v = step.v_head;
  for (std::uint32_t h = 0; h < step.heads; ++h) {
    for (std::uint32_t i = 0; i < v; ++i) {
      const std::vector<float> w = weight_row(step.w[0], value_rows(step, h).first + i);
      for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
        const std::size_t head = std::size_t{step.heads} * row + h;
        const double* latent = &buffers_[step.in[0]][head * rank];
        double sum = 0.0;
        for (std::uint32_t r = 0; r < rank; ++r) sum += latent[r] * w[r];
        buffers_[step.out[0]][head * v + i] = sum;
      }
    }
  }
}

namespace {

// out (n) += x times the rows of a matrix (n, rank), or of its transposed one.
void expand(const std::vector<std::vector<float>>& matrix, bool transposed, const double* latent,
            double* out) {
  for (std::size_t r = 0; r < matrix.size(); ++r) {
    for (std::size_t i = 0; i < matrix[r].size(); ++i) {
      if (transposed) {
        out[i] += matrix[r][i] * latent[r];
      } else {
        out[r] += matrix[r][i] * latent[i];
      }
    }
  }
}

}  // namespace

// The rows of a prefill are of one sequence: each head is expanded once, at all of its positions.
void ReferenceProgram::mla_attention(const plan::Step& step, const Batch& batch) {
  if (batch.n_tokens == 0) return;
  const std::uint32_t rank = step.v_dim, nope = step.nope_dim, v = step.v_head;
  const std::uint32_t k_dim = nope + step.rope_dim;
  const auto n = static_cast<std::size_t>(batch.positions[batch.n_tokens - 1]) + 1;
  const bool split = step.latent == plan::LatentWeights::split;
  const auto matrix = [&](plan::WeightId id, plan::HeadRows rows) {
    std::vector<std::vector<float>> all;
    for (std::uint32_t r = 0; r < rows.count; ++r) all.push_back(weight_row(id, rows.first + r));
    return all;
  };
  for (std::uint32_t h = 0; h < step.heads; ++h) {
    const auto k_matrix = matrix(step.w[0], key_rows(step, h));
    const auto v_matrix = matrix(step.w[split ? 1 : 0], value_rows(step, h));
    std::vector<double> keys(n * k_dim, 0.0), values(n * v, 0.0);
    for (std::size_t p = 0; p < n; ++p) {
      const std::vector<float> row =
          read_cache(step, batch, 0, static_cast<std::int32_t>(p), 0, CacheSide::keys);
      const std::vector<double> latent(row.begin(), row.end());
      expand(k_matrix, split, latent.data(), &keys[p * k_dim]);
      std::copy(latent.begin() + rank, latent.end(), &keys[p * k_dim + nope]);
      expand(v_matrix, false, latent.data(), &values[p * v]);
    }
    for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
      const std::size_t head = std::size_t{step.heads} * row + h;
      const double* q = &buffers_[step.in[0]][head * k_dim];
      std::vector<double> scores(static_cast<std::size_t>(batch.positions[row]) + 1, 0.0);
      for (std::size_t p = 0; p < scores.size(); ++p) {
        for (std::uint32_t i = 0; i < k_dim; ++i) scores[p] += q[i] * keys[p * k_dim + i];
        scores[p] *= step.scale;
      }
      const double top = *std::ranges::max_element(scores);
      double sum = 0.0;
      for (double& score : scores) sum += score = std::exp(score - top);
      double* out = &buffers_[step.out[0]][head * v];
      std::fill(out, out + v, 0.0);
      for (std::size_t p = 0; p < scores.size(); ++p) {
        for (std::uint32_t i = 0; i < v; ++i) out[i] += scores[p] / sum * values[p * v + i];
      }
    }
  }
}

}  // namespace orrery::backend::reference
