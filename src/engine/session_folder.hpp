// Sessions under names, in one folder: a file each (session_file.hpp).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "engine/model.hpp"
#include "engine/session_file.hpp"

namespace orrery::engine {

inline constexpr std::size_t kMostSessionName = 64;  // bytes

// 1 to 64 letters, digits, "-", "_" and "."; begins with another than "." and does not end in
// ".tmp".
bool is_session_name(std::string_view name);

class SessionFolder {
 public:
  // It need not be there: the first save makes it. What processes left behind that were killed
  // while a file got its name is removed.
  explicit SessionFolder(std::string path);

  // Whether a file can be written in it, which is then gone. The errors of storage::StateIo::create
  // and of a write.
  Status check() const;

  // The session of this owner: "" or text that may stand in a name. E_NAME; the errors of
  // SessionFile::open.
  Result<std::unique_ptr<SessionFile>> open(std::string_view owner, const std::string& name,
                                            const Model& model) const;

 private:
  std::string path_;
};

}  // namespace orrery::engine
