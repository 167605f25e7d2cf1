// Which kernels run: chosen once at start by cpuid/hwcap, or forced by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "kernels/block_kernels.hpp"
#include "kernels/row_kernels.hpp"

namespace orrery::kernels {

struct KernelSet {
  std::string name;  // "amx", "avx512_bf16", "avx512", "avx512_asm", "avx2", "emu", ...
  const RowKernels* rows;
  const BlockKernels* blocks;
};

// Sets that were compiled in and that this machine can run, best first.
std::vector<KernelSet> available_kernels();
// The row kernels among them, each once, best first.
std::vector<const RowKernels*> available_row_kernels();
// "" takes the best; a name takes that set. E_ISA names what is available here.
Result<KernelSet> choose_kernels(std::string_view forced);
// What the CPU reports, for `inspect device`: "avx2 avx512f avx512_vnni ...".
std::string cpu_features();
// Why the sets are ranked so, where it is not plain: "by vendor, VDPBF16PS does more than FMA".
std::string ranking_rule();

}  // namespace orrery::kernels
