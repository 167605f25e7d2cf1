// The shapes of Intel AMX's tiles, as LDTILECFG takes them.
#pragma once

#include <cstdint>

namespace orrery::kernels {
namespace {

struct TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, int n, int bytes) {
    rows[tile] = static_cast<std::uint8_t>(n);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
  // All zero, which is what current() gives without any, lets go of the tiles.
  void load() const { asm volatile("ldtilecfg %0" ::"m"(*this)); }
  static TileConfig current() {
    TileConfig config;
    asm volatile("sttilecfg %0" : "=m"(config));
    return config;
  }
};
static_assert(sizeof(TileConfig) == 64);

}  // namespace
}  // namespace orrery::kernels
