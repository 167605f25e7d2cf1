// Class i8: every type, shape and instruction set gives the bits of the scalar definition.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <random>
#include <vector>

#include "kernels/dispatch.hpp"
#include "kernels/row_reference.hpp"
#include "tensor/decode.hpp"
#include "tensor/packed.hpp"

namespace orrery::kernels::testing {
namespace {

constexpr DType kTypes[] = {DType::q4_0,   DType::q4_1,   DType::q5_0,  DType::q5_1, DType::q8_0,
                            DType::q2_k,   DType::q3_k,   DType::q4_k,  DType::q5_k, DType::q6_k,
                            DType::iq4_nl, DType::iq4_xs, DType::mxfp4, DType::nvfp4};

// Random bytes with sane f16 scales; mxfp4 exponents near 1.
Bytes random_weights(DType type, int n, int k, std::mt19937& random) {
  const DTypeInfo& info = dtype_info(type);
  const std::size_t blocks =
      static_cast<std::size_t>(n) * static_cast<std::size_t>(k) / info.block_len;
  Bytes w(blocks * info.block_bytes);
  for (auto& byte : w) byte = static_cast<std::uint8_t>(random());
  std::uniform_real_distribution<float> scale(-0.02F, 0.02F);
  for (std::size_t b = 0; b < blocks; ++b) {
    std::uint8_t* p = w.data() + b * info.block_bytes;
    const auto put = [&](std::size_t at) {
      const std::uint16_t h = f32_to_f16(scale(random));
      std::memcpy(p + at, &h, 2);
    };
    switch (type) {
      case DType::mxfp4:
        p[0] = static_cast<std::uint8_t>(118 + random() % 8);
        break;
      case DType::nvfp4:
        break;
      case DType::q2_k:
        put(80), put(82);
        break;
      case DType::q3_k:
        put(108);
        break;
      case DType::q6_k:
        put(208);
        break;
      case DType::q4_1:
      case DType::q5_1:
      case DType::q4_k:
      case DType::q5_k:
        put(0), put(2);
        break;
      default:
        put(0);
    }
  }
  return w;
}

// m rows of random activations in the layout of class i8, made by `table`.
Bytes quantized_rows(const RowKernels& table, int m, int k, std::mt19937& random) {
  const std::size_t stride = q8_layout(static_cast<std::size_t>(k)).stride;
  Bytes rows(stride * static_cast<std::size_t>(m));
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(k));
  for (int i = 0; i < m; ++i) {
    for (float& v : x) v = normal(random);
    table.quantize_q8(x.data(), k, rows.data() + stride * static_cast<std::size_t>(i));
  }
  return rows;
}

std::vector<float> multiply(const RowKernels& table, DType type, const std::uint8_t* w, int n,
                            int k, const Bytes& x, int m) {
  std::vector<float> y(static_cast<std::size_t>(m * n), -1.0F);
  const std::size_t stride = q8_layout(static_cast<std::size_t>(k)).stride;
  const auto kernel = row_matmul(table, type, Layout::file, m);
  kernel({w, row_bytes(type, static_cast<std::uint64_t>(k)), n, k, x.data(), stride, m, y.data(),
          static_cast<std::size_t>(n)});
  return y;
}

std::vector<float> reference(DType type, const Bytes& w, int n, int k, const Bytes& x, int m,
                             int partials = 4) {
  std::vector<float> y;
  const std::size_t stride = q8_layout(static_cast<std::size_t>(k)).stride;
  std::vector<CodedRow> rows;
  for (int r = 0; r < n; ++r)
    rows.push_back(code_row(
        type,
        w.data() + static_cast<std::size_t>(r) * row_bytes(type, static_cast<std::uint64_t>(k)),
        k));
  for (int i = 0; i < m; ++i)
    for (int r = 0; r < n; ++r)
      y.push_back(dot_i8(rows[static_cast<std::size_t>(r)],
                         view_q8(x.data() + stride * static_cast<std::size_t>(i), k), k, partials));
  return y;
}

// Outputs whose bits differ; NaN equals NaN.
int differences(const std::vector<float>& a, const std::vector<float>& b) {
  int count = a.size() != b.size() ? 1 : 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    count += !both_nan && std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]);
  }
  return count;
}

