// How the pages of a mapped model come into memory: looked at when it is opened, mended where that
// is cheap, and said.
//
// A file that is not in the page cache is read ahead while the program gets ready. A file that was
// written or read in small pieces lies in pages of 4 KiB, from which decode reads up to a third
// slower; its pages are dropped and read again into huge ones, where a trial on its first part
// shows that the file system makes them and that the disk is quick enough.
#pragma once

#include <cstdint>
#include <string>

#include "storage/checkpoint.hpp"

namespace orrery::storage {

// map: the pages as they are, read when they are used.
enum class LoadMode : std::uint8_t { automatic, map, direct };

// Sums over the weight files.
PageUse page_use(const Checkpoint& checkpoint);
// "497 of 497 MB in the page cache, 98% of it in huge pages".
std::string to_text(const PageUse& use);

// A phrase for people: what was found and done. `is_read_once`: the weights are copied anyway, so
// small pages do not matter. Reading ahead goes on after the return.
std::string ready_pages(const Checkpoint& checkpoint, bool is_read_once);

}  // namespace orrery::storage
