// Packed layout of a weight: sixteen rows interleaved, so that a vector register holds four codes
// of each. A panel is sixteen rows and takes the bytes of sixteen rows of the file; panel i begins
// where row 16 i of the file layout does.
//
// A panel is one record for each 32 weights along k:
//   f16 d[16] | f16 m[16] | fifth bits, u8[16][4] | codes, u8[4 or 8][16][4]
// with m for Q4_1 and Q5_1, fifth bits for Q5_0 and Q5_1. Word i of a row are its codes 4 i to
// 4 i + 3. Types of nibbles have words i (low) and i + 4 (high) in codes[i]; bit i of byte b of the
// fifth bits belongs to code 4 i + b.
//
// The records of each 1024 weights (a slab) stand in the order of class i8's partial sums: those
// whose number is 0 modulo 4, then 1, 2 and 3 (kernels/row_kernels.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.hpp"

namespace orrery {

// How the bytes of a weight are arranged: as in its file, or packed.
enum class Layout : std::uint8_t { file, packed };

inline constexpr int kPackedRows = 16;
inline constexpr int kPackedSlab = 32;  // records

// Offsets in a record; `minimum` and `fifth` are 0 where the type has none.
struct PackedRecord {
  int minimum = 0, fifth = 0, codes = 0, words = 0, bytes = 0;
};
// `bytes` is 0 for a type that has no packed layout.
constexpr PackedRecord packed_record(DType type) {
  const bool nibbles =
      type == DType::q4_0 || type == DType::q4_1 || type == DType::q5_0 || type == DType::q5_1;
  if (!nibbles && type != DType::q8_0) return {};
  PackedRecord r;
  int at = 2 * kPackedRows;
  if (type == DType::q4_1 || type == DType::q5_1) r.minimum = at, at += 2 * kPackedRows;
  if (type == DType::q5_0 || type == DType::q5_1) r.fifth = at, at += 4 * kPackedRows;
  r.codes = at;
  r.words = nibbles ? 4 : 8;
  r.bytes = at + 64 * r.words;
  return r;
}

// True for weights of this type and shape that have a packed layout.
bool is_packable(DType type, std::uint64_t rows, std::uint64_t k);

// Records of partial sum p in a slab of n.
constexpr int packed_partial(int n, int p) {
  return (n - p + 3) / 4;
}
// Where the record of group g stands among those of its panel of `groups`.
[[gnu::always_inline]] constexpr int packed_position(int g, int groups) {
  const int slab = g / kPackedSlab * kPackedSlab, p = g % 4;
  const int n = groups - slab < kPackedSlab ? groups - slab : kPackedSlab;
  const int before = n / 4 * p + (p < n % 4 ? p : n % 4);
  return slab + before + (g - slab) / 4;
}

// Sixteen rows of the file, one after the other, to a panel; `type` and k have a packed layout.
void pack_panel(DType type, std::uint64_t k, const std::byte* rows, std::byte* panel);
// Row r of a panel as the file has it.
void unpack_row(DType type, std::uint64_t k, const std::byte* panel, int r, std::byte* row);

}  // namespace orrery
