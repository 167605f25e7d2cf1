// What the commands say and how: plain lines, no colour unless a person is looking.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::cli {

// The kind of an Error that means wrong usage (exit code 2).
inline constexpr std::string_view kUsageError = "E_USAGE";

// Control bytes as \xNN and at most 1 KiB, so that a hostile file cannot write to the terminal.
std::string printable(std::string_view text);

void print_error(std::string_view line);  // stderr, in red on a terminal
void print_note(std::string_view line);   // stderr
void print(std::string_view text);        // stdout, as it is

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_has_colour();

// "1.5 GiB"
std::string human_bytes(std::uint64_t bytes);

}  // namespace orrery::cli
