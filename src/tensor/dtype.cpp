#include "tensor/dtype.hpp"

#include "base/check.hpp"

namespace orrery {
namespace {

struct Entry {
  DType type;
  DTypeInfo info;
};

constexpr Entry kTypes[] = {
    {DType::f32, {"F32", 1, 4, false, 1}},         {DType::f16, {"F16", 1, 2, false, 1}},
    {DType::q4_0, {"Q4_0", 32, 18, true, 32}},     {DType::q4_1, {"Q4_1", 32, 20, true, 32}},
    {DType::q5_0, {"Q5_0", 32, 22, true, 32}},     {DType::q5_1, {"Q5_1", 32, 24, true, 32}},
    {DType::q8_0, {"Q8_0", 32, 34, true, 32}},     {DType::q2_k, {"Q2_K", 256, 84, true, 16}},
    {DType::q3_k, {"Q3_K", 256, 110, true, 16}},   {DType::q4_k, {"Q4_K", 256, 144, true, 32}},
    {DType::q5_k, {"Q5_K", 256, 176, true, 32}},   {DType::q6_k, {"Q6_K", 256, 210, true, 16}},
    {DType::iq4_nl, {"IQ4_NL", 32, 18, true, 32}}, {DType::iq4_xs, {"IQ4_XS", 256, 136, true, 32}},
    {DType::i8, {"I8", 1, 1, false, 1}},           {DType::i16, {"I16", 1, 2, false, 1}},
    {DType::i32, {"I32", 1, 4, false, 1}},         {DType::i64, {"I64", 1, 8, false, 1}},
    {DType::f64, {"F64", 1, 8, false, 1}},         {DType::bf16, {"BF16", 1, 2, false, 1}},
    {DType::mxfp4, {"MXFP4", 32, 17, true, 32}},   {DType::nvfp4, {"NVFP4", 64, 36, true, 16}},
};

const Entry* find(std::uint32_t id) {
  for (const Entry& entry : kTypes) {
    if (static_cast<std::uint32_t>(entry.type) == id) return &entry;
  }
  return nullptr;
}

}  // namespace

const DTypeInfo& dtype_info(DType type) {
  const Entry* entry = find(static_cast<std::uint32_t>(type));
  ORRERY_CHECK(entry != nullptr);
  return entry->info;
}

std::optional<DType> dtype_from_id(std::uint32_t id) {
  const Entry* entry = find(id);
  if (entry == nullptr) return std::nullopt;
  return entry->type;
}

std::uint64_t row_bytes(DType type, std::uint64_t n) {
  const DTypeInfo& info = dtype_info(type);
  ORRERY_CHECK(n % info.block_len == 0);
  return n / info.block_len * info.block_bytes;
}

}  // namespace orrery
