// A file system in memory, and one that fails where a test wants it to.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/io.hpp"

namespace orrery::test {

// Exactly the bytes of the file on the heap, so that sanitizers see a read past its end.
class MemoryMapping final : public storage::MappedFile {
 public:
  explicit MemoryMapping(std::string_view text)
      : bytes_(std::make_unique<std::byte[]>(text.size())), size_(text.size()) {
    if (size_ != 0) std::memcpy(bytes_.get(), text.data(), size_);
  }
  std::span<const std::byte> bytes() const override { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_;
};

class MemoryIo : public storage::Io {
 public:
  std::map<std::string, std::string> files;  // by path; folders follow from the paths
  // The number of the call that fails with E_IO, from 1; 0: none.
  int fail_call = 0;
  int calls = 0;

  Result<std::unique_ptr<storage::MappedFile>> map(const std::string& path) override {
    ORRERY_TRY(const std::string* text, text_of(path));
    return std::make_unique<MemoryMapping>(*text);
  }

  // Each read that ends counts as a call, too.
  Result<std::unique_ptr<storage::DirectFile>> open_direct(const std::string& path,
                                                           std::uint32_t) override {
    ORRERY_TRY(const std::string* text, text_of(path));
    return std::make_unique<MemoryDirectFile>(*this, *text);
  }

  Result<std::string> read_file(const std::string& path, std::uint64_t limit) override {
    ORRERY_TRY(const std::string* text, text_of(path));
    if (text->size() > limit) return fail("E_TOOBIG", path + ": is too big");
    return *text;
  }

  Result<storage::FileInfo> info(const std::string& path) override {
    if (fault()) return fault_error(path);
    storage::FileInfo found;
    if (const auto file = files.find(path); file != files.end()) {
      found.kind = storage::FileKind::regular;
      found.size = file->second.size();
      found.modified_ns = 1;
      return found;
    }
    found.kind = storage::FileKind::folder;
    const auto below = files.lower_bound(path + "/");
    if (below != files.end() && below->first.starts_with(path + "/")) return found;
    return fail("E_NOTFOUND", path + ": no such file");
  }

  Result<std::vector<std::string>> list(const std::string& folder) override {
    if (fault()) return fault_error(folder);
    std::vector<std::string> names;
    for (const auto& [path, text] : files) {
      if (!path.starts_with(folder + "/")) continue;
      const std::string rest = path.substr(folder.size() + 1);
      names.push_back(rest.substr(0, rest.find('/')));
    }
    if (names.empty()) return fail("E_NOTFOUND", folder + ": no such folder");
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

  Status replace_file(const std::string& path, std::string_view text) override {
    if (fault()) return fault_error(path);
    files[path] = text;
    return {};
  }

  // Each append and the finish count as calls, too.
  Result<std::unique_ptr<storage::NewFile>> create(const std::string& path) override {
    if (fault()) return fault_error(path);
    return std::make_unique<MemoryNewFile>(*this, path);
  }

 private:
  class MemoryDirectFile final : public storage::DirectFile {
   public:
    MemoryDirectFile(MemoryIo& io, std::string text) : io_(io), text_(std::move(text)) {}
    std::uint64_t size() const override { return text_.size(); }
    std::string_view way() const override { return "memory"; }
    Status start(std::uint32_t id, std::uint64_t offset, std::span<std::byte> into) override {
      if (io_.fault()) return fault_error("start");
      const std::uint64_t n = std::min<std::uint64_t>(into.size(), text_.size() - offset);
      std::memcpy(into.data(), text_.data() + offset, n);
      done_.push_back({id, static_cast<std::int64_t>(n)});
      return {};
    }
    Result<Done> wait() override {
      const Done done = done_.back();  // not the order in which they were started
      done_.pop_back();
      return io_.fault() ? Done{done.id, -EIO} : done;
    }
    bool is_unchanged() const override { return !io_.fault(); }

   private:
    MemoryIo& io_;
    std::string text_;
    std::vector<Done> done_;
  };

  class MemoryNewFile final : public storage::NewFile {
   public:
    MemoryNewFile(MemoryIo& io, std::string path) : io_(io), path_(std::move(path)) {}
    Status append(std::span<const std::byte> bytes) override {
      if (io_.fault()) return fault_error(path_);
      text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    }
    Status finish() override {
      if (io_.fault()) return fault_error(path_);
      io_.files[path_] = std::move(text_);
      return {};
    }

   private:
    MemoryIo& io_;
    std::string path_, text_;
  };

  bool fault() { return ++calls == fail_call; }
  static std::unexpected<Error> fault_error(const std::string& path) {
    return fail("E_IO", path + ": injected fault");
  }
  Result<const std::string*> text_of(const std::string& path) {
    if (fault()) return fault_error(path);
    const auto file = files.find(path);
    if (file == files.end()) return fail("E_NOTFOUND", path + ": no such file");
    return &file->second;
  }
};

}  // namespace orrery::test
