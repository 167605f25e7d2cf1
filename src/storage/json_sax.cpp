#include "storage/json_sax.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>

#include "storage/describe.hpp"
#include "storage/limits.hpp"

namespace orrery::storage {
namespace {

// Reads a text and leaves in `reached` how far the parser got, for error messages.
class TrackingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// The events of nlohmann's parser as ours.
class Adapter {
 public:
  explicit Adapter(JsonEvents& events) : events_(events) {}

  bool null() { return scalar({.kind = JsonScalar::Kind::null}); }
  bool boolean(bool) { return scalar({.kind = JsonScalar::Kind::boolean}); }
  bool number_integer(std::int64_t) { return scalar({.kind = JsonScalar::Kind::negative}); }
  bool number_unsigned(std::uint64_t value) {
    return scalar({.kind = JsonScalar::Kind::natural, .natural = value});
  }
  bool number_float(double, const std::string&) { return scalar({.kind = JsonScalar::Kind::real}); }
  bool string(const std::string& value) {
    return scalar({.kind = JsonScalar::Kind::string, .string = value});
  }
  bool binary(const nlohmann::json::binary_t&) { return false; }
  bool key(const std::string& value) { return events_.on_key(value, depth_); }
  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) {
    return false;
  }

  bool too_deep() const { return too_deep_; }

 private:
  bool scalar(const JsonScalar& value) { return events_.on_scalar(value, depth_); }
  bool open(bool is_object) {
    too_deep_ = depth_ == kMaxJsonDepth;
    if (too_deep_ || !events_.on_open(is_object, depth_)) return false;
    ++depth_;
    return true;
  }
  bool close() { return events_.on_close(--depth_); }

  JsonEvents& events_;
  std::uint32_t depth_ = 0;
  bool too_deep_ = false;
};

}  // namespace

Status JsonEvents::parse(std::string_view text, std::string_view label, std::uint64_t first_byte) {
  error_.reset();
  const char* reached = text.data();
  Adapter adapter(*this);
  const TrackingIterator begin(text.data(), &reached);
  const TrackingIterator end(text.data() + text.size(), &reached);
  if (nlohmann::json::sax_parse(begin, end, &adapter)) return {};
  const std::uint64_t byte = first_byte + static_cast<std::uint64_t>(reached - text.data());
  if (error_) return fail_at(error_->kind, label, byte, error_->message);
  if (adapter.too_deep()) {
    return fail_at(
        "E_JSON", label, byte,
        fmt::format("JSON is nested too deeply, at most {} levels are allowed", kMaxJsonDepth));
  }
  return fail_at("E_JSON", label, byte, "this is no valid JSON");
}

}  // namespace orrery::storage
