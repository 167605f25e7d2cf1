// What `orrery serve` may be told, each in three ways: a flag, a variable ORRERY_NAME, or a key of
// the configuration file. The flag wins over the variable, the variable over the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/adapters.hpp"
#include "cli/open_model.hpp"
#include "server/server.hpp"

namespace orrery::cli {

struct ServeSettings {
  std::vector<std::string> models;   // loaded at the start
  std::vector<std::string> folders;  // whose models are loaded on demand
  bool local_models = false;         // those of the caches, too
  std::uint64_t memory = 0;          // bytes that models may take; 0: not said
  server::ServerOptions server;
  OpenOptions open;
  AdapterFiles adapters;       // of the one model
  std::uint32_t running = 16;  // requests at once
  std::uint32_t queued = 256;
  engine::Overflow overflow = engine::Overflow::error;
  std::chrono::seconds drain{30};
  bool logs_requests = false;
};

// Adds the flags; `read` later gives the settings from all three places. Values that are wrong:
// kUsageError, with the flag, the variable or the key that has it.
class ServeOptions {
 public:
  explicit ServeOptions(Command command);
  Result<ServeSettings> read() const;

 private:
  using Given = std::map<std::string, std::vector<std::string>>;  // by name of the setting

  std::shared_ptr<Given> flags_ = std::make_shared<Given>();
  std::shared_ptr<std::map<std::string, bool>> switches_ =
      std::make_shared<std::map<std::string, bool>>();
};

}  // namespace orrery::cli
