#include "storage/byte_reader.hpp"

#include <fmt/format.h>

namespace orrery::storage {

std::unexpected<Error> ByteReader::truncated(std::string_view what, std::uint64_t needed) const {
  return error("E_TRUNC", position_,
               fmt::format("{} needs {} bytes, the file has {} left; it is cut short, "
                           "fetch it again",
                           what, needed, remaining()));
}

}  // namespace orrery::storage
