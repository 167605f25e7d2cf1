// How processes of one user find each other's sealed memory files, without a daemon.
//
// The first process that asks for a name owns it: it listens on a socket of that name (abstract, so
// nothing stays on a disk) and hands the file to whoever of the same user asks. Those that got it
// stay connected; when the owner ends, one of them takes its place. The memory lives as long as
// anybody maps it.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace orrery::memory {

// Whether the process at the other end of a socket belongs to this user.
bool is_same_user(const ucred& peer, uid_t user);

class Share {
 public:
  // Names are longer than nothing and shorter than 80 bytes.
  static constexpr std::size_t kLongestName = 80;
  static constexpr int kPatienceMs = 10'000;

  // Whether a process of this user has claimed the name.
  static bool has_owner(const std::string& name);

  // Claims the name, or else finds its owner; never fails, but may do neither: why() then.
  explicit Share(std::string name);
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share();

  // The file of the owner, who may still be making it, for at most kPatienceMs. Its seals and size
  // are not looked at. E_SHARE: there is none; the caller makes the memory, too.
  Result<Descriptor> receive(std::uint64_t bytes);
  // Gives the file to others from now on; it stays open until the destructor has run.
  void publish(int file, std::uint64_t bytes);

  // The owner that receive() got the file from; both before publish().
  int owner() const { return owner_; }
  const std::string& why() const { return why_; }

 private:
  bool listen();
  void find_owner();
  void serve();
  void follow();
  void answer(std::vector<Descriptor>& holders);
  void send_to(int socket) const;

  std::string name_, why_;
  Descriptor listener_, peer_, stop_;
  int owner_ = 0;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
  std::thread thread_;
};

}  // namespace orrery::memory
