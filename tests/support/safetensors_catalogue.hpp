// Every known way to break a safetensors file, numbered as in the catalogue of bad inputs, and the
// few odd files that are allowed.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "support/gguf_builder.hpp"
#include "support/hostile_file.hpp"

namespace orrery::test::safetensors_catalogue {

inline std::string file(std::string_view json, std::size_t data_bytes = 8) {
  return ByteWriter()
      .number(static_cast<std::uint64_t>(json.size()))
      .raw(json)
      .raw(std::string(data_bytes, 'x'))
      .bytes();
}

inline std::string length_only(std::uint64_t n, std::string_view rest = "{}") {
  return ByteWriter().number(n).raw(rest).bytes();
}

// One tensor "a": its fields as given.
inline std::string tensor(std::string_view dtype, std::string_view shape,
                          std::string_view offsets) {
  return fmt::format(R"({{"a":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape,
                     offsets);
}

inline std::string two(std::string_view first, std::string_view second,
                       std::string_view name = "b") {
  return fmt::format(R"({{"a":{{"dtype":"I8","shape":[8],"data_offsets":{}}},)"
                     R"("{}":{{"dtype":"I8","shape":[8],"data_offsets":{}}}}})",
                     first, name, second);
}

inline std::string named(std::string_view name) {
  return fmt::format(R"({{"{}":{{"dtype":"I8","shape":[8],"data_offsets":[0,8]}}}})", name);
}

inline std::string empty_tensors(int n) {
  std::string json = "{";
  for (int i = 0; i < n; ++i) {
    json += fmt::format(R"({}"t{}":{{"dtype":"I8","shape":[0],"data_offsets":[0,0]}})",
                        i == 0 ? "" : ",", i);
  }
  return json + "}";
}

inline const std::string kGood = named("a");

inline const HostileFile kRows[] = {
    {"S01", "E_TRUNC", [] { return std::string(7, '\0'); }},
    {"S02", "E_HEADER", [] { return length_only(0); }},
    {"S03", "E_HEADERLEN", [] { return length_only(~std::uint64_t{0}); }},
    {"S04", "E_HEADERLEN", [] { return length_only(100'000'001); }},
    {"S05", "E_TRUNC", [] { return length_only(1000); }},
    {"S06", "E_HEADER", [] { return file("[]"); }},
    {"S07", "E_JSON", [] { return file(named("a\xff")); }},
    {"S08", "E_JSON", [] { return file(kGood.substr(0, kGood.size() - 3)); }},
    {"S09", "E_DUPTENSOR", [] { return file(two("[0,8]", "[8,16]", "a"), 16); }},
    {"S10", "E_DUPKEY",
     [] { return file(R"({"a":{"dtype":"I8","dtype":"I8","shape":[8],"data_offsets":[0,8]}})"); }},
    {"S11", "E_OVERLAP", [] { return file(two("[0,8]", "[4,12]"), 12); }},
    {"S12", "E_GAP", [] { return file(two("[0,8]", "[16,24]"), 24); }},
    {"S13", "E_OFFRANGE", [] { return file(tensor(R"("I8")", "[8]", "[8,0]")); }},
    {"S14", "E_OFFRANGE", [] { return file(tensor(R"("I8")", "[9]", "[0,9]")); }},
    {"S15", "E_GAP", [] { return file(kGood, 9); }},
    {"S16", "E_SIZE", [] { return file(tensor(R"("I8")", "[7]", "[0,8]")); }},
    {"S17", "E_DIMOVF", [] { return file(tensor(R"("I8")", "[4294967296,4294967296]", "[0,8]")); }},
    {"S18", "E_HEADER", [] { return file(tensor(R"("I8")", "[-8]", "[0,8]")); }},
    {"S19", "E_HEADER", [] { return file(tensor(R"("I8")", "[8.0]", "[0,8]")); }},
    {"S20", "E_HEADER", [] { return file(tensor(R"("I8")", "[18446744073709551616]", "[0,8]")); }},
    {"S20max", "E_DIM", [] { return file(tensor(R"("I8")", "[18446744073709551615]", "[0,8]")); }},
    {"S21", "E_DTYPE", [] { return file(tensor(R"("F33")", "[8]", "[0,8]")); }},
    {"S21f8", "E_DTYPE", [] { return file(tensor(R"("F8_E4M3")", "[8]", "[0,8]")); }},
    {"S22", "E_HEADER", [] { return file(tensor("8", "[8]", "[0,8]")); }},
    {"S23", "E_HEADER", [] { return file(tensor(R"("I8")", "[8]", "[0,8,8]")); }},
    {"S24", "E_HEADER", [] { return file(R"({"a":{"dtype":"I8","shape":[8]}})"); }},
    {"S24empty", "E_HEADER", [] { return file(tensor(R"("I8")", "[8]", "[]")); }},
    {"S25", "E_OFFRANGE",
     [] { return file(tensor(R"("I8")", "[8]", "[18446744073709551608,18446744073709551615]")); }},
    {"S26", "E_HEADER", [] { return file(R"({"__metadata__":{"a":{"b":"c"}}})", 0); }},
    {"S26number", "E_HEADER", [] { return file(R"({"__metadata__":{"a":1}})", 0); }},
    {"S27", "E_HEADER", [] { return file(R"({"a":)" + std::string(200'000, '[')); }},
    {"S27field", "E_JSON", [] { return file(R"({"a":{"x":)" + std::string(200'000, '[')); }},
    {"S28", "",
     [] {
       return file(R"({"a":{"dtype":"I8","x":{"y":[1,{}]},"shape":[8],"data_offsets":[0,8]}})");
     }},
    {"S29", "", [] { return file(kGood + "    "); }},
    {"S30", "E_HEADER", [] { return file(" " + kGood); }},
    {"S31", "E_JSON", [] { return file(kGood + "x"); }},
    {"S32", "E_NTENSORS", [] { return file(empty_tensors(100'000), 0); }},
    {"S33", "", [] { return file(named("../../etc/x")); }},
    {"S34", "", [] { return file(named("a\\u0000b")); }},
    {"S35", "E_HEADER", [] { return file(tensor(R"("I8")", "[true]", "[0,8]")); }},
    {"Scalar", "", [] { return file(tensor(R"("F64")", "[]", "[0,8]")); }},
    {"FiveDims", "E_NDIMS", [] { return file(tensor(R"("I8")", "[1,1,1,1,8]", "[0,8]")); }},
    {"EmptyName", "E_TNAME", [] { return file(named("")); }},
    {"EntryIsNumber", "E_HEADER", [] { return file(R"({"a":1})"); }},
    {"ShapeIsObject", "E_HEADER", [] { return file(tensor(R"("I8")", "{}", "[0,8]")); }},
    {"NestedShape", "E_HEADER", [] { return file(tensor(R"("I8")", "[[8]]", "[0,8]")); }},
    {"TwoMetadata", "E_DUPKEY", [] { return file(R"({"__metadata__":{},"__metadata__":{}})", 0); }},
    {"NoTensors", "", [] { return file("{}", 0); }},
};

}  // namespace orrery::test::safetensors_catalogue
