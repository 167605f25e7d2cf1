#include "kernels/dispatch.hpp"

#include "kernels/asm_rows.hpp"
#include "kernels/cpu_info.hpp"
#include "kernels/tables.hpp"

namespace orrery::kernels {
namespace {

// A machine has one assembly table, made from its widest row kernels.
[[maybe_unused]] const RowKernels& assembly_rows(const RowKernels& base) {
  static const RowKernels table = with_assembly(base);
  return table;
}

#ifdef ORRERY_HAS_unit_rows_tiles_amx
const RowKernels& amx_rows() {
  static const RowKernels table = [] {
    RowKernels rows = orrery_rows_avx512;
    rows.isa = "amx";
    rows.panels = &orrery_panels_amx;
    rows.packed = &orrery_packed_amx;
    return rows;
  }();
  return table;
}
#endif

}  // namespace

std::vector<KernelSet> available_kernels() {
  [[maybe_unused]] const CpuInfo& cpu = cpu_info();
  std::vector<KernelSet> sets;
  [[maybe_unused]] const auto add = [&](bool usable, const char* name, const RowKernels& rows,
                                        const BlockKernels& blocks) {
    if (usable) sets.push_back({name, &rows, &blocks});
  };
#if defined(ORRERY_HAS_unit_rows_tiles_amx) && defined(ORRERY_HAS_unit_blocks_amx)
  add(cpu.amx, "amx", amx_rows(), orrery_blocks_amx);
#endif
#if defined(ORRERY_HAS_unit_rows_avx512) && defined(ORRERY_HAS_unit_blocks_avx512_bf16)
  add(cpu.fast_bf16, "avx512_bf16", orrery_rows_avx512, orrery_blocks_avx512_bf16);
#endif
#if defined(ORRERY_HAS_unit_rows_avx512) && defined(ORRERY_HAS_unit_blocks_avx512)
  add(cpu.avx512, "avx512", orrery_rows_avx512, orrery_blocks_avx512);
#endif
#if defined(ORRERY_HAS_unit_rows_avx512) && defined(ORRERY_HAS_unit_blocks_avx512_bf16)
  add(cpu.avx512_bf16 && !cpu.fast_bf16, "avx512_bf16", orrery_rows_avx512,
      orrery_blocks_avx512_bf16);
#endif
#if defined(ORRERY_HAS_unit_rows_avx512) && defined(ORRERY_HAS_unit_blocks_avx512)
  add(cpu.avx512, "avx512_asm", assembly_rows(orrery_rows_avx512), orrery_blocks_avx512);
#endif
#if defined(ORRERY_HAS_unit_rows_avx2) && defined(ORRERY_HAS_unit_blocks_avx2)
  add(cpu.avx2, "avx2", orrery_rows_avx2, orrery_blocks_avx2);
#endif
#if defined(ORRERY_HAS_unit_rows_neon) && defined(ORRERY_HAS_unit_blocks_emu_dot)
  add(cpu.dotprod, "neon", orrery_rows_neon, orrery_blocks_emu_dot);
  add(cpu.dotprod, "neon_asm", assembly_rows(orrery_rows_neon), orrery_blocks_emu_dot);
#endif
#if defined(ORRERY_HAS_unit_blocks_emu_dot)
  add(true, "emu", orrery_rows_emu, orrery_blocks_emu_dot);
#endif
#if defined(ORRERY_HAS_unit_blocks_emu_outer)
  add(true, "emu_outer", orrery_rows_emu, orrery_blocks_emu_outer);
#endif
  return sets;
}

std::vector<const RowKernels*> available_row_kernels() {
  const CpuInfo& cpu = cpu_info();
  std::vector<const RowKernels*> tables;
  const auto add = [&](bool usable, const RowKernels& table) {
    if (usable) tables.push_back(&table);
  };
#ifdef ORRERY_HAS_unit_rows_tiles_amx
  add(cpu.amx, amx_rows());
#endif
#if defined(ORRERY_HAS_unit_rows_avx512)
  add(cpu.avx512, orrery_rows_avx512);
  add(cpu.avx512, assembly_rows(orrery_rows_avx512));
#endif
#if defined(ORRERY_HAS_unit_rows_avx2)
  add(cpu.avx2, orrery_rows_avx2);
#endif
#if defined(ORRERY_HAS_unit_rows_neon)
  add(cpu.dotprod, orrery_rows_neon);
  add(cpu.dotprod, assembly_rows(orrery_rows_neon));
#endif
  add(true, orrery_rows_emu);
  return tables;
}

Result<KernelSet> choose_kernels(std::string_view forced) {
  std::string names;
  for (KernelSet& set : available_kernels()) {
    if (forced.empty() || set.name == forced) return std::move(set);
    names += names.empty() ? "" : ", ";
    names += set.name;
  }
  return fail("E_ISA", "the kernels '" + std::string(forced) +
                           "' are not available on this machine; there are: " + names);
}

std::string ranking_rule() {
  if (!cpu_info().avx512_bf16) return "";
  return cpu_info().fast_bf16 ? "by vendor, VDPBF16PS does more than FMA"
                              : "by vendor, VDPBF16PS does less than FMA";
}

std::string cpu_features() {
  return cpu_info().features;
}

}  // namespace orrery::kernels
