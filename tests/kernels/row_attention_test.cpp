// Decode attention by parts against a double softmax, and its bits between instruction sets.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/dispatch.hpp"
#include "tensor/cache_page.hpp"

namespace orrery::kernels {
namespace {

struct Shape {
  int g, k_dim, v_dim, first, end;  // positions [first, end)
  DType k_type, v_type;
  float softcap;
};

// A pool of shuffled pages with two kv heads; the second is used.
struct Cache {
  std::vector<std::byte> pool;
  std::vector<std::int32_t> pages;
  std::size_t page_bytes = 0, head_offset = 0;
  std::vector<double> k, v;  // (position, dim) as stored
};

// A row of random numbers into a page; what is read back goes to `stored`.
void put_row(DType type, CacheSide side, int dim, int slot, std::mt19937& random, std::byte* bytes,
             std::vector<double>& stored) {
  std::normal_distribution<float> normal;
  std::vector<float> row(static_cast<std::size_t>(dim));
  for (float& x : row) x = normal(random);
  write_cache_row(type, side, dim, slot, row.data(), bytes);
  read_cache_row(type, side, dim, slot, bytes, row.data());
  stored.insert(stored.end(), row.begin(), row.end());
}

Cache make_cache(const Shape& s, std::mt19937& random) {
  Cache c;
  const int n_pages = (s.end + 63) / 64;
  const std::size_t k_row = row_bytes(s.k_type, static_cast<std::uint64_t>(s.k_dim));
  const std::size_t v_row = row_bytes(s.v_type, static_cast<std::uint64_t>(s.v_dim));
  c.head_offset = 64 * (k_row + v_row);
  c.page_bytes = 2 * c.head_offset;
  // Slots that nobody wrote hold NaN, in every type.
  c.pool.assign(c.page_bytes * static_cast<std::size_t>(n_pages), std::byte{0xFF});
  for (int i = 0; i < n_pages; ++i) c.pages.push_back((i * 5 + 3) % n_pages);
  if (n_pages % 5 == 0)
    for (int i = 0; i < n_pages; ++i) c.pages[static_cast<std::size_t>(i)] = n_pages - 1 - i;
  for (int t = 0; t < s.end; ++t) {
    const std::size_t base =
        static_cast<std::size_t>(c.pages[static_cast<std::size_t>(t / 64)]) * c.page_bytes +
        c.head_offset;
    const int slot = t % 64;
    std::byte* page = c.pool.data() + base;
    put_row(s.k_type, CacheSide::keys, s.k_dim, slot, random, page, c.k);
    put_row(s.v_type, CacheSide::values, s.v_dim, slot, random, page + 64 * k_row, c.v);
  }
  return c;
}

std::vector<float> attend(const RowKernels& table, const Shape& s, const Cache& c,
                          const std::vector<float>& q) {
  const std::size_t g = static_cast<std::size_t>(s.g), v_dim = static_cast<std::size_t>(s.v_dim);
  const int parts = (s.end + 255) / 256;
  std::vector<float> m(g * static_cast<std::size_t>(parts)), l(m.size()), o(m.size() * v_dim);
  for (int part = 0; part < parts; ++part) {
    const std::size_t at = g * static_cast<std::size_t>(part);
    AttentionPart a = {};
    a.q = q.data();
    a.q_stride = static_cast<std::size_t>(s.k_dim);
    a.g = s.g, a.k_dim = s.k_dim, a.v_dim = s.v_dim;
    a.pool = c.pool.data(), a.page_bytes = c.page_bytes, a.head_offset = c.head_offset;
    a.v_offset = 64 * row_bytes(s.k_type, static_cast<std::uint64_t>(s.k_dim));
    a.v_stride = row_bytes(s.v_type, static_cast<std::uint64_t>(s.v_dim));
    a.pages = c.pages.data();
    a.begin = std::max(part * 256, s.first);
    a.end = std::min(part * 256 + 256, s.end);
    a.k_type = s.k_type, a.v_type = s.v_type;
    a.scale = 1.0F / std::sqrt(static_cast<float>(s.k_dim)), a.softcap = s.softcap;
    a.m = m.data() + at, a.l = l.data() + at, a.o = o.data() + at * v_dim, a.o_stride = v_dim;
    table.attention_part(a);
  }
  std::vector<float> out(g * v_dim);
  table.attention_merge({m.data(), l.data(), o.data(), parts, s.g, s.v_dim, out.data(), v_dim});
  return out;
}

// The query as scores with quantized keys see it: an activation row of class i8.
std::vector<float> seen_query(const Shape& s, const std::vector<float>& q) {
  std::vector<float> seen = q;
  for (std::size_t i = 0; is_quantized_cache(s.k_type) && i < seen.size(); i += 32) {
    float largest = 0;
    for (std::size_t j = i; j < i + 32; ++j) largest = std::max(largest, std::abs(q[j]));
    const float d = largest / 127.0F;
    for (std::size_t j = i; j < i + 32; ++j) seen[j] = d * std::nearbyint(q[j] / d);
  }
  return seen;
}

std::vector<double> exact(const Shape& s, const Cache& c, const std::vector<float>& query) {
  const std::vector<float> q = seen_query(s, query);
  std::vector<double> out;
  const auto k_dim = static_cast<std::size_t>(s.k_dim), v_dim = static_cast<std::size_t>(s.v_dim);
  for (std::size_t h = 0; h < static_cast<std::size_t>(s.g); ++h) {
    std::vector<double> scores;
    double largest = -INFINITY, total = 0.0;
    for (auto t = static_cast<std::size_t>(s.first); t < static_cast<std::size_t>(s.end); ++t) {
      double score = 0.0;
      for (std::size_t i = 0; i < k_dim; ++i)
        score += static_cast<double>(q[h * k_dim + i]) * c.k[t * k_dim + i];
      score /= std::sqrt(static_cast<double>(s.k_dim));
      if (s.softcap > 0.0F) score = s.softcap * std::tanh(score / s.softcap);
      scores.push_back(score);
      largest = std::max(largest, score);
    }
    for (double& score : scores) total += score = std::exp(score - largest);
    for (std::size_t i = 0; i < v_dim; ++i) {
      double sum = 0.0;
      for (std::size_t j = 0; j < scores.size(); ++j)
        sum += scores[j] * c.v[(static_cast<std::size_t>(s.first) + j) * v_dim + i];
      out.push_back(sum / total);
    }
  }
  return out;
}

void add_quantized(std::vector<Shape>& shapes) {
  for (const DType k : {DType::q8_0, DType::q4_0, DType::f16, DType::bf16, DType::f32}) {
    for (const DType v : {DType::q8_0, DType::q4_0, DType::f16, DType::bf16, DType::f32}) {
      if (!is_quantized_cache(k) && !is_quantized_cache(v)) continue;
      shapes.push_back({1, 64, 64, 0, 1, k, v, 0.0F});
      shapes.push_back({3, 64, 64, 0, 333, k, v, 0.0F});
      shapes.push_back({7, 96, 64, 29, 70, k, v, 0.0F});  // a window that ends inside of pages
      shapes.push_back({2, 32, 160, 79, 81, k, v, 20.0F});
      shapes.push_back({4, 256, 128, 300, 777, k, v, 0.0F});
    }
  }
}

// Half a step of each of the int16 weights that meet quantized values, beside f32's rounding.
double bound(const Shape& s) {
  return is_quantized_cache(s.v_type) ? 6e-5 : 5e-6;
}

TEST(RowAttention, MatchesADoubleSoftmaxAndIsEqualEverywhere) {
  std::mt19937 random(1);
  const DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;
  std::vector<Shape> shapes = {
      {1, 64, 64, 0, 1, f16, f16, 0.0F},     {3, 64, 64, 0, 70, f16, f16, 0.0F},
      {4, 128, 128, 0, 300, f16, f16, 0.0F}, {7, 64, 64, 0, 256, f32, f32, 0.0F},
      {5, 40, 24, 0, 130, f16, f16, 0.0F},   {2, 256, 256, 300, 777, f16, f16, 50.0F},
      {8, 80, 80, 5, 64, f32, f32, 0.0F},    {1, 192, 128, 0, 515, f16, f16, 0.0F}};
  for (const DType k : {f16, bf16, f32}) {
    for (const DType v : {f16, bf16, f32}) shapes.push_back({3, 40, 24, 0, 333, k, v, 0.0F});
  }
  add_quantized(shapes);
  for (const Shape& s : shapes) {
    const Cache c = make_cache(s, random);
    std::normal_distribution<float> normal;
    std::vector<float> q(static_cast<std::size_t>(s.g * s.k_dim));
    for (float& v : q) v = normal(random);
    const std::vector<double> want = exact(s, c, q);
    std::vector<float> first;
    for (const RowKernels* table : available_row_kernels()) {
      const std::vector<float> y = attend(*table, s, c, q);
      if (first.empty()) first = y;
      for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_NEAR(static_cast<double>(y[i]), want[i], bound(s))
            << table->isa << " " << i << " " << dtype_info(s.k_type).name << " "
            << dtype_info(s.v_type).name;
        EXPECT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(first[i]))
            << table->isa;
      }
    }
  }
}

