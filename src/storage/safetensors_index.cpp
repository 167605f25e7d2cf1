// The index of sharded safetensors.
#include <fmt/format.h>

#include <utility>

#include "storage/describe.hpp"
#include "storage/json_sax.hpp"
#include "storage/limits.hpp"
#include "storage/safetensors.hpp"

namespace orrery::storage {
namespace {

class IndexEvents final : public JsonEvents {
 public:
  SafetensorsIndex index;
  bool seen_map = false;

  bool on_key(std::string_view key, std::uint32_t depth) override {
    if (depth == 1) return begin_section(key);
    if (depth == 2) name_ = key;
    return true;
  }

  bool on_open(bool is_object, std::uint32_t depth) override {
    const bool bad_root = depth == 0 && !is_object;
    const bool bad_map = in_map_ && (depth > 1 || !is_object);
    return !(bad_root || bad_map) || refuse_map();
  }

  bool on_scalar(const JsonScalar& value, std::uint32_t depth) override {
    if (in_metadata_ && depth == 2 && name_ == "total_size") index.total_size = value.natural;
    if (!in_map_) return depth > 0 || refuse_map();
    if (depth != 2 || value.kind != JsonScalar::Kind::string) return refuse_map();
    return add(value.string);
  }

  bool on_close(std::uint32_t) override { return true; }

 private:
  bool refuse_map() {
    return refuse("E_INDEX",
                  "the index must be an object whose weight_map gives a file name for "
                  "each tensor");
  }

  bool begin_section(std::string_view key) {
    in_map_ = key == "weight_map";
    in_metadata_ = key == "metadata";
    if (!in_map_) return true;
    return !std::exchange(seen_map, true) || refuse("E_DUPKEY", "weight_map stands here twice");
  }

  bool add(std::string_view file) {
    const bool is_plain =
        !file.empty() && file.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
    if (!is_plain || file == ".." || file == ".") {
      return refuse("E_INDEX", fmt::format("tensor {} is said to be in {}, only names of files in "
                                           "the same folder are allowed",
                                           in_quotes(name_), in_quotes(file)));
    }
    if (index.file_of.size() == kMaxCheckpointTensors) {
      return refuse("E_NTENSORS", fmt::format("more than {} tensors", kMaxCheckpointTensors));
    }
    const bool is_new = index.file_of.try_emplace(name_, file).second;
    return is_new ||
           refuse("E_DUPTENSOR", fmt::format("the tensor {} is listed twice", in_quotes(name_)));
  }

  bool in_map_ = false;
  bool in_metadata_ = false;
  std::string name_;
};

}  // namespace

Result<SafetensorsIndex> parse_safetensors_index(std::string_view text, std::string_view label) {
  IndexEvents events;
  ORRERY_TRY_VOID(events.parse(text, label, 0));
  if (events.index.file_of.empty()) {
    return fail_at("E_INDEX", label, 0, "the index has no weight_map with tensors in it");
  }
  return std::move(events.index);
}

}  // namespace orrery::storage
