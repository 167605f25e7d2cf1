// DirectFile on io_uring.
#include <fmt/format.h>
#include <liburing.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "storage/open_file.hpp"

namespace orrery::storage {
namespace {

class UringFile final : public DirectFile {
 public:
  UringFile(const io_uring& ring, OpenFile file, bool is_direct, bool is_registered)
      : ring_(ring), file_(std::move(file)), is_direct_(is_direct), is_registered_(is_registered) {}
  UringFile(const UringFile&) = delete;
  UringFile& operator=(const UringFile&) = delete;
  ~UringFile() override {
    while (running_ > 0 && wait()) {
    }
    io_uring_queue_exit(&ring_);
  }

  std::uint64_t size() const override { return file_.size; }
  std::string_view way() const override {
    return is_direct_ ? "io_uring, O_DIRECT" : "io_uring through the page cache";
  }

  Status start(std::uint32_t id, std::uint64_t offset, std::span<std::byte> into) override {
    io_uring_sqe* request = io_uring_get_sqe(&ring_);
    if (request == nullptr) return fail("E_IO", "more reads were started than the queue holds");
    const int fd = is_registered_ ? 0 : file_.fd.get();
    io_uring_prep_read(request, fd, into.data(), static_cast<unsigned>(into.size()), offset);
    if (is_registered_) request->flags |= IOSQE_FIXED_FILE;
    request->user_data = id;
    int sent = -EINTR;
    while (sent == -EINTR) sent = io_uring_submit(&ring_);
    if (sent != 1) {
      return fail("E_IO", fmt::format("io_uring refuses a read: {}", std::strerror(-sent)));
    }
    ++running_;
    return {};
  }

  Result<Done> wait() override {
    io_uring_cqe* done = nullptr;
    int code = -EINTR;
    while (code == -EINTR) code = io_uring_wait_cqe(&ring_, &done);
    if (code != 0) {
      return fail("E_IO", fmt::format("io_uring does not answer: {}", std::strerror(-code)));
    }
    const Done result{static_cast<std::uint32_t>(done->user_data), done->res};
    io_uring_cqe_seen(&ring_, done);
    --running_;
    return result;
  }

  bool is_unchanged() const override {
    struct stat now{};
    return ::fstat(file_.fd.get(), &now) == 0 && is_same_version(now, file_.info);
  }

 private:
  io_uring ring_;
  OpenFile file_;
  bool is_direct_, is_registered_;
  std::uint32_t running_ = 0;
};

}  // namespace

std::unique_ptr<DirectFile> make_uring_file(OpenFile& file, bool is_direct, std::uint32_t depth) {
  io_uring ring{};
  if (io_uring_queue_init(depth, &ring, 0) != 0) return nullptr;  // ENOSYS, EPERM, ENOMEM
  const int fd = file.fd.get();
  const bool is_registered = io_uring_register_files(&ring, &fd, 1) == 0;
  return std::make_unique<UringFile>(ring, std::move(file), is_direct, is_registered);
}

}  // namespace orrery::storage
