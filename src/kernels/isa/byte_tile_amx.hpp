// Int8 tiles of Intel AMX for class i8: tmm0 is C, tmm1 A (activations), tmm2 B (weights). One C is
// enough: the processor renames tiles.
//
// Sums start at kMagic: read as floats they are 12582912 more than the sum, exactly up to 2^22.
// While tiles work, one port alone converts and multiplies, but two subtract.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/isa/tile_config_amx.hpp"

namespace orrery::kernels {
namespace {

// Tiles of kRows activation rows and the 32 codes of a group along k.
template <int kRows>
struct ByteTile {
  static constexpr std::int32_t kMagic = 0x4B400000;
  static constexpr float kMagicFloat = 0x1.8p23F;
  struct Sums {
    alignas(64) std::int32_t of[kRows][16];  // [activation row][weight row]
  };

  // C = A B; a: kRows rows of 32 int8, `stride` bytes apart; b: [8][16][4].
  template <bool kUnsigned>
  [[gnu::always_inline]] static void multiply(const std::uint8_t* a, std::size_t stride,
                                              const std::uint8_t* b) {
    asm volatile("tileloadd (%0,%1,1), %%tmm0" ::"r"(kStart), "r"(0L), "m"(kStart));
    // More than is read; a clobber of all memory would have everything loaded again and again.
    asm volatile("tileloadd (%0,%1,1), %%tmm1" ::"r"(a), "r"(stride),
                 "m"(*reinterpret_cast<const std::uint8_t(*)[1 << 24]>(a)));
    asm volatile("tileloadd (%0,%1,1), %%tmm2" ::"r"(b), "r"(64L),
                 "m"(*reinterpret_cast<const std::uint8_t(*)[512]>(b)));
    if constexpr (kUnsigned) {
      asm volatile("tdpbsud %tmm2, %tmm1, %tmm0");
    } else {
      asm volatile("tdpbssd %tmm2, %tmm1, %tmm0");
    }
  }
  [[gnu::always_inline]] static void store(Sums& to) {
    asm volatile("tilestored %%tmm0, (%1,%2,1)" : "=m"(to) : "r"(&to), "r"(64L));
  }

  static void begin() {
    TileConfig config;
    config.set(0, kRows, 64);
    config.set(1, kRows, 32);
    config.set(2, 8, 64);
    config.load();
  }

 private:
  alignas(64) static constexpr std::int32_t kStart[16] = {
      kMagic, kMagic, kMagic, kMagic, kMagic, kMagic, kMagic, kMagic,
      kMagic, kMagic, kMagic, kMagic, kMagic, kMagic, kMagic, kMagic};
};

}  // namespace
}  // namespace orrery::kernels
