// Every known way to break a GGUF container, numbered as in the catalogue of bad inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "support/gguf_builder.hpp"
#include "support/hostile_file.hpp"

namespace orrery::test::gguf_catalogue {

inline constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::uint32_t kF32 = 0;
inline constexpr std::uint32_t kI8 = 24;
inline constexpr std::uint64_t kTwo61 = std::uint64_t{1} << 61;

// "GGUF" | version | n_tensors | n_kv, then anything.
inline std::string header(std::uint32_t version, std::uint64_t n_tensors, std::uint64_t n_kv,
                          std::string_view rest = {}) {
  return ByteWriter().raw("GGUF").number(version).number(n_tensors).number(n_kv).raw(rest).bytes();
}

inline std::string one_kv(const ByteWriter& pair) {
  return header(3, 0, 1, pair.bytes());
}

inline std::string key_text(std::string_view key) {
  return one_kv(ByteWriter().text(key).number(4U).number(1U));
}

inline std::string array_of(std::uint32_t type, std::uint64_t count, std::string_view rest = "") {
  return one_kv(ByteWriter().text("k").number(9U).number(type).number(count).raw(rest));
}

// One tensor of the given shape and type, with 256 bytes of data behind it.
inline std::string one_tensor(const std::vector<std::uint64_t>& dims, std::uint32_t type = kF32,
                              std::uint64_t offset = 0, std::string_view name = "a") {
  return GgufBuilder().raw_tensor(name, dims, type, offset).raw_data(std::string(256, 'x')).build();
}

inline std::string n_dims_field(std::uint32_t n) {
  std::string dims;
  for (std::uint32_t i = 0; i < std::min(n, 8U); ++i) dims += ByteWriter().number(kTwo61).bytes();
  return header(3, 1, 0, ByteWriter().text("a").number(n).raw(dims).number(kF32).bytes());
}

// Two F32 tensors of 8 elements (32 bytes), the second at `offset`.
inline std::string two_tensors(std::uint64_t offset, std::string_view second = "b") {
  return GgufBuilder()
      .raw_tensor("a", {8}, kF32, 0)
      .raw_tensor(second, {8}, kF32, offset)
      .raw_data(std::string(1024, 'x'))
      .build();
}

template <class T>
inline std::string alignment_kv(T value) {
  return GgufBuilder().add_kv("general.alignment", value).build();
}

inline std::string nested_arrays(int levels) {
  ByteWriter writer;
  writer.text("k").number(9U);
  for (int i = 0; i < levels; ++i) writer.number(9U).number(std::uint64_t{1});
  return one_kv(writer);
}

inline std::string big_endian() {
  return std::string("GGUF\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
}

inline std::string short_by(std::string file, std::size_t n) {
  file.resize(file.size() - n);
  return file;
}

inline std::string string_kv(std::uint64_t length) {
  return one_kv(ByteWriter().text("k").number(8U).number(length).raw("abc"));
}

inline const std::string kPad32(32, 'p');
inline const std::string kPad64(64, 'p');

inline const HostileFile kRows[] = {
    {"G01", "E_TRUNC", [] { return std::string(); }},
    {"G02", "E_TRUNC", [] { return std::string("GGUF"); }},
    {"G03", "E_MAGIC", [] { return "FUGG" + header(3, 0, 0).substr(4); }},
    {"G04", "E_MAGIC", [] { return "gguf" + header(3, 0, 0).substr(4); }},
    {"G05", "E_VERSION", [] { return header(0, 0, 0); }},
    {"G06", "E_VERSION", [] { return header(1, 0, 0); }},
    {"G07", "E_VERSION", [] { return header(4, 0, 0); }},
    {"G08", "E_ENDIAN", big_endian},
    {"G09", "E_NTENSORS", [] { return header(3, kMax, 0, kPad64); }},
    {"G10", "E_NTENSORS", [] { return header(3, std::uint64_t{1} << 40, 0, kPad64); }},
    {"G11", "E_NKV", [] { return header(3, 0, kMax, kPad64); }},
    {"G12", "E_NKV", [] { return header(3, 0, 0x02E8BA2E8BA2E8BB, kPad64); }},
    {"G13", "E_TRUNC", [] { return header(3, 0, 0).substr(0, 23); }},
    {"G14", "E_STRLEN", [] { return header(3, 0, 1, ByteWriter().number(kMax).bytes()); }},
    {"G15", "E_STRLEN", [] { return header(3, 0, 1, ByteWriter().number(kMax - 1).bytes()); }},
    {"G16", "E_TRUNC",
     [] { return header(3, 0, 1, ByteWriter().number(std::uint64_t{1000}).bytes() + kPad32); }},
    {"G17", "E_KEY", [] { return key_text(""); }},
    {"G18", "E_KEY", [] { return key_text(std::string_view("a\0b", 3)); }},
    {"G19", "E_KEY", [] { return key_text("a\xff\xfe"); }},
    {"G20", "E_DUPKEY", [] { return GgufBuilder().add_kv("k", 1U).add_kv("k", 2U).build(); }},
    {"G21", "E_KVTYPE", [] { return one_kv(ByteWriter().text("k").number(13U).raw(kPad32)); }},
    {"G22", "E_KVTYPE", [] { return one_kv(ByteWriter().text("k").number(~0U).raw(kPad32)); }},
    {"G23", "E_STRLEN", [] { return string_kv(kMax); }},
    {"G24", "E_STRLEN", [] { return string_kv(std::uint64_t{1} << 31); }},
    {"G25", "E_NESTED", [] { return nested_arrays(1); }},
    {"G26", "E_NESTED", [] { return nested_arrays(20'000); }},
    {"G27", "E_ARRLEN", [] { return array_of(10, kTwo61 + 1, "12345678"); }},
    {"G28", "E_ARRLEN", [] { return array_of(0, kMax); }},
    {"G29", "E_ARRLEN", [] { return array_of(8, std::uint64_t{1} << 30, kPad64); }},
    {"G30", "E_KVTYPE", [] { return array_of(13, 1, kPad64); }},
    {"G31", "E_BOOL", [] { return GgufBuilder().raw_kv("k", 7, "\2").build(); }},
    {"G31array", "E_BOOL", [] { return array_of(7, 3, std::string_view("\1\0\2", 3)); }},
    {"G32", "E_ALIGN", [] { return alignment_kv(0U); }},
    {"G33", "E_ALIGN", [] { return alignment_kv(3U); }},
    {"G34", "E_ALIGN", [] { return alignment_kv(13U); }},
    {"G35", "E_ALIGN", [] { return alignment_kv(1U << 31); }},
    {"G36", "E_ALIGN", [] { return alignment_kv(~0U); }},
    {"G37", "E_ALIGNTYPE", [] { return alignment_kv(32); }},
    {"G38", "E_ALIGNTYPE", [] { return alignment_kv("32"); }},
    {"G39", "E_ALIGNTYPE", [] { return alignment_kv(std::vector<std::uint32_t>{32}); }},
    {"G40", "E_TNAME", [] { return one_tensor({8}, kF32, 0, std::string(64, 'n')); }},
    {"G41", "E_TNAME", [] { return one_tensor({8}, kF32, 0, ""); }},
    {"G42", "E_STRLEN",
     [] { return header(3, 1, 0, ByteWriter().number(kMax).raw(kPad64).bytes()); }},
    {"G43", "E_DUPTENSOR", [] { return two_tensors(32, "a"); }},
    {"G44", "E_NDIMS", [] { return n_dims_field(0); }},
    {"G45", "E_NDIMS", [] { return n_dims_field(5); }},
    {"G46", "E_NDIMS", [] { return n_dims_field(~0U); }},
    {"G47", "E_ZERODIM", [] { return one_tensor({0, 4}); }},
    {"G48", "E_DIM", [] { return one_tensor({kMax}); }},
    {"G49", "E_DIM", [] { return one_tensor({std::uint64_t{1} << 63}); }},
    {"G50", "E_DIMOVF",
     [] { return one_tensor({std::uint64_t{1} << 32, std::uint64_t{1} << 32}); }},
    {"G51", "E_DIMOVF",
     [] { return one_tensor({(std::uint64_t{1} << 32) + 1, (std::uint64_t{1} << 32) - 1, 2}); }},
    {"G52", "E_SIZEOVF", [] { return one_tensor({kTwo61}); }},
    {"G53", "E_OFFRANGE",
     [] {
       return GgufBuilder()
           .raw_tensor("a", {0x7FFFFFFFFFFFFFC0}, kI8, 0)
           .raw_tensor("b", {0x7FFFFFFFFFFFFFC0}, kI8, 0x7FFFFFFFFFFFFFC0)
           .raw_data(kPad64)
           .build();
     }},
    {"G54", "E_TTYPE", [] { return one_tensor({32}, 4); }},
    {"G55", "E_TTYPE", [] { return one_tensor({32}, 5); }},
    {"G56", "E_TTYPE", [] { return one_tensor({32}, 1000); }},
    {"G57", "E_TTYPE", [] { return one_tensor({32}, ~0U); }},
    {"G58", "E_TTYPE", [] { return one_tensor({32}, 0x80000000U); }},
    {"G59", "E_BLOCK", [] { return one_tensor({31}, 2); }},
    {"G60", "E_BLOCK", [] { return one_tensor({128}, 14); }},
    {"G61", "E_OFFALIGN", [] { return one_tensor({8}, kF32, 1); }},
    {"G62", "E_OFFRANGE", [] { return one_tensor({8}, kF32, 1 << 20); }},
    {"G63", "E_OFFRANGE", [] { return one_tensor({8}, kF32, kMax - 31); }},
    {"G64", "E_OFFRANGE", [] { return one_tensor({65}); }},
    {"G65", "E_OFFRANGE", [] { return short_by(one_tensor({64}), 1); }},
    {"G66", "E_OVERLAP",
     [] {
       return GgufBuilder()
           .raw_tensor("a", {16}, kF32, 0)
           .raw_tensor("b", {8}, kF32, 32)
           .raw_data(kPad64)
           .build();
     }},
    {"G67", "E_OVERLAP", [] { return two_tensors(0); }},
    {"G68", "E_GAP", [] { return two_tensors(32 + 256); }},
    {"G69", "E_TRUNC", [] { return short_by(GgufBuilder().raw_tensor("a", {8}, 0, 0).head(), 4); }},
    {"G70", "E_DATASTART", [] { return GgufBuilder().raw_tensor("a", {8}, 0, 0).head(); }},
    {"U64AboveI64", "E_KVRANGE",
     [] { return GgufBuilder().add_kv("k", std::vector<std::uint64_t>{1, kMax}).build(); }},
    {"TruncatedArray", "E_TRUNC", [] { return array_of(4, 100, kPad64); }},
    {"TruncatedStrings", "E_TRUNC", [] { return array_of(8, 100, kPad64); }},
    {"TensorNameNul", "E_TNAME",
     [] { return one_tensor({8}, kF32, 0, std::string_view("a\0b", 3)); }},
};

}  // namespace orrery::test::gguf_catalogue
