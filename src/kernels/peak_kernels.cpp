#include "kernels/peak_kernels.hpp"

#include <string_view>

#include "kernels/dispatch.hpp"

namespace orrery::kernels {

extern "C" {
extern const PeakKernels orrery_peaks_emu;
extern const PeakKernels orrery_peaks_avx2;
extern const PeakKernels orrery_peaks_avx512;
extern const PeakKernels orrery_peaks_avx512_bf16;
extern const PeakKernels orrery_peaks_amx;
extern const PeakKernels orrery_peaks_neon;
}

const PeakKernels& peak_kernels(const KernelSet& set) {
  [[maybe_unused]] const std::string_view blocks = set.blocks->isa;
#if defined(ORRERY_HAS_unit_peaks_amx)
  if (blocks == "amx") return orrery_peaks_amx;
#endif
#if defined(ORRERY_HAS_unit_peaks_avx512_bf16)
  if (blocks == "avx512_bf16") return orrery_peaks_avx512_bf16;
#endif
#if defined(ORRERY_HAS_unit_peaks_avx512)
  if (blocks == "avx512") return orrery_peaks_avx512;
#endif
#if defined(ORRERY_HAS_unit_peaks_avx2)
  if (blocks == "avx2") return orrery_peaks_avx2;
#endif
#if defined(ORRERY_HAS_unit_peaks_neon)
  if (std::string_view(set.rows->isa).starts_with("neon")) return orrery_peaks_neon;
#endif
  return orrery_peaks_emu;
}

}  // namespace orrery::kernels
