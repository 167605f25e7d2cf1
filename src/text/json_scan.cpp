#include "text/json_scan.hpp"

#include <nlohmann/json.hpp>

namespace orrery::text {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

bool JsonScan::push(char c) {
  if (state_ == State::text) return in_text(c);
  if (state_ == State::atom) {
    const bool is_more = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' ||
                         c == '-' || c == '.';
    if (is_more) {
      atom_ += c;
      return atom_.size() <= 64;
    }
    if (!nlohmann::json::accept(atom_)) return false;
    state_ = State::after;
  }
  if (is_blank(c)) return true;
  switch (state_) {
    case State::first_key:
      if (c == '}') return end_container(c);
      [[fallthrough]];
    case State::key:
      is_key_ = true;
      state_ = State::text;
      return c == '"';
    case State::colon:
      state_ = State::value;
      return c == ':';
    case State::first_value:
      if (c == ']') return end_container(c);
      [[fallthrough]];
    case State::value:
      return begin_value(c);
    default:
      return after_value(c);
  }
}

bool JsonScan::begin_value(char c) {
  if (c == '{' || c == '[') {
    open_ += c;
    state_ = c == '{' ? State::first_key : State::first_value;
    return open_.size() <= kMaxDepth;
  }
  if (c == '"') {
    is_key_ = false;
    state_ = State::text;
    return true;
  }
  atom_ = c;
  state_ = State::atom;
  return c == '-' || (c >= '0' && c <= '9') || c == 't' || c == 'f' || c == 'n';
}

bool JsonScan::in_text(char c) {
  if (escape_ > 1) {
    escape_ = escape_ == 2 ? 0 : escape_ - 1;
    return is_hex(c);
  }
  if (escape_ == 1) {
    escape_ = c == 'u' ? 5 : 0;
    return std::string_view("\"\\/bfnrtu").contains(c);
  }
  if (c == '\\') escape_ = 1;
  if (c == '"') state_ = is_key_ ? State::colon : State::after;
  return static_cast<unsigned char>(c) >= 0x20;
}

bool JsonScan::after_value(char c) {
  if (open_.empty()) return false;
  if (c == ',') {
    state_ = open_.back() == '{' ? State::key : State::value;
    return true;
  }
  return end_container(c);
}

bool JsonScan::end_container(char c) {
  if (open_.empty() || (open_.back() == '{') != (c == '}') || (c != '}' && c != ']')) return false;
  open_.pop_back();
  state_ = State::after;
  return true;
}

}  // namespace orrery::text
