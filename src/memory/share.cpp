#include "memory/share.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/check.hpp"

namespace orrery::memory {
namespace {

constexpr int kWaiting = 64;               // connections that the system holds for us
constexpr std::size_t kMostHolders = 256;  // that stay connected; more get the file, not the place

// What comes with the file. Another version of it is no file for us.
struct Ticket {
  std::uint64_t magic = 0x3130544e45464552;  // "REFENT01"
  std::uint64_t bytes = 0;
  std::uint64_t name = 0;   // hash
  std::uint64_t check = 0;  // hash of the three before
};

// FNV-1a: finds accidents, which is all that it has to among processes of one user.
std::uint64_t hash_of(const void* data, std::size_t bytes) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (std::size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211ULL;
  }
  return hash;
}

Ticket ticket_of(std::string_view name, std::uint64_t bytes) {
  Ticket ticket{.bytes = bytes, .name = hash_of(name.data(), name.size())};
  ticket.check = hash_of(&ticket, offsetof(Ticket, check));
  return ticket;
}

struct Address {
  sockaddr_un address{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Users have names of their own, so that one cannot take another's.
Address address_of(const std::string& name) {
  Address address;
  const std::string full = fmt::format("orrery/{}/{}", ::geteuid(), name);
  address.address.sun_family = AF_UNIX;
  ORRERY_CHECK(full.size() < sizeof address.address.sun_path);
  std::memcpy(address.address.sun_path + 1, full.data(), full.size());  // a zero first: abstract
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size());
  return address;
}

Descriptor new_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// To the owner of a name; -1 with errno where there is none.
Descriptor connect_to(const std::string& name) {
  const Address address = address_of(name);
  Descriptor peer = new_socket();
  if (peer.get() >= 0 && ::connect(peer.get(), address.get(), address.bytes) == 0) return peer;
  return {};
}

// The process at the other end, where it is this user's; else 0.
int peer_of(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return 0;
  return is_same_user(peer, ::geteuid()) ? peer.pid : 0;
}

// One message with one descriptor; -1 when it is anything else.
int receive_file(int socket, Ticket& ticket) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
  iovec part{&ticket, sizeof ticket};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  std::array<int, 4> files{};
  const std::size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  std::memcpy(files.data(), CMSG_DATA(header), n * sizeof(int));
  const bool is_good = n == 1 && bytes == sizeof ticket && message.msg_flags == MSG_CMSG_CLOEXEC;
  if (is_good) return files[0];
  for (std::size_t i = 0; i < n; ++i) ::close(files[i]);
  return -1;
}

}  // namespace

bool is_same_user(const ucred& peer, uid_t user) {
  return peer.pid > 0 && peer.uid == user;
}

Share::Share(std::string name) : name_(std::move(name)) {
  ORRERY_CHECK(!name_.empty() && name_.size() < kLongestName);
  stop_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
  if (!listen()) find_owner();
}

Share::~Share() {
  const std::uint64_t one = 1;
  if (!thread_.joinable()) return;
  while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

bool Share::listen() {
  const Address address = address_of(name_);
  Descriptor listener = new_socket();
  if (listener.get() < 0 || ::bind(listener.get(), address.get(), address.bytes) != 0 ||
      ::listen(listener.get(), kWaiting) != 0) {
    why_ = fmt::format("not shared: {}", std::strerror(errno));
    return false;
  }
  listener_ = std::move(listener);
  why_.clear();
  return true;
}

bool Share::has_owner(const std::string& name) {
  const Descriptor peer = connect_to(name);
  return peer.get() >= 0 && peer_of(peer.get()) != 0;
}

void Share::find_owner() {
  Descriptor peer = connect_to(name_);
  if (peer.get() < 0) {
    why_ = fmt::format("not shared: {}", std::strerror(errno));
    return;
  }
  owner_ = peer_of(peer.get());
  if (owner_ != 0) {
    peer_ = std::move(peer);
  } else {
    why_ = "not shared: another user's process has its name";
  }
}

Result<Descriptor> Share::receive(std::uint64_t bytes) {
  if (peer_.get() < 0) return fail("E_SHARE", why_);
  pollfd wait{peer_.get(), POLLIN, 0};
  const int ready = ::poll(&wait, 1, kPatienceMs);
  Ticket ticket;
  Descriptor file(ready == 1 ? receive_file(peer_.get(), ticket) : -1);
  const Ticket wanted = ticket_of(name_, bytes);
  if (file.get() >= 0 && std::memcmp(&ticket, &wanted, sizeof ticket) == 0) return file;
  why_ = ready == 0 ? "not shared: the process that has it does not answer"
                    : "not shared: the process that has it sent something else or ended";
  peer_ = Descriptor();
  owner_ = 0;
  listen();  // it may have ended: then the name is free
  return fail("E_SHARE", "nobody has it");
}

void Share::publish(int file, std::uint64_t bytes) {
  file_ = file;
  bytes_ = bytes;
  if (thread_.joinable() || stop_.get() < 0 || (listener_.get() < 0 && peer_.get() < 0)) return;
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error&) {
    listener_ = Descriptor();  // nobody would answer
    why_ = "not shared: no thread to be had";
  }
}

void Share::serve() {
  std::vector<Descriptor> holders;
  while (listener_.get() >= 0 || peer_.get() >= 0) {
    std::vector<pollfd> waits{{stop_.get(), POLLIN, 0}};
    waits.push_back({peer_.get() >= 0 ? peer_.get() : listener_.get(), POLLIN, 0});
    for (const Descriptor& holder : holders) waits.push_back({holder.get(), POLLIN, 0});
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (waits[0].revents != 0) return;
    // A holder says nothing: what can be read is its end.
    for (std::size_t i = holders.size(); i > 0; --i) {
      if (waits[i + 1].revents != 0) holders.erase(holders.begin() + static_cast<long>(i - 1));
    }
    if (waits[1].revents == 0) continue;
    if (peer_.get() >= 0) {
      follow();
    } else {
      answer(holders);
    }
  }
}

// The owner ended: whoever is first takes its place, and the others look to that one. It may be a
// newcomer, who sends what it made, which is not needed here.
void Share::follow() {
  Ticket ticket;
  if (Descriptor(receive_file(peer_.get(), ticket)).get() >= 0) return;
  peer_ = Descriptor();
  if (!listen()) find_owner();
}

void Share::answer(std::vector<Descriptor>& holders) {
  Descriptor holder(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (holder.get() < 0) {
    // Out of descriptors: those that wait are served when there are some again.
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) ::poll(nullptr, 0, 100);
    return;
  }
  if (peer_of(holder.get()) == 0) return;
  send_to(holder.get());
  if (holders.size() < kMostHolders) holders.push_back(std::move(holder));
}

// It is one packet into an empty queue, so it never waits.
void Share::send_to(int socket) const {
  Ticket ticket = ticket_of(name_, bytes_);
  iovec part{&ticket, sizeof ticket};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &file_, sizeof(int));
  static_cast<void>(::sendmsg(socket, &message, MSG_NOSIGNAL));
}

}  // namespace orrery::memory
