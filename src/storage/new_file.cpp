#include "storage/new_file.hpp"

#include <unistd.h>

#include <cerrno>

#include "storage/unnamed_file.hpp"

namespace orrery::storage {
namespace {

class SystemNewFile final : public NewFile {
 public:
  SystemNewFile(UnnamedFile file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_.fd(), bytes.data(), bytes.size());
      if (n >= 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
      if (n < 0 && errno != EINTR) return system_error(path_, "write", errno);
    }
    return {};
  }

  Status finish() override { return file_.take_name(true); }

 private:
  UnnamedFile file_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<NewFile>> create_system_file(const std::string& path) {
  ORRERY_TRY(UnnamedFile file, UnnamedFile::open(path, 0644));
  return std::make_unique<SystemNewFile>(std::move(file), path);
}

}  // namespace orrery::storage
