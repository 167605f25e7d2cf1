// What this processor and its system let a program use.
#pragma once

#include <string>

namespace orrery::kernels {

struct CpuInfo {
  // Sets of extensions that the kernels are compiled for; each counts what the system must save.
  bool avx2 = false;         // AVX2, FMA, F16C, BMI2
  bool avx512 = false;       // F, BW, DQ, VL, VNNI
  bool avx512_bf16 = false;  // avx512 and BF16
  bool fast_bf16 = false;    // VDPBF16PS does more than FMA: AMD's at twice its rate, Intel's less
  bool amx = false;          // avx512_bf16 and AMX TILE, INT8, BF16, with the system's permission
  bool dotprod = false;      // Arm: ASIMD dot product and half floats
  std::string features;      // "avx2 fma ...", as the processor reports them
};

// Asked once; the first call also requests the permission for AMX tile data.
const CpuInfo& cpu_info();

}  // namespace orrery::kernels
