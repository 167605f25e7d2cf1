// Memory nodes: which parts of the machine have memory of their own.
#pragma once

#include <cstdint>
#include <string_view>

namespace orrery::memory {

// The nodes of a list such as "0-1,4" (/sys/devices/system/node/has_memory), one bit each; nodes
// from 64 on and what is no list are left out.
std::uint64_t node_mask(std::string_view list);

}  // namespace orrery::memory
