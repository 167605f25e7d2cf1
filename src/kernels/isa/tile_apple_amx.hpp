// Tile vocabulary, outer-product type, Apple AMX (M1 to M4): one word multiplies 16 rows by 16
// tokens of one k. Depth 2, as X blocks hold pairs: a pair of bf16 is expanded to f32 in memory
// (the only way to these registers; every generation has fma32, bf16 operands came with the M2),
// then the even and the odd k are one fma32 each. So the sum of an output is a chain of fma in the
// order of k. The instructions are not Apple's to promise: encodings and semantics are those of
// github.com/corsix/amx. Between begin() and end() a thread may not call what itself uses the unit.
#pragma once

#include <cstdint>

#include "kernels/body/block_numbers.hpp"

namespace orrery::kernels {
namespace {

// Y registers hold A (2 A: even k, 2 A + 1: odd k), X registers B. Row i of C tile c is register
// 4 i + c of Z: four accumulators, one for each tile of the 2 x 2 block.
struct Tile {
  static constexpr int kDepth = 2;  // k of one A operand

  template <int C>
  void zero() {
    word<kFma32>(kNoZ | kNoY | kNoX | std::uint64_t{C} << 20);
  }
  // C tiles: 16 rows of 16 floats, `stride` floats apart.
  template <int C>
  void load(const float* p, int stride) {
    for (int i = 0; i < 16; ++i) word<kLoadZ>(memory(p + i * stride, 4 * i + C));
  }
  template <int C>
  void store(float* p, int stride) const {
    for (int i = 0; i < 16; ++i) word<kStoreZ>(memory(p + i * stride, 4 * i + C));
  }
  // [16 rows][2 k] bf16, 64 bytes. kStream: read once, need not evict others from L1.
  template <int A, bool kStream>
  void load_a(const void* p) {
    split(p, a[A]);
    word<kLoadY>(memory(a[A], 2 * A) | kPair);
  }
  // [16 tokens][2 k] bf16, 64 bytes.
  template <int B, bool kStream>
  void load_b(const void* p) {
    split(p, b[B]);
    word<kLoadX>(memory(b[B], 2 * B) | kPair);
  }
  template <int C, int A, int B>
  void mac() {
    constexpr std::uint64_t even = C << 20 | (128 * B) << 10 | 128 * A;  // offsets in bytes
    word<kFma32>(even);
    word<kFma32>(even + (64U << 10) + 64U);
  }

  // Zeroes all registers; traps where the unit is on already. Apple's code has these three nops.
  static void begin() { asm volatile("nop\nnop\nnop\n.word %c0" ::"i"(kOn) : "memory"); }
  static void end() { asm volatile("nop\nnop\nnop\n.word %c0" ::"i"(kOff) : "memory"); }

  static void split(const void* p, float* out) {
    const std::uint16_t* source = static_cast<const std::uint16_t*>(p);
    for (int i = 0; i < 16; ++i) {
      out[i] = from_bf16(source[2 * i]);
      out[16 + i] = from_bf16(source[2 * i + 1]);
    }
  }

  // Numbers of operations.
  static constexpr std::uint32_t kLoadX = 0, kLoadY = 1, kLoadZ = 4, kStoreZ = 5, kFma32 = 12;
  // Operation 17 with the immediates 0 (on) and 1 (off).
  static constexpr std::uint32_t kOn = 0x00201000U | 17U << 5, kOff = kOn | 1U;

  static constexpr std::uint64_t kPair = std::uint64_t{1} << 62;  // 128 bytes, aligned so
  static constexpr std::uint64_t kNoZ = 1U << 27, kNoY = 1U << 28, kNoX = 1U << 29;

  static std::uint64_t memory(const float* p, int index) {
    return reinterpret_cast<std::uint64_t>(p) | static_cast<std::uint64_t>(index) << 56;
  }
  // The word names the register of its operand in the lowest five bits: x0.
  template <std::uint32_t kOperation>
  static void word(std::uint64_t operand) {
    constexpr std::uint32_t kWord = 0x00201000U | kOperation << 5;
    asm volatile("mov x0, %0\n.word %c1" ::"r"(operand), "i"(kWord) : "x0", "memory");
  }

  alignas(128) float a[2][32];
  alignas(128) float b[2][32];
};

}  // namespace
}  // namespace orrery::kernels