Bytes pack(DType type, const Bytes& w, int n, std::uint64_t k) {
  Bytes packed(w.size());
  const std::size_t panel = kPackedRows * row_bytes(type, k);
  for (std::size_t at = 0; at < panel * static_cast<std::size_t>(n / kPackedRows); at += panel) {
    pack_panel(type, k, reinterpret_cast<const std::byte*>(w.data()) + at,
               reinterpret_cast<std::byte*>(packed.data()) + at);
  }
  return packed;
}

// The first m rows of `each` values, in memory that ends with them. Rows do not know each other, so
// one reference (it costs more than what is compared with it) serves every shorter batch.
template <class Values>
Values first_rows(const Values& all, int m, std::size_t each) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(each) * m};
}

class RowI8 : public ::testing::TestWithParam<DType> {
 protected:
  // Row lengths with whole and cut steps of four blocks.
  std::vector<int> lengths() const {
    if (dtype_info(GetParam()).block_len == 256) return {256, 768};
    if (GetParam() == DType::nvfp4) return {64, 192, 576};
    return {32, 64, 96, 128, 160, 576, 608};
  }
};

TEST_P(RowI8, CodesTimesScalesAreTheDecodedWeights) {
  std::mt19937 random(1);
  const int k = 512;
  const Bytes w = random_weights(GetParam(), 1, k, random);
  const CodedRow row = code_row(GetParam(), w.data(), k);
  std::vector<float> decoded(static_cast<std::size_t>(k));
  decode_row(GetParam(), reinterpret_cast<const std::byte*>(w.data()), decoded.data(),
             static_cast<std::uint64_t>(k));
  ASSERT_EQ(row.code.size(), decoded.size());
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const std::size_t g = i / static_cast<std::size_t>(row.group);
    ASSERT_FLOAT_EQ(static_cast<float>(row.code[i]) * row.scale[g] + row.min[g], decoded[i]) << i;
  }
}

TEST_P(RowI8, EveryInstructionSetHasTheBitsOfTheDefinition) {
  std::mt19937 random(2);
  const auto tables = available_row_kernels();
  for (const int k : lengths()) {
    for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 40}) {
      const int m = 1 + (n * 7 + k / 32) % (n < 16 ? 9 : 19);
      const Bytes w = random_weights(GetParam(), n, k, random);
      const Bytes x = quantized_rows(*tables.front(), m, k, random);
      const std::vector<float> expected = reference(GetParam(), w, n, k, x, m);
      for (const RowKernels* table : tables) {
        ASSERT_EQ(differences(multiply(*table, GetParam(), w.data(), n, k, x, m), expected), 0)
            << table->isa << " n " << n << " k " << k << " m " << m;
      }
    }
  }
}

// Panels of weights (kernels/body/row_panel.hpp): more than one slab along k, a cut one at the end,
// and every size of the tiles that the activation rows are dealt to (body/row_tiles.hpp has its
// own).
TEST_P(RowI8, ManyRowsHaveTheBitsOfTheDefinition) {
  std::mt19937 random(8);
  const std::uint64_t block = dtype_info(GetParam()).block_len;
  const int k = block == 256 ? 2304 : block == 64 ? 2112 : 2080;
  const int n = 19;
  const Bytes w = random_weights(GetParam(), n, k, random);
  const auto tables = available_row_kernels();
  const std::size_t stride = q8_layout(static_cast<std::size_t>(k)).stride;
  const Bytes x = quantized_rows(*tables.front(), 67, k, random);
  const std::vector<float> expected = reference(GetParam(), w, n, k, x, 67);
  for (const RowKernels* table : tables) {
    for (const int m : {5, 6, 7, 8, 10, 13, 15, 17, 31, 32, 35, 64, 67}) {
      const Bytes some = first_rows(x, m, stride);
      ASSERT_EQ(differences(multiply(*table, GetParam(), w.data(), n, k, some, m),
                            first_rows(expected, m, n)),
                0)
          << table->isa << " m " << m;
    }
  }
}

