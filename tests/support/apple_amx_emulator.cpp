#include "support/apple_amx_emulator.hpp"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace orrery::test {
namespace {

constexpr std::uint32_t kWordMask = 0xFFFFFC00U, kWordBits = 0x00201000U;

enum Count { kSet, kClr, kLoadX, kLoadY, kLoadZ, kStoreZ, kProducts, kZeros, kCounts };
std::atomic<std::uint64_t> counts[kCounts];

struct Registers {
  bool on = false;
  std::uint8_t x[512], y[512];  // circular for what computes
  std::uint8_t z[64][64];
};
thread_local Registers registers;

// In a signal handler: no stdio.
[[noreturn]] void stop(const char* why, std::uint32_t word) {
  char text[128] = "Apple AMX emulator: ";
  std::strcat(text, why);
  std::strcat(text, ", word 0x");
  char* end = text + std::strlen(text);
  for (int shift = 28; shift >= 0; shift -= 4) *end++ = "0123456789abcdef"[word >> shift & 15U];
  *end++ = '\n';
  [[maybe_unused]] const auto written = write(2, text, static_cast<std::size_t>(end - text));
  std::abort();
}

bool bit(std::uint64_t operand, int n) {
  return (operand >> n & 1U) != 0;
}

// The operand of a load or store: a pointer, a register number from bit 56 on, bit 62 for a pair.
struct Memory {
  std::uint8_t* bytes;
  unsigned index, registers;
  Memory(std::uint64_t operand, unsigned known_registers, std::uint32_t word)
      : bytes(reinterpret_cast<std::uint8_t*>(operand & 0x00FFFFFFFFFFFFFFU)),
        index(static_cast<unsigned>(operand >> 56 & 63U)),
        registers(bit(operand, 62) ? 2 : 1) {
    if (bit(operand, 63) || index >= known_registers) stop("no such register or mode", word);
    if (registers == 2 && reinterpret_cast<std::uintptr_t>(bytes) % 128 != 0) {
      stop("a pair that is not aligned to 128 bytes", word);
    }
  }
};

void load(std::uint8_t* file, unsigned size, std::uint64_t operand, std::uint32_t word) {
  const Memory memory(operand, size, word);
  for (unsigned i = 0; i < memory.registers; ++i) {
    std::memcpy(file + 64 * ((memory.index + i) % size), memory.bytes + 64 * i, 64);
  }
}

void store(const std::uint8_t* file, unsigned size, std::uint64_t operand, std::uint32_t word) {
  const Memory memory(operand, size, word);
  for (unsigned i = 0; i < memory.registers; ++i) {
    std::memcpy(memory.bytes + 64 * i, file + 64 * ((memory.index + i) % size), 64);
  }
}

// 16 floats at a byte offset of a circular file.
void read_lanes(const std::uint8_t* file, std::uint64_t offset, float* lanes) {
  std::uint8_t bytes[64];
  for (unsigned i = 0; i < 64; ++i) bytes[i] = file[(offset + i) % 512];
  std::memcpy(lanes, bytes, 64);
}

// Outer product: lane i of row 4 j + t of Z = z + x[i] * y[j], rounded once; NaN is the default
// NaN.
void fma32(std::uint64_t operand, std::uint32_t word) {
  constexpr std::uint64_t kKnown = 0x3FFFFDFFU;  // offsets, row of Z, skipped inputs
  const std::uint64_t skipped = operand >> 27 & 7U, row = operand >> 20 & 63U;
  if ((operand & ~kKnown) != 0 || row > 3 || (skipped != 0 && skipped != 7)) {
    stop("a mode of fma32 that it does not know", word);
  }
  float x[16], y[16], z[16] = {};
  read_lanes(registers.x, operand >> 10 & 511U, x);
  read_lanes(registers.y, operand & 511U, y);
  for (unsigned j = 0; j < 16; ++j) {
    std::uint8_t* target = registers.z[4 * j + row];
    if (skipped == 0) {
      std::memcpy(z, target, 64);
      for (int i = 0; i < 16; ++i) {
        z[i] = std::fma(x[i], y[j], z[i]);
        if (std::isnan(z[i])) z[i] = std::bit_cast<float>(0x7FC00000U);
      }
    }
    std::memcpy(target, z, 64);
  }
  ++counts[skipped == 0 ? kProducts : kZeros];
}

void set_or_clr(std::uint32_t immediate, std::uint32_t word) {
  if (immediate > 1) stop("an immediate that is neither set nor clr", word);
  if (immediate == 0 && registers.on) stop("set while on", word);
  if (immediate == 1 && !registers.on) stop("clr while off", word);
  registers = {};
  registers.on = immediate == 0;
  ++counts[immediate == 0 ? kSet : kClr];
}

void execute(std::uint32_t word, std::uint32_t operation, std::uint64_t operand) {
  if (!registers.on) stop("used while off", word);
  switch (operation) {
    case 0:
      ++counts[kLoadX];
      return load(registers.x, 8, operand, word);
    case 1:
      ++counts[kLoadY];
      return load(registers.y, 8, operand, word);
    case 4:
      ++counts[kLoadZ];
      return load(registers.z[0], 64, operand, word);
    case 5:
      ++counts[kStoreZ];
      return store(registers.z[0], 64, operand, word);
    case 12:
      return fma32(operand, word);
    default:
      stop("an operation that it does not know", word);
  }
}

void on_undefined(int, siginfo_t*, void* raw) {
  auto& context = static_cast<ucontext_t*>(raw)->uc_mcontext;
  std::uint32_t word;
  std::memcpy(&word, reinterpret_cast<const void*>(context.pc), 4);
  if ((word & kWordMask) != kWordBits) stop("no AMX instruction", word);
  const std::uint32_t operation = word >> 5 & 31U, reg = word & 31U;
  if (operation == 17) {
    set_or_clr(reg, word);
  } else {
    execute(word, operation, reg == 31 ? 0 : context.regs[reg]);
  }
  context.pc += 4;
}

}  // namespace

void install_apple_amx_emulator() {
  struct sigaction action = {};
  action.sa_sigaction = on_undefined;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGILL, &action, nullptr) != 0) std::abort();
}

void reset_apple_amx_counts() {
  for (auto& count : counts) count = 0;
}

AppleAmxCounts apple_amx_counts() {
  return {counts[kSet],   counts[kClr],    counts[kLoadX],    counts[kLoadY],
          counts[kLoadZ], counts[kStoreZ], counts[kProducts], counts[kZeros]};
}

}  // namespace orrery::test
