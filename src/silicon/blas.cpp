#include "silicon/blas.hpp"

#include <dlfcn.h>

namespace orrery::silicon {
namespace {

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;  // of CBLAS

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

class Blas::SgemmProduct : public Product {
 public:
  SgemmProduct(const Problem& problem, const Blas& blas, int threads, memory::Region y)
      : problem_(problem), blas_(blas), y_(std::move(y)) {
    blas_.set_threads_(threads);
  }

  void pack() override {}  // it packs inside
  void run() override {
    const int m = problem_.m, n = problem_.n, k = problem_.k;
    blas_.sgemm_(kRowMajor, kNoTranspose, kTranspose, m, n, k, 1.0F, problem_.x(), k, problem_.w(),
                 k, 0.0F, y(), n);
  }
  float output(int x_row, int w_row) const override {
    return y()[static_cast<std::size_t>(x_row) * static_cast<std::size_t>(problem_.n) +
               static_cast<std::size_t>(w_row)];
  }

 private:
  float* y() const { return reinterpret_cast<float*>(y_.data()); }

  const Problem& problem_;
  const Blas& blas_;
  memory::Region y_;  // (m, n)
};

std::unique_ptr<Blas> Blas::open() {
  // Never closed: its threads may outlive a close.
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto blas = std::make_unique<Blas>();
  blas->sgemm_ = symbol<Sgemm>(library, "cblas_sgemm");
  blas->set_threads_ = symbol<void (*)(int)>(library, "openblas_set_num_threads");
  blas->config_ = symbol<const char* (*)()>(library, "openblas_get_config");
  if (blas->sgemm_ == nullptr || blas->set_threads_ == nullptr) return nullptr;
  return blas;
}

std::string Blas::description() const {
  return config_ != nullptr ? config_() : "OpenBLAS";
}

ProductResult Blas::product(const Problem& problem, int threads) const {
  const auto outputs =
      static_cast<std::uint64_t>(problem.m) * static_cast<std::uint64_t>(problem.n);
  ORRERY_TRY(memory::Region y, memory::Region::map(outputs * sizeof(float)));
  return std::make_unique<SgemmProduct>(problem, *this, threads, std::move(y));
}

}  // namespace orrery::silicon
