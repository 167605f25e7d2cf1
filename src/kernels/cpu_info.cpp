#include "kernels/cpu_info.hpp"

#include <cstdint>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace orrery::kernels {
namespace {

#if defined(__x86_64__)

struct Registers {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(std::uint32_t leaf, std::uint32_t subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);  // zeros past the last leaf
  return r;
}

// XCR0: which register states the system saves. Only valid when OSXSAVE is set.
std::uint64_t saved_states() {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

// Linux gives tile data only to processes that ask (arch_prctl ARCH_REQ_XCOMP_PERM, state 18).
bool amx_permitted() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool vendor_is_amd() {
  const Registers name = cpuid(0, 0);
  return name.ebx == 0x68747541U && name.edx == 0x69746E65U && name.ecx == 0x444D4163U;
}

struct Feature {
  std::string_view name;
  bool present;
};

CpuInfo detect() {
  const Registers l1 = cpuid(1, 0), l7 = cpuid(7, 0), l7_1 = cpuid(7, 1);
  const auto bit = [](std::uint32_t word, int n) { return ((word >> n) & 1U) != 0; };
  const std::uint64_t states = bit(l1.ecx, 27) ? saved_states() : 0;
  const bool ymm = (states & 0x6U) == 0x6U, zmm = (states & 0xE6U) == 0xE6U;
  const bool tiles = (states & 0x60000U) == 0x60000U;
  const Feature features[] = {
      {"fma", ymm && bit(l1.ecx, 12)},         {"f16c", ymm && bit(l1.ecx, 29)},
      {"avx2", ymm && bit(l7.ebx, 5)},         {"bmi2", bit(l7.ebx, 8)},
      {"avx512f", zmm && bit(l7.ebx, 16)},     {"avx512dq", zmm && bit(l7.ebx, 17)},
      {"avx512bw", zmm && bit(l7.ebx, 30)},    {"avx512vl", zmm && bit(l7.ebx, 31)},
      {"avx512_vnni", zmm && bit(l7.ecx, 11)}, {"avx512_bf16", zmm && bit(l7_1.eax, 5)},
      {"amx_bf16", tiles && bit(l7.edx, 22)},  {"amx_tile", tiles && bit(l7.edx, 24)},
      {"amx_int8", tiles && bit(l7.edx, 25)}};
  CpuInfo info;
  for (const Feature& feature : features) {
    if (!feature.present) continue;
    if (!info.features.empty()) info.features += ' ';
    info.features += feature.name;
  }
  const auto all = [&](std::size_t first, std::size_t last) {
    bool present = true;
    for (std::size_t i = first; i <= last; ++i) present = present && features[i].present;
    return present;
  };
  info.avx2 = all(0, 3);
  info.avx512 = info.avx2 && all(4, 8);
  info.avx512_bf16 = info.avx512 && all(9, 9);
  info.fast_bf16 = info.avx512_bf16 && vendor_is_amd();
  info.amx = info.avx512_bf16 && all(10, 12) && amx_permitted();
  return info;
}

#elif defined(__aarch64__) && defined(__linux__)

CpuInfo detect() {
  const unsigned long caps = getauxval(AT_HWCAP);
  const bool half = (caps >> 10 & 1U) != 0, dotprod = (caps >> 20 & 1U) != 0;
  CpuInfo info;
  info.features = "neon";
  if (half) info.features += " fp16";
  if (dotprod) info.features += " dotprod";
  info.dotprod = half && dotprod;
  return info;
}

#else

CpuInfo detect() {
  return {};
}

#endif

}  // namespace

const CpuInfo& cpu_info() {
  static const CpuInfo info = detect();
  return info;
}

}  // namespace orrery::kernels
