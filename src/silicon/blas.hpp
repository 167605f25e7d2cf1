// A system BLAS as a rival: OpenBLAS, opened at run time. It is neither linked nor needed.
#pragma once

#include <memory>
#include <string>

#include "silicon/product.hpp"

namespace orrery::silicon {

class Blas {
 public:
  // Null where this machine has no OpenBLAS.
  static std::unique_ptr<Blas> open();
  // "OpenBLAS 0.3.21 ... Zen ..." as the library describes itself.
  std::string description() const;
  // Of f32 rows, by so many threads (for the whole process, from run() on).
  ProductResult product(const Problem& problem, int threads) const;

 private:
  // CBLAS: order, transpose a, transpose b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc.
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  class SgemmProduct;

  Sgemm sgemm_ = nullptr;
  void (*set_threads_)(int) = nullptr;
  const char* (*config_)() = nullptr;
};

}  // namespace orrery::silicon
