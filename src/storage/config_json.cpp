#include "storage/config_json.hpp"

#include <utility>

#include "storage/json_sax.hpp"
#include "storage/limits.hpp"

namespace orrery::storage {
namespace {

class CountValues final : public JsonEvents {
 public:
  bool on_scalar(const JsonScalar& /*value*/, std::uint32_t /*depth*/) override { return count(); }
  bool on_key(std::string_view /*key*/, std::uint32_t /*depth*/) override { return true; }
  bool on_open(bool /*is_object*/, std::uint32_t /*depth*/) override { return count(); }
  bool on_close(std::uint32_t /*depth*/) override { return true; }

 private:
  bool count() { return ++n_ <= kMaxJsonValues || refuse("E_JSON", "too many values"); }
  std::uint64_t n_ = 0;
};

}  // namespace

std::optional<nlohmann::json> parse_config_json(std::string_view text) {
  if (!CountValues().parse(text, "", 0)) return std::nullopt;
  nlohmann::json tree = nlohmann::json::parse(text, nullptr, false);
  if (!tree.is_object()) return std::nullopt;
  return tree;
}

}  // namespace orrery::storage