// So many activations that not all of k is prepared at once, and so many weight rows that not all
// sums are kept at once: what the last rows give.
TEST_P(RowI8, SectionsAlongKHaveTheBitsOfTheDefinition) {
  std::mt19937 random(10);
  const int k = 2304, n = 147, last = 19, m = 64;
  const Bytes w = random_weights(GetParam(), n, k, random);
  const auto tables = available_row_kernels();
  const Bytes x = quantized_rows(*tables.front(), m, k, random);
  const std::size_t before = (n - last) * row_bytes(GetParam(), k);
  const Bytes end(w.begin() + static_cast<std::ptrdiff_t>(before), w.end());
  const std::vector<float> expected = reference(GetParam(), end, last, k, x, m);
  for (const RowKernels* table : tables) {
    const std::vector<float> all = multiply(*table, GetParam(), w.data(), n, k, x, m);
    std::vector<float> y;
    for (int i = 0; i < m; ++i) {
      y.insert(y.end(), all.begin() + i * n + n - last, all.begin() + (i + 1) * n);
    }
    ASSERT_EQ(differences(y, expected), 0) << table->isa;
  }
}

// Packed layout: one slab along k, several, a cut one; every size of the tiles.
TEST_P(RowI8, PackedRowsHaveTheBitsOfTheDefinition) {
  if (!is_packable(GetParam(), 16, 32)) {
    for (const RowKernels* table : available_row_kernels()) {
      EXPECT_EQ(table->packed->matmul[static_cast<int>(GetParam())], nullptr);
    }
    return;
  }
  std::mt19937 random(9);
  for (const int k : {32, 96, 160, 576, 1024, 2080}) {
    const auto cols = static_cast<std::uint64_t>(k);
    for (const int n : {16, 48, 144}) {
      const Bytes w = random_weights(GetParam(), n, k, random);
      const Bytes packed = pack(GetParam(), w, n, cols);
      for (const int m : {1, 2, 3, 4, 5, 8, 9, 13, 16, 31, 33}) {
        if (n > 16 && m > 5 && k > 160) continue;  // each of them is covered apart
        const Bytes x = quantized_rows(*available_row_kernels().front(), m, k, random);
        const std::vector<float> expected = reference(GetParam(), w, n, k, x, m);
        for (const RowKernels* table : available_row_kernels()) {
          std::vector<float> y(static_cast<std::size_t>(m * n), -1.0F);
          table->packed->matmul[static_cast<int>(GetParam())](
              {packed.data(), row_bytes(GetParam(), cols), n, k, x.data(), q8_layout(cols).stride,
               m, y.data(), static_cast<std::size_t>(n)});
          ASSERT_EQ(differences(y, expected), 0)
              << table->isa << " n " << n << " k " << k << " m " << m;
        }
      }
    }
  }
}

TEST_P(RowI8, BitsDoNotDependOnHowManyRowsArePresent) {
  std::mt19937 random(3);
  const int k = 768, n = 26, m = 9;
  const Bytes w = random_weights(GetParam(), n, k, random);
  for (const RowKernels* table : available_row_kernels()) {
    const Bytes x = quantized_rows(*table, m, k, random);
    const std::vector<float> all = multiply(*table, GetParam(), w.data(), n, k, x, m);
    const std::size_t stride = q8_layout(static_cast<std::size_t>(k)).stride;
    for (int i = 0; i < m; ++i) {
      const Bytes one(x.begin() + static_cast<std::ptrdiff_t>(stride) * i,
                      x.begin() + static_cast<std::ptrdiff_t>(stride) * (i + 1));
      const std::vector<float> y = multiply(*table, GetParam(), w.data(), n, k, one, 1);
      ASSERT_EQ(differences(y, {all.begin() + i * n, all.begin() + (i + 1) * n}), 0) << table->isa;
    }
  }
}

