// No cut and no flipped bit of a valid file makes the parsers misbehave.
#include <gtest/gtest.h>

#include "storage/gguf.hpp"
#include "storage/safetensors.hpp"
#include "support/gguf_builder.hpp"
#include "support/memory_io.hpp"

namespace orrery::storage {
namespace {

std::string rich_gguf() {
  test::GgufBuilder builder;
  builder.add_kv("general.architecture", "llama")
      .set_alignment(64)
      .add_kv("u8", std::uint8_t{1})
      .add_kv("i8", std::int8_t{-1})
      .add_kv("i64", std::int64_t{-1})
      .add_kv("f64", 0.5)
      .add_kv("flag", true)
      .add_kv("flags", std::vector<bool>{true, false})
      .add_kv("tokens", std::vector<std::string>{"a", "", "longer token"})
      .add_kv("scores", std::vector<float>{1, 2, 3})
      .add_kv("types", std::vector<std::int32_t>{1, 2, 3})
      .add_kv("big", std::vector<std::uint64_t>{1, 2})
      .add_tensor("token_embd.weight", DType::f32, {4, 3}, std::vector<float>(12, 1.0F))
      .add_tensor("blk.0.w", DType::q8_0, {32, 2}, std::string(68, 'q'))
      .add_tensor("blk.1.w", DType::q4_k, {256, 1, 4}, std::string(576, 'k'));
  return builder.build();
}

std::string rich_safetensors() {
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";
  return test::ByteWriter()
      .number(static_cast<std::uint64_t>(json.size()))
      .raw(json)
      .raw(std::string(32, 'x'))
      .bytes();
}

// Reads every byte that the table claims, so that a sanitizer sees a range that is wrong.
std::uint64_t touch(std::span<const TensorInfo> tensors) {
  std::uint64_t sum = 0;
  for (const TensorInfo& tensor : tensors) {
    for (std::uint64_t i = 0; i < tensor.bytes; ++i)
      sum += static_cast<std::uint8_t>(tensor.data[i]);
  }
  return sum;
}

bool parses_as_gguf(std::string_view bytes) {
  const test::MemoryMapping mapping(bytes);
  const auto file = parse_gguf(mapping.bytes(), "m");
  if (file) touch(file->tensors);
  return file.has_value();
}

bool parses_as_safetensors(std::string_view bytes) {
  const test::MemoryMapping mapping(bytes);
  const auto tensors = parse_safetensors(mapping.bytes(), "m");
  if (tensors) touch(*tensors);
  return tensors.has_value();
}

TEST(Mutation, EveryTruncationOfAGgufIsRefused) {
  const std::string file = rich_gguf();
  ASSERT_TRUE(parses_as_gguf(file));
  // The last tensor has 576 bytes, a multiple of 64: there is no padding to lose.
  for (std::size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(parses_as_gguf(std::string_view(file).substr(0, n))) << n;
  }
}

TEST(Mutation, EveryTruncationOfASafetensorsFileIsRefused) {
  const std::string file = rich_safetensors();
  ASSERT_TRUE(parses_as_safetensors(file));
  for (std::size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(parses_as_safetensors(std::string_view(file).substr(0, n))) << n;
  }
}

TEST(Mutation, NoFlippedBitHarms) {
  for (const bool gguf : {true, false}) {
    std::string file = gguf ? rich_gguf() : rich_safetensors();
    for (std::size_t bit = 0; bit < 8 * std::min<std::size_t>(file.size(), 4096); ++bit) {
      const char before = file[bit / 8];
      file[bit / 8] = static_cast<char>(before ^ (1 << bit % 8));
      gguf ? parses_as_gguf(file) : parses_as_safetensors(file);
      file[bit / 8] = before;
    }
  }
}

TEST(Mutation, NoExtremeNumberHarms) {
  const std::string file = rich_gguf();
  const std::uint64_t size = file.size();
  const std::uint64_t extremes[] = {
      0,    1,       ~std::uint64_t{0} >> 1, std::uint64_t{1} << 63, ~std::uint64_t{0}, size - 1,
      size, size + 1};
  for (std::size_t byte = 4; byte + 8 <= size; ++byte) {
    for (const std::uint64_t value : extremes) {
      std::string changed = file;
      std::memcpy(changed.data() + byte, &value, sizeof(value));
      parses_as_gguf(changed);
      changed = file;
      std::memcpy(changed.data() + byte, &value, sizeof(std::uint32_t));
      parses_as_gguf(changed);
    }
  }
}

}  // namespace
}  // namespace orrery::storage
