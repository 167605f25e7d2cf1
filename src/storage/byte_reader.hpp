// A cursor over the bytes of one file that cannot leave them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "base/result.hpp"
#include "storage/describe.hpp"

namespace orrery::storage {

static_assert(std::endian::native == std::endian::little, "model files are little-endian");

// A little-endian number at `byte`, which must lie inside.
template <class T>
T load_at(std::span<const std::byte> bytes, std::uint64_t byte) {
  ORRERY_CHECK(byte <= bytes.size() && bytes.size() - byte >= sizeof(T));
  T value;
  std::memcpy(&value, bytes.data() + byte, sizeof(T));
  return value;
}

class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string label)
      : bytes_(bytes), label_(std::move(label)) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return bytes_.size() - position_; }
  const std::string& label() const { return label_; }

  // Reads a number; E_TRUNC when the file ends before it. `what` names it in the message.
  template <class T>
  Result<T> read(std::string_view what) {
    if (remaining() < sizeof(T)) return truncated(what, sizeof(T));
    const T value = load_at<T>(bytes_, position_);
    position_ += sizeof(T);
    return value;
  }

  // Steps over n bytes and gives them as text; E_TRUNC when the file ends before.
  Result<std::string_view> take(std::uint64_t n, std::string_view what) {
    if (remaining() < n) return truncated(what, n);
    const auto* start = reinterpret_cast<const char*>(bytes_.data()) + position_;
    position_ += n;
    return std::string_view(start, n);
  }

  // Steps over a string (u64 length, bytes) of at most `limit` bytes, or stays and gives false.
  bool skip_string(std::uint64_t limit) {
    if (remaining() < sizeof(std::uint64_t)) return false;
    const auto length = load_at<std::uint64_t>(bytes_, position_);
    if (length > limit || length > remaining() - sizeof(length)) return false;
    position_ += sizeof(length) + length;
    return true;
  }

  std::unexpected<Error> error(std::string_view kind, std::uint64_t byte,
                               std::string_view text) const {
    return fail_at(kind, label_, byte, text);
  }

  std::unexpected<Error> truncated(std::string_view what, std::uint64_t needed) const;

 private:
  std::span<const std::byte> bytes_;
  std::string label_;
  std::uint64_t position_ = 0;
};

}  // namespace orrery::storage