TEST_P(RowI8, AnotherNumberOfPartialSumsIsSeen) {
  std::mt19937 random(4);
  const int k = 1536, n = 64;
  const Bytes w = random_weights(GetParam(), n, k, random);
  const RowKernels& table = *available_row_kernels().front();
  const Bytes x = quantized_rows(table, 1, k, random);
  const std::vector<float> y = multiply(table, GetParam(), w.data(), n, k, x, 1);
  EXPECT_GT(differences(y, reference(GetParam(), w, n, k, x, 1, 3)), n / 4);
  EXPECT_GT(differences(y, reference(GetParam(), w, n, k, x, 1, 1)), n / 4);
}

TEST_P(RowI8, ErrorAgainstDoubleIsWithinRounding) {
  std::mt19937 random(5);
  const int k = 1024, n = 8;
  const Bytes w = random_weights(GetParam(), n, k, random);
  std::vector<float> decoded(static_cast<std::size_t>(k));
  for (const RowKernels* table : available_row_kernels()) {
    const Bytes x = quantized_rows(*table, 1, k, random);
    const Q8View view = view_q8(x.data(), k);
    const std::vector<float> y = multiply(*table, GetParam(), w.data(), n, k, x, 1);
    const std::uint64_t bytes = row_bytes(GetParam(), static_cast<std::uint64_t>(k));
    for (int r = 0; r < n; ++r) {
      decode_row(
          GetParam(),
          reinterpret_cast<const std::byte*>(w.data()) + bytes * static_cast<std::uint64_t>(r),
          decoded.data(), static_cast<std::uint64_t>(k));
      // decode_row rounds d * q + m once or twice, so a minimum costs its own rounding.
      double exact = 0.0, size = 0.0;
      for (int i = 0; i < k; ++i) {
        const double product = static_cast<double>(decoded[static_cast<std::size_t>(i)]) *
                               static_cast<double>(view.d[i / 32]) * view.q[i];
        exact += product;
        size += std::abs(product);
      }
      const double bound = (k / 32 / 2 + 8) * 0x1p-24 * size * 2.0 + 1e-30;
      ASSERT_NEAR(static_cast<double>(y[static_cast<std::size_t>(r)]), exact, bound) << table->isa;
    }
  }
}

// The weights end where a page that cannot be read begins, at an odd address for odd sizes.
TEST_P(RowI8, NothingIsReadPastTheLastByte) {
  std::mt19937 random(6);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto tables = available_row_kernels();
  for (const int k : lengths()) {
    const std::size_t stride = q8_layout(static_cast<std::size_t>(k)).stride;
    for (const int n : {1, 2, 3, 4, 5, 6, 16, 19}) {
      const Bytes w = random_weights(GetParam(), n, k, random);
      const Bytes x = quantized_rows(*tables.front(), 9, k, random);
      const std::vector<float> expected = reference(GetParam(), w, n, k, x, 9);
      const std::size_t mapped = (w.size() + page - 1) / page * page + page;
      void* area =
          mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(area, MAP_FAILED);
      std::uint8_t* end = static_cast<std::uint8_t*>(area) + mapped - page;
      std::memcpy(end - w.size(), w.data(), w.size());
      ASSERT_EQ(mprotect(end, page, PROT_NONE), 0);
      for (const RowKernels* table : tables) {
        for (const int m : {2, 5, 9}) {
          const Bytes some = first_rows(x, m, stride);
          EXPECT_EQ(differences(multiply(*table, GetParam(), end - w.size(), n, k, some, m),
                                first_rows(expected, m, n)),
                    0);
        }
      }
      munmap(area, mapped);
    }
  }
}

