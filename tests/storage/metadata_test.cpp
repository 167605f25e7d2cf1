// Typed access to metadata, and the values a GGUF file gives it.
#include "storage/metadata.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "storage/gguf.hpp"
#include "support/gguf_builder.hpp"

namespace orrery::storage {
namespace {

TEST(Metadata, ConvertsIntegersThatFitAndNothingElse) {
  Metadata meta;
  EXPECT_TRUE(meta.insert("natural", MetaValue(std::uint64_t{32})));
  EXPECT_TRUE(meta.insert("negative", MetaValue(std::int64_t{-1})));
  EXPECT_TRUE(meta.insert("big", MetaValue(std::uint64_t{1} << 63)));
  EXPECT_TRUE(meta.insert("float", MetaValue(32.0)));
  EXPECT_TRUE(meta.insert("text", MetaValue(std::string_view("32"))));
  EXPECT_FALSE(meta.insert("text", MetaValue(true)));
  EXPECT_EQ(meta.u32("natural").value_or(0), 32U);
  EXPECT_EQ(meta.i64("natural").value_or(0), 32);
  EXPECT_EQ(meta.i64("negative").value_or(0), -1);
  EXPECT_FALSE(meta.u32("negative"));
  EXPECT_FALSE(meta.i64("big"));
  EXPECT_FALSE(meta.u32("big"));
  EXPECT_EQ(meta.f32("float").value_or(0), 32.0F);
  EXPECT_FALSE(meta.u32("float"));
  EXPECT_FALSE(meta.f32("natural"));
  EXPECT_FALSE(meta.boolean("natural"));
  EXPECT_EQ(meta.string("text").value_or(""), "32");
}

TEST(Metadata, ErrorsNameKeyFindingAndExpectation) {
  Metadata meta;
  meta.insert("llama.block_count", MetaValue(std::string_view("32")));
  EXPECT_EQ(meta.u32("llama.block_count").error().message,
            "key \"llama.block_count\": found the string \"32\", expected an integer from 0 to "
            "4294967295");
  EXPECT_EQ(meta.f32("absent").error().message, "key \"absent\": is missing, expected a float");
  EXPECT_EQ(meta.f32("absent").error().kind, "E_META");
}

TEST(Metadata, OptionalValuesFallBackOnlyWhenAbsent) {
  Metadata meta;
  meta.insert("text", MetaValue(std::string_view("x")));
  EXPECT_EQ(meta.u32_or("absent", 7).value_or(0), 7U);
  EXPECT_EQ(meta.f32_or("absent", 0.5F).value_or(0), 0.5F);
  EXPECT_EQ(meta.boolean_or("absent", true).value_or(false), true);
  EXPECT_EQ(meta.string_or("absent", "y").value_or(""), "y");
  EXPECT_FALSE(meta.u32_or("text", 7));
  EXPECT_FALSE(meta.f32_or("text", 7));
  EXPECT_FALSE(meta.boolean_or("text", true));
  EXPECT_EQ(meta.string_or("text", "y").value_or(""), "x");
}

// A file with one key "k" of this value.
template <class T>
GgufFile file_with(const T& value, std::string& bytes) {
  bytes = test::GgufBuilder().add_kv("k", value).build();
  return std::move(*parse_gguf(std::as_bytes(std::span(bytes)), "m"));
}

template <class T>
MetaValue scalar(const T& value) {
  std::string bytes;
  return *file_with(value, bytes).metadata.find("k");
}

TEST(Metadata, EveryScalarTypeOfAFileArrives) {
  EXPECT_EQ(scalar(std::uint8_t{200}), MetaValue(std::uint64_t{200}));
  EXPECT_EQ(scalar(std::uint16_t{60'000}), MetaValue(std::uint64_t{60'000}));
  EXPECT_EQ(scalar(std::uint32_t{4'000'000'000}), MetaValue(std::uint64_t{4'000'000'000}));
  EXPECT_EQ(scalar(~std::uint64_t{0}), MetaValue(~std::uint64_t{0}));
  EXPECT_EQ(scalar(std::int8_t{-100}), MetaValue(std::int64_t{-100}));
  EXPECT_EQ(scalar(std::int16_t{-30'000}), MetaValue(std::int64_t{-30'000}));
  EXPECT_EQ(scalar(std::int32_t{-7}), MetaValue(std::int64_t{-7}));
  EXPECT_EQ(scalar(std::int64_t{-7}), MetaValue(std::int64_t{-7}));
  EXPECT_EQ(scalar(1.5F), MetaValue(1.5));
  EXPECT_EQ(scalar(0.1), MetaValue(0.1));
  EXPECT_EQ(scalar(true), MetaValue(true));
}

template <class T>
void expect_integers() {
  std::string bytes;
  const GgufFile file = file_with(std::vector<T>{1, 2, std::numeric_limits<T>::max()}, bytes);
  const auto array = file.metadata.array("k", MetaArray::Kind::integers);
  ASSERT_TRUE(array) << array.error().message;
  const auto last = static_cast<std::int64_t>(std::numeric_limits<T>::max());
  EXPECT_EQ(array->integers, (std::vector<std::int64_t>{1, 2, last}));
}

TEST(Metadata, EveryArrayTypeOfAFileArrives) {
  expect_integers<std::uint8_t>();
  expect_integers<std::int8_t>();
  expect_integers<std::uint16_t>();
  expect_integers<std::int16_t>();
  expect_integers<std::uint32_t>();
  expect_integers<std::int32_t>();
  expect_integers<std::int64_t>();
  std::string bytes;
  GgufFile file = file_with(std::vector<double>{0.5, 1}, bytes);
  EXPECT_EQ(file.metadata.array("k", MetaArray::Kind::floats)->floats,
            (std::vector<float>{0.5F, 1}));
  file = file_with(std::vector<bool>{true, false}, bytes);
  EXPECT_EQ(file.metadata.array("k", MetaArray::Kind::bools)->bools,
            (std::vector<std::uint8_t>{1, 0}));
  file = file_with(std::vector<std::string>{"a", "", std::string("\0z", 2)}, bytes);
  const auto strings = file.metadata.array("k", MetaArray::Kind::strings);
  EXPECT_EQ(strings->strings, (std::vector<std::string_view>{"a", "", std::string_view("\0z", 2)}));
  EXPECT_EQ(file.metadata.array("k", MetaArray::Kind::floats).error().message,
            "key \"k\": found an array of 3 strings, expected an array of floats");
}

TEST(Metadata, VersionTwoReadsLikeThree) {
  test::GgufBuilder builder;
  builder.version = 2;
  const std::string bytes = builder.add_kv("k", 5).build();
  const auto file = parse_gguf(std::as_bytes(std::span(bytes)), "m");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->metadata.i64("k").value_or(0), 5);
}

TEST(Metadata, BytesAfterTheLastTensorAreCounted) {
  test::GgufBuilder builder;
  builder.add_tensor("a", DType::f32, {1}, std::string(4, 'x')).raw_data("tail");
  const std::string bytes = builder.build();
  EXPECT_EQ(parse_gguf(std::as_bytes(std::span(bytes)), "m")->trailing_bytes, 4U);
}

}  // namespace
}  // namespace orrery::storage
