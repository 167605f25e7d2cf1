// What a core does at best: loops that only read, and loops that only multiply. They are the roofs
// that `orrery bench` holds steps against.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orrery::kernels {

struct KernelSet;  // dispatch.hpp, which kernel units do not include

struct PeakKernels {
  const char* isa;
  // Reads all bytes, 64 at a time; the result depends on each. read_ahead() prefetches 2 KiB ahead.
  std::uint64_t (*read)(const void* data, std::size_t bytes);
  std::uint64_t (*read_ahead)(const void* data, std::size_t bytes);
  // Multiply-adds between registers, for so many rounds; returns the operations done, two for each
  // multiply-add. Null where the set has no such instruction.
  double (*multiply_f32)(int rounds);   // 16 lanes of f32, fused
  double (*multiply_i8)(int rounds);    // the dot product of class i8: bytes into int32
  double (*multiply_bf16)(int rounds);  // pairs of bf16 into f32
  double (*multiply_tile)(int rounds);  // bf16 tiles into f32 tiles
};

// The loops on the instructions that the kernels of the set use.
const PeakKernels& peak_kernels(const KernelSet& set);

}  // namespace orrery::kernels
