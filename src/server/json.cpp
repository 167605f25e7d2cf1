#include "server/json.hpp"

#include <fmt/format.h>

#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace orrery::server {
namespace {

// Builds the tree from the parser's events, which come in order and well nested.
class Builder : public nlohmann::json_sax<Json> {
 public:
  std::optional<std::string> fault;
  Json root;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return refuse("binary values are no JSON"); }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (++keys_ > kMaxJsonKeys) return refuse("the request has too many keys");
    if (!open_.back().keys.insert(name).second) {
      return refuse(fmt::format("the key \"{}\" stands twice in one object", name.substr(0, 64)));
    }
    open_.back().next = std::move(name);
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception&) override {
    return refuse(fmt::format("the request is no valid JSON at byte {}", byte));
  }

 private:
  struct Level {
    Json value;
    std::string next;  // key of the value that comes
    std::unordered_set<std::string> keys;
  };

  bool refuse(std::string why) {
    if (!fault) fault = std::move(why);
    return false;
  }
  bool add(Json value) {
    if (open_.empty()) {
      root = std::move(value);
      return true;
    }
    Level& level = open_.back();
    if (level.value.is_array()) {
      level.value.push_back(std::move(value));
    } else {
      // Straight to the end: the set has found every repeated key already.
      auto& members = level.value.get_ref<Json::object_t&>();
      members.std::vector<Json::object_t::value_type>::emplace_back(std::move(level.next),
                                                                    std::move(value));
    }
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= kMaxJsonDepth) return refuse("the request is nested too deeply");
    open_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  std::vector<Level> open_;
  std::size_t keys_ = 0;
};

}  // namespace

Result<Json> parse_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    return fail("E_JSON", "the request begins with a byte order mark, which is no JSON");
  }
  Builder builder;
  if (!Json::sax_parse(text, &builder) || builder.fault) {
    return fail("E_JSON", builder.fault.value_or("the request is no valid JSON"));
  }
  return std::move(builder.root);
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace orrery::server