TEST_P(RowI8, NaNAndInfiniteScalesOnlySpoilTheirRow) {
  std::mt19937 random(7);
  const int k = 512, n = 18;
  const RowKernels& first = *available_row_kernels().front();
  const Bytes x = quantized_rows(first, 3, k, random);
  for (const std::uint8_t fill : {std::uint8_t{0xFF}, std::uint8_t{0x7C}, std::uint8_t{0x00}}) {
    Bytes w = random_weights(GetParam(), n, k, random);
    const std::size_t bytes = row_bytes(GetParam(), static_cast<std::uint64_t>(k));
    std::fill(w.begin() + static_cast<std::ptrdiff_t>(bytes),
              w.begin() + static_cast<std::ptrdiff_t>(2 * bytes), fill);
    for (const RowKernels* table : available_row_kernels()) {
      EXPECT_EQ(differences(multiply(*table, GetParam(), w.data(), n, k, x, 3),
                            reference(GetParam(), w, n, k, x, 3)),
                0)
          << table->isa << " fill " << int{fill};
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RowI8, ::testing::ValuesIn(kTypes),
                         [](const auto& test) { return std::string(dtype_info(test.param).name); });

TEST(QuantizeQ8, FollowsItsDefinitionOnEveryInstructionSet) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  const int k = 160;
  std::vector<float> x(static_cast<std::size_t>(k));
  for (float& v : x) v = normal(random) * 10.0F;
  std::fill(x.begin() + 32, x.begin() + 64, 0.0F);
  std::fill(x.begin() + 64, x.begin() + 96, 1e-44F);  // its scale rounds to zero
  for (int i = 96; i < 128; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i - 96) + 0.5F;
  x[127] = 127.0F;  // d = 1: every value is a tie
  const std::size_t stride = q8_layout(static_cast<std::size_t>(k)).stride;
  for (const RowKernels* table : available_row_kernels()) {
    Bytes row(stride, 0xAA);
    table->quantize_q8(x.data(), k, row.data());
    const Q8View view = view_q8(row.data(), k);
    for (int b = 0; b < k / 32; ++b) {
      float largest = 0.0F;
      for (int i = 32 * b; i < 32 * b + 32; ++i)
        largest = std::max(largest, std::abs(x[static_cast<std::size_t>(i)]));
      const float d = largest / 127.0F;
      EXPECT_EQ(view.d[b], d) << table->isa;
      int sums[2] = {0, 0};
      for (int i = 32 * b; i < 32 * b + 32; ++i) {
        const int q =
            d == 0.0F ? 0 : static_cast<int>(std::nearbyint(x[static_cast<std::size_t>(i)] / d));
        EXPECT_EQ(view.q[i], q) << table->isa << " " << i;
        sums[i / 16 % 2] += q;
      }
      EXPECT_EQ(view.sums[2 * b], sums[0]);
      EXPECT_EQ(view.sums[2 * b + 1], sums[1]);
    }
  }
}

TEST(QuantizeQ8, NaNAndInfinityGiveTheSameBytesEverywhere) {
  std::vector<float> x(64, 1.0F);
  x[3] = std::nanf("");
  x[40] = INFINITY;
  const std::size_t stride = q8_layout(64).stride;
  Bytes first;
  for (const RowKernels* table : available_row_kernels()) {
    Bytes row(stride, 0);
    table->quantize_q8(x.data(), 64, row.data());
    const Q8View view = view_q8(row.data(), 64);
    for (int i = 0; i < 64; ++i) EXPECT_GE(view.q[i], -127);
    row.resize(64);
    if (first.empty()) first = row;
    EXPECT_EQ(row, first) << table->isa;
  }
}

}  // namespace
}  // namespace orrery::kernels::testing
