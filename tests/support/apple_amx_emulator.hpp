// Executes Apple AMX words on any other AArch64 Linux (also qemu-user): they are undefined there,
// so a handler of SIGILL decodes each, executes it on registers of the thread and steps over it. It
// knows set, clr, ldx, ldy, ldz, stz and the outer product of fma32, as an M1 runs them. Any other
// word, mode or misuse (off, on twice, an unaligned pair) ends the process with a message.
#pragma once

#include <cstdint>

namespace orrery::test {

// Words that all threads executed since reset_apple_amx_counts().
struct AppleAmxCounts {
  std::uint64_t set = 0, clr = 0, load_x = 0, load_y = 0, load_z = 0, store_z = 0;
  std::uint64_t products = 0;  // fma32 that adds x * y to z
  std::uint64_t zeros = 0;     // fma32 without inputs
};

// Installs the handler; once, before the first word.
void install_apple_amx_emulator();

void reset_apple_amx_counts();
AppleAmxCounts apple_amx_counts();

}  // namespace orrery::test
