// Each limit holds one below, at and one above.
#include "storage/limits.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "storage/gguf.hpp"
#include "storage/safetensors.hpp"
#include "support/gguf_builder.hpp"
#include "support/memory_io.hpp"

namespace orrery::storage {
namespace {

std::string parse(const std::string& file) {
  const auto parsed = parse_gguf(std::as_bytes(std::span(file)), "m");
  return parsed ? "" : std::string(parsed.error().kind);
}

std::string keys(std::uint64_t n) {
  test::GgufBuilder builder;
  for (std::uint64_t i = 0; i < n; ++i) builder.add_kv(std::to_string(i), std::uint8_t{1});
  return builder.build();
}

std::string tensors(std::uint64_t n) {
  test::GgufBuilder builder;
  builder.set_alignment(1);
  for (std::uint64_t i = 0; i < n; ++i) builder.raw_tensor(std::to_string(i), {1}, 24, i);
  return builder.raw_data(std::string(n, 'x')).build();
}

std::string key_of(std::uint64_t bytes) {
  return test::GgufBuilder().add_kv(std::string(bytes, 'k'), 1).build();
}

std::string string_of(std::uint64_t bytes) {
  return test::GgufBuilder().add_kv("k", std::string(bytes, 's')).build();
}

std::string name_of(std::uint64_t bytes) {
  return test::GgufBuilder()
      .add_tensor(std::string(bytes, 'n'), DType::f32, {1}, std::string(4, 'x'))
      .build();
}

std::string dims_of(std::uint64_t n) {
  return test::GgufBuilder()
      .add_tensor("a", DType::f32, std::vector<std::uint64_t>(n, 1), std::string(4, 'x'))
      .build();
}

void expect_limit(std::string (*make)(std::uint64_t), std::uint64_t limit, std::string_view kind) {
  EXPECT_EQ(parse(make(limit - 1)), "") << limit;
  EXPECT_EQ(parse(make(limit)), "") << limit;
  EXPECT_EQ(parse(make(limit + 1)), kind) << limit;
}

TEST(Limits, OfGguf) {
  expect_limit(keys, kMaxKeyValues, "E_NKV");
  expect_limit(tensors, kMaxTensors, "E_NTENSORS");
  expect_limit(key_of, kMaxKeyBytes, "E_STRLEN");
  expect_limit(string_of, kMaxStringBytes, "E_STRLEN");
  expect_limit(name_of, kMaxTensorNameBytes, "E_TNAME");
  expect_limit(dims_of, kMaxDims, "E_NDIMS");
}

TEST(Limits, OfAlignment) {
  for (std::uint32_t alignment = 1; alignment <= kMaxAlignment; alignment *= 2) {
    const std::string file = test::GgufBuilder()
                                 .set_alignment(alignment)
                                 .add_tensor("a", DType::f32, {1}, std::string(4, 'x'))
                                 .build();
    EXPECT_EQ(parse(file), "") << alignment;
  }
  EXPECT_EQ(parse(test::GgufBuilder().set_alignment(2 * kMaxAlignment).build()), "E_ALIGN");
}

TEST(Limits, OfSafetensors) {
  const auto with_header = [](std::uint64_t bytes) {
    std::string header(bytes, ' ');
    header.replace(0, 2, "{}");
    return test::ByteWriter().number(bytes).raw(header).bytes();
  };
  const auto kind = [](const std::string& file) {
    const auto parsed = parse_safetensors(std::as_bytes(std::span(file)), "m");
    return parsed ? "" : std::string(parsed.error().kind);
  };
  EXPECT_EQ(kind(with_header(1000)), "");
  EXPECT_EQ(kind(test::ByteWriter().number(kMaxSafetensorsHeaderBytes + 1).raw("{}").bytes()),
            "E_HEADERLEN");
  EXPECT_EQ(kind(test::ByteWriter().number(kMaxSafetensorsHeaderBytes).raw("{}").bytes()),
            "E_TRUNC");
  const auto named = [&](std::uint64_t bytes) {
    const std::string json = fmt::format(
        R"({{"{}":{{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}}})", std::string(bytes, 'n'));
    return kind(
        test::ByteWriter().number(static_cast<std::uint64_t>(json.size())).raw(json).bytes());
  };
  EXPECT_EQ(named(kMaxSafetensorsNameBytes - 1), "");
  EXPECT_EQ(named(kMaxSafetensorsNameBytes), "");
  EXPECT_EQ(named(kMaxSafetensorsNameBytes + 1), "E_TNAME");
}

}  // namespace
}  // namespace orrery::storage