// A head's bits do not depend on how many heads share the call.
TEST(RowAttention, HeadsAreIndependent) {
  std::mt19937 random(2);
  for (const DType type : {DType::f16, DType::q8_0, DType::q4_0}) {
    Shape s = {6, 64, 64, 0, 200, type, type, 0.0F};
    const Cache c = make_cache(s, random);
    std::normal_distribution<float> normal;
    std::vector<float> q(static_cast<std::size_t>(s.g * s.k_dim));
    for (float& v : q) v = normal(random);
    for (const RowKernels* table : available_row_kernels()) {
      const std::vector<float> all = attend(*table, s, c, q);
      Shape one = s;
      one.g = 1;
      for (int h = 0; h < s.g; ++h) {
        const std::vector<float> y =
            attend(*table, one, c, {q.begin() + 64 * h, q.begin() + 64 * (h + 1)});
        EXPECT_EQ(y, std::vector<float>(all.begin() + 64 * h, all.begin() + 64 * (h + 1)))
            << table->isa;
      }
    }
  }
}

// A NaN in the cache is seen in the result.
TEST(RowAttention, NansComeThrough) {
  std::mt19937 random(4);
  for (const DType type : {DType::f16, DType::q8_0, DType::q4_0}) {
    for (const CacheSide side : {CacheSide::keys, CacheSide::values}) {
      const Shape s = {2, 64, 64, 0, 20, type, type, 0.0F};
      Cache c = make_cache(s, random);
      std::vector<float> row(64, 1.0F);
      row[3] = NAN;
      std::byte* keys = c.pool.data() + c.head_offset;
      write_cache_row(type, side, 64, 7, row.data(),
                      side == CacheSide::keys ? keys : keys + 64 * row_bytes(type, 64));
      for (const RowKernels* table : available_row_kernels()) {
        EXPECT_TRUE(std::isnan(attend(*table, s, c, std::vector<float>(128, 0.25F))[3]))
            << table->isa << " " << dtype_info(type).name;
      }
    }
  }
}

// A part without positions (behind a window) is neutral.
TEST(RowAttention, EmptyPartsDoNotCount) {
  std::mt19937 random(3);
  const Shape s = {2, 64, 64, 600, 700, DType::f16, DType::f16, 0.0F};
  const Cache c = make_cache(s, random);
  const std::vector<float> q(128, 0.25F);
  const std::vector<double> want = exact(s, c, q);
  for (const RowKernels* table : available_row_kernels()) {
    const std::vector<float> y = attend(*table, s, c, q);
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(static_cast<double>(y[i]), want[i], 5e-6);
  }
}

}  // namespace
}  // namespace orrery::kernels
