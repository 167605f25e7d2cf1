#include "tensor/packed.hpp"

#include <cstring>

#include "base/check.hpp"

namespace orrery {
namespace {

// Bit 8 b + i of the result is bit 4 i + b of x: from the order of a file to that of a record.
std::uint32_t to_planes(std::uint32_t x) {
  std::uint32_t planes = 0;
  for (unsigned b = 0; b < 4; ++b) {
    std::uint32_t bits = x >> b & 0x11111111U;  // bit i at 4 i
    bits = (bits | bits >> 3) & 0x03030303U;
    bits = (bits | bits >> 6) & 0x000F000FU;
    planes |= ((bits | bits >> 12) & 0xFFU) << (8 * b);
  }
  return planes;
}

std::uint32_t from_planes(std::uint32_t planes) {
  std::uint32_t x = 0;
  for (unsigned i = 0; i < 8; ++i) {
    for (unsigned b = 0; b < 4; ++b) x |= (planes >> (8 * b + i) & 1U) << (4 * i + b);
  }
  return x;
}

// With the record known at compile time: these loops are what packing costs when a model is opened.
template <DType type>
struct Format {
  static constexpr PackedRecord kRecord = packed_record(type);
  static constexpr std::size_t kBlock = static_cast<std::size_t>(kRecord.bytes) / kPackedRows;

  static void pack(int groups, const std::byte* rows, std::byte* panel) {
    const std::size_t stride = static_cast<std::size_t>(groups) * kBlock;
    for (int g = 0; g < groups; ++g) {
      std::byte* out = panel + packed_position(g, groups) * kRecord.bytes;
      for (std::size_t r = 0; r < kPackedRows; ++r) {
        pack_block(rows + r * stride + static_cast<std::size_t>(g) * kBlock, out, r);
      }
    }
  }

  static void unpack(int groups, const std::byte* panel, std::size_t r, std::byte* row) {
    for (int g = 0; g < groups; ++g, row += kBlock) {
      const std::byte* in = panel + packed_position(g, groups) * kRecord.bytes;
      std::byte* out = row;
      const auto give = [&](int from, std::size_t bytes) {
        std::memcpy(out, in + static_cast<std::size_t>(from) + r * bytes, bytes);
        out += bytes;
      };
      give(0, 2);
      if constexpr (kRecord.minimum != 0) give(kRecord.minimum, 2);
      if constexpr (kRecord.fifth != 0) {
        std::uint32_t bits;
        std::memcpy(&bits, in + kRecord.fifth + 4 * r, 4);
        bits = from_planes(bits);
        std::memcpy(out, &bits, 4);
        out += 4;
      }
      for (int i = 0; i < kRecord.words; ++i) give(kRecord.codes + 64 * i, 4);
    }
  }

 private:
  static void pack_block(const std::byte* in, std::byte* out, std::size_t r) {
    const auto take = [&](int to, std::size_t bytes) {
      std::memcpy(out + static_cast<std::size_t>(to) + r * bytes, in, bytes);
      in += bytes;
    };
    take(0, 2);
    if constexpr (kRecord.minimum != 0) take(kRecord.minimum, 2);
    if constexpr (kRecord.fifth != 0) {
      std::uint32_t bits;
      std::memcpy(&bits, in, 4);
      bits = to_planes(bits);
      std::memcpy(out + kRecord.fifth + 4 * r, &bits, 4);
      in += 4;
    }
    for (int i = 0; i < kRecord.words; ++i) take(kRecord.codes + 64 * i, 4);
  }
};

// f of the format of a type that has a packed layout.
template <class F>
void with_format(DType type, F f) {
  switch (type) {
    case DType::q4_0:
      return f(Format<DType::q4_0>{});
    case DType::q4_1:
      return f(Format<DType::q4_1>{});
    case DType::q5_0:
      return f(Format<DType::q5_0>{});
    case DType::q5_1:
      return f(Format<DType::q5_1>{});
    case DType::q8_0:
      return f(Format<DType::q8_0>{});
    default:
      ORRERY_CHECK(false);
  }
}

}  // namespace

bool is_packable(DType type, std::uint64_t rows, std::uint64_t k) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 30;  // positions are ints
  return packed_record(type).bytes != 0 && rows > 0 && rows % kPackedRows == 0 && k > 0 &&
         k % 32 == 0 && k <= kLongest;
}

void pack_panel(DType type, std::uint64_t k, const std::byte* rows, std::byte* panel) {
  ORRERY_CHECK(is_packable(type, kPackedRows, k));
  with_format(type, [&](auto format) { format.pack(static_cast<int>(k / 32), rows, panel); });
}

void unpack_row(DType type, std::uint64_t k, const std::byte* panel, int r, std::byte* row) {
  ORRERY_CHECK(is_packable(type, kPackedRows, k));
  with_format(type, [&](auto format) {
    format.unpack(static_cast<int>(k / 32), panel, static_cast<std::size_t>(r), row);
  });
}

}  // namespace orrery
