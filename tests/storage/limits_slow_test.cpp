// The limit on array elements: files of 64 MiB.
#include <gtest/gtest.h>

#include "storage/gguf.hpp"
#include "storage/limits.hpp"
#include "support/gguf_builder.hpp"

namespace orrery::storage {
namespace {

std::string parse_array_of(std::uint64_t count) {
  test::ByteWriter value;
  constexpr std::uint32_t kBool = 7;
  value.number(kBool).number(count).raw(std::string(count, '\1'));
  const std::string file =
      test::GgufBuilder().raw_kv("k", test::GgufBuilder::kArray, value.bytes()).build();
  const auto parsed = parse_gguf(std::as_bytes(std::span(file)), "m");
  return parsed ? "" : std::string(parsed.error().kind);
}

TEST(Limits, OfArrays) {
  EXPECT_EQ(parse_array_of(kMaxArrayElements - 1), "");
  EXPECT_EQ(parse_array_of(kMaxArrayElements), "");
  EXPECT_EQ(parse_array_of(kMaxArrayElements + 1), "E_ARRLEN");
}

}  // namespace
}  // namespace orrery::storage
