// Which processors this process may use.
#pragma once

#include <string>
#include <vector>

namespace orrery {

// Processors of the affinity mask, ascending.
std::vector<int> available_cpus();
// Physical cores among them (hyper-threads counted once); at least 1.
int physical_cores();
// Pins the calling thread to the index-th available processor; false when the system refuses.
bool pin_thread(int index);
// Bytes of memory that are free or reclaimable now (MemAvailable, capped by the cgroup).
unsigned long long available_memory();
// Bytes of the last-level cache that the first processor sees; 0 where the system does not tell.
unsigned long long last_level_cache();
// "Intel(R) Xeon(R) ..." or the architecture's name.
std::string cpu_model();

}  // namespace orrery
