// DirectFile on threads that read with pread, for systems without io_uring.
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "storage/open_file.hpp"

namespace orrery::storage {
namespace {

class ThreadsFile final : public DirectFile {
 public:
  ThreadsFile(OpenFile file, bool is_direct, std::uint32_t depth)
      : file_(std::move(file)), is_direct_(is_direct) {
    for (std::uint32_t i = 0; i < depth; ++i) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        break;  // fewer reads at once
      }
    }
  }
  ThreadsFile(const ThreadsFile&) = delete;
  ThreadsFile& operator=(const ThreadsFile&) = delete;
  ~ThreadsFile() override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.clear();
      stop_ = true;
    }
    started_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  bool has_threads() const { return !threads_.empty(); }
  std::uint64_t size() const override { return file_.size; }
  std::string_view way() const override {
    return is_direct_ ? "threads, O_DIRECT" : "threads through the page cache";
  }

  Status start(std::uint32_t id, std::uint64_t offset, std::span<std::byte> into) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back({id, offset, into});
    }
    started_.notify_one();
    return {};
  }

  Result<Done> wait() override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return !done_.empty(); });
    const Done result = done_.front();
    done_.pop_front();
    return result;
  }

  bool is_unchanged() const override {
    struct stat now{};
    return ::fstat(file_.fd.get(), &now) == 0 && is_same_version(now, file_.info);
  }

 private:
  struct Request {
    std::uint32_t id;
    std::uint64_t offset;
    std::span<std::byte> into;
  };

  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      started_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      const Request request = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const ssize_t n = ::pread(file_.fd.get(), request.into.data(), request.into.size(),
                                static_cast<off_t>(request.offset));
      const Done done{request.id, n < 0 ? -std::int64_t{errno} : std::int64_t{n}};
      lock.lock();
      done_.push_back(done);
      lock.unlock();
      ended_.notify_one();
    }
  }

  OpenFile file_;
  bool is_direct_;
  std::mutex mutex_;
  std::condition_variable started_, ended_;
  std::deque<Request> waiting_;  // at most `depth`, as the caller starts no more
  std::deque<Done> done_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<DirectFile>> make_threads_file(OpenFile file, bool is_direct,
                                                      std::uint32_t depth) {
  auto made = std::make_unique<ThreadsFile>(std::move(file), is_direct, depth);
  if (!made->has_threads()) return fail("E_IO", "the system gives no thread to read the file with");
  return made;
}

}  // namespace orrery::storage
