// Whole files read past the page cache into huge pages: what `--load direct` does.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"
#include "storage/io.hpp"

namespace orrery::storage {

inline constexpr std::uint32_t kDirectDepth = 16;           // requests at once
inline constexpr std::uint64_t kDirectRequest = 1U << 20U;  // bytes of one

// Reads all of `file` to `target`, which is kDirectAlignment aligned and has file.size() bytes and
// room up to the next multiple of kDirectAlignment. `label` is what messages call the file. What
// comes short is asked for again. E_IO when the disk fails (with the byte) or asks for a fourth
// try, E_CHANGED when the file ends early or was written to.
Status read_directly(DirectFile& file, std::span<std::byte> target, std::string_view label);

// An Io whose map() reads files of at least kLeastDirect bytes directly into memory of their own
// and leaves the rest to `io`. The bytes of such a file never change; they cannot be released. Who
// asks for the same file again, in this or another process of the user, gets the same memory.
// E_MEMORY for a file that is larger than the memory that is available; with `must_seal` also
// E_SEAL and E_BUSY where others might write to it.
class DirectIo final : public Io {
 public:
  static constexpr std::uint64_t kLeastDirect = 64U << 10U;

  DirectIo(Io& io, bool must_seal) : io_(io), must_seal_(must_seal) {}
  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override;
  // "read by io_uring, O_DIRECT into a sealed memory file"; empty when none was.
  const std::string& way() const { return way_; }

  Result<std::unique_ptr<DirectFile>> open_direct(const std::string& path,
                                                  std::uint32_t depth) override {
    return io_.open_direct(path, depth);
  }
  Result<std::string> read_file(const std::string& path, std::uint64_t limit) override {
    return io_.read_file(path, limit);
  }
  Result<FileInfo> info(const std::string& path) override { return io_.info(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    return io_.list(folder);
  }
  Status replace_file(const std::string& path, std::string_view text) override {
    return io_.replace_file(path, text);
  }
  Result<std::unique_ptr<NewFile>> create(const std::string& path) override {
    return io_.create(path);
  }

 private:
  Io& io_;
  bool must_seal_;
  std::string way_;
};

}  // namespace orrery::storage
