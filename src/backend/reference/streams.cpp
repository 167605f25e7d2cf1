// Steps on parts of rows, and on the streams of AltUp (plan.hpp).
#include <algorithm>
#include <cmath>

#include "backend/reference/reference_program.hpp"

namespace orrery::backend::reference {
namespace {

double mean_square(const double* x, std::size_t n) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum / static_cast<double>(n);
}

}  // namespace

void ReferenceProgram::columns(const plan::Step& step, const Batch& batch) {
  for (std::int64_t r = 0; r < rows_of(step.in[0], batch); ++r) {
    std::copy_n(row(step.in[0], r) + step.begin, cols_of(step.out[0]), row(step.out[0], r));
  }
}

void ReferenceProgram::join(const plan::Step& step, const Batch& batch) {
  for (std::int64_t r = 0; r < rows_of(step.in[0], batch); ++r) {
    double* out = row(step.out[0], r);
    std::copy_n(row(step.in[0], r), cols_of(step.in[0]), out);
    std::copy_n(row(step.in[1], r), cols_of(step.in[1]), out + cols_of(step.in[0]));
  }
}

void ReferenceProgram::sparsify(const plan::Step& step, const Batch& batch) {
  const std::size_t n = cols_of(step.in[0]);
  for (std::int64_t r = 0; r < rows_of(step.in[0], batch); ++r) {
    const double* x = row(step.in[0], r);
    double mean = 0.0, variance = 0.0;
    for (std::size_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
    }
    const double least = mean + step.scale * std::sqrt(variance);
    for (std::size_t i = 0; i < n; ++i) row(step.out[0], r)[i] = std::max(0.0, x[i] - least);
  }
}

void ReferenceProgram::match_rms(const plan::Step& step, const Batch& batch) {
  const std::size_t n = cols_of(step.in[0]);
  for (std::int64_t r = 0; r < rows_of(step.in[0], batch); ++r) {
    const double* x = row(step.in[0], r);
    const double own = std::max(mean_square(x, n), double{step.eps});
    const double factor = std::sqrt(mean_square(row(step.in[1], r), n) / own);
    for (std::size_t i = 0; i < n; ++i) {
      const double other = step.residual == plan::kNone ? 0.0 : row(step.residual, r)[i];
      row(step.out[0], r)[i] = step.scale * (x[i] * factor + other);
    }
  }
}

std::vector<double> ReferenceProgram::altup_coefficients(const plan::Step& step,
                                                         const double* router,
                                                         std::uint32_t n) const {
  std::vector<double> c;
  for (std::uint32_t k = 0; k < plan_.weights[step.w[0]].rows; ++k) {
    const std::vector<float> w = weight_row(step.w[0], k);
    const std::vector<double> exact(w.begin(), w.end());
    c.push_back(dot(exact.data(), router, n));
  }
  return c;
}

void ReferenceProgram::altup_predict(const plan::Step& step, const Batch& batch) {
  const std::uint32_t n = cols_of(step.in[1]), d = cols_of(step.out[1]);
  for (std::int64_t r = 0; r < rows_of(step.in[0], batch); ++r) {
    const std::vector<double> c = altup_coefficients(step, row(step.in[1], r), n);
    const double* in = row(step.in[0], r);
    double* out = row(step.out[0], r);
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t f = 0; f < d; ++f) {
        out[j * d + f] = in[j * d + f];
        for (std::size_t i = 0; i < n; ++i) out[j * d + f] += c[n * j + i] * in[i * d + f];
      }
    }
    std::copy_n(out + std::size_t{step.active} * d, d, row(step.out[1], r));
  }
}

void ReferenceProgram::altup_correct(const plan::Step& step, const Batch& batch) {
  const std::uint32_t n = cols_of(step.in[2]), d = cols_of(step.in[1]);
  const std::vector<float> scale = weight_row(step.w[1], 0);
  for (std::int64_t r = 0; r < rows_of(step.in[0], batch); ++r) {
    const std::vector<double> c = altup_coefficients(step, row(step.in[2], r), n);
    const double* in = row(step.in[0], r);
    const double* activated = row(step.in[1], r);
    double* out = row(step.out[0], r);
    const std::size_t active = std::size_t{step.active} * d;
    for (std::size_t f = 0; f < d; ++f) {
      const double news = activated[f] - in[active + f];
      for (std::size_t j = 0; j < n; ++j) out[j * d + f] = in[j * d + f] + (1.0 + c[j]) * news;
      row(step.out[1], r)[f] = scale[f] * out[active + f];
    }
  }
}

void ReferenceProgram::altup_add(const plan::Step& step, const Batch& batch) {
  const std::size_t all = cols_of(step.in[0]), d = cols_of(step.in[1]);
  for (std::int64_t r = 0; r < rows_of(step.in[0], batch); ++r) {
    for (std::size_t i = 0; i < all; ++i) {
      const double more = i < d ? 0.0 : row(step.in[1], r)[i % d];
      row(step.out[0], r)[i] = row(step.in[0], r)[i] + more;
    }
  }
}

}  // namespace orrery::backend::reference
