// Tile vocabulary, dot type, Intel AMX: tmm0-3 are C, tmm4-5 A, tmm6-7 B. Written as instructions,
// so that tile numbers can be template arguments (GCC 12's intrinsics take literals only).
#pragma once

#include <cstdint>

#include "kernels/isa/tile_config_amx.hpp"

namespace orrery::kernels {
namespace {

struct Tile {
  static constexpr int kDepth = 32;  // k of one A tile

  template <int C>
  void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(C));
  }
  // C tiles: 16 rows of 16 floats, `stride` floats apart.
  template <int C>
  void load(const float* p, int stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(bytes(stride)), "i"(C) : "memory");
  }
  template <int C>
  void store(float* p, int stride) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(bytes(stride)), "i"(C) : "memory");
  }
  // [16 rows][32 k] bf16, 1 KiB. kStream: read once, need not evict others from L1.
  template <int A, bool kStream>
  void load_a(const void* p) {
    read<4 + A, kStream>(p);
  }
  // [16 pairs][16 tokens][2] bf16, 1 KiB.
  template <int B, bool kStream>
  void load_b(const void* p) {
    read<6 + B, kStream>(p);
  }
  template <int C, int A, int B>
  void mac() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(4 + A), "i"(6 + B));
  }

  // All eight tiles are 16 rows of 64 bytes.
  static void begin() {
    TileConfig config;
    for (int i = 0; i < 8; ++i) config.set(i, 16, 64);
    config.load();
  }
  static void end() { asm volatile("tilerelease"); }

  template <int I, bool kStream>
  static void read(const void* p) {
    if constexpr (kStream) {
      asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(64L), "i"(I) : "memory");
    } else {
      asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(64L), "i"(I) : "memory");
    }
  }
  static long bytes(int floats) { return 4L * floats; }
};

}  // namespace
}  // namespace orrery::kernels
