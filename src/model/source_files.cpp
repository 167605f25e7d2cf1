// The two kinds of Source.
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/source.hpp"
#include "storage/config_json.hpp"

namespace orrery::model {
namespace {

using storage::MetaArray;
using storage::MetaValue;

// Longer lists keep their size alone and longer texts their beginning: nothing expects them.
constexpr std::uint64_t kMaxListItems = 65'536;
constexpr std::size_t kMaxTextBytes = 4'096;

// Unsigned numbers above 2^63-1 become that, which no bound of a parameter allows.
std::int64_t saturate(std::uint64_t value) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value) : kMax;
}

SourceValue from_meta(const MetaArray& array) {
  SourceValue value{.is_list = true, .size = array.size(), .items = {}};
  for (const std::string_view item : array.strings)
    value.items.emplace_back(std::string(item.substr(0, kMaxTextBytes)));
  for (const std::int64_t item : array.integers) value.items.emplace_back(item);
  for (const float item : array.floats) value.items.emplace_back(double{item});
  for (const std::uint8_t item : array.bools) value.items.emplace_back(item != 0);
  return value;
}

SourceValue from_meta(const MetaValue& meta) {
  if (const auto shape = storage::array_shape(meta)) {
    if (shape->size > kMaxListItems) return {.is_list = true, .size = shape->size, .items = {}};
    const auto* packed = std::get_if<storage::PackedArray>(&meta);
    return from_meta(packed != nullptr ? packed->unpack() : std::get<MetaArray>(meta));
  }
  SourceValue value;
  if (const auto* flag = std::get_if<bool>(&meta)) value.items.emplace_back(*flag);
  if (const auto* number = std::get_if<std::int64_t>(&meta)) value.items.emplace_back(*number);
  if (const auto* natural = std::get_if<std::uint64_t>(&meta)) {
    value.items.emplace_back(saturate(*natural));
  }
  if (const auto* real = std::get_if<double>(&meta)) value.items.emplace_back(*real);
  if (const auto* text = std::get_if<std::string_view>(&meta)) {
    value.items.emplace_back(std::string(text->substr(0, kMaxTextBytes)));
  }
  return value;
}

class GgufSource : public Source {
 public:
  GgufSource(const storage::Metadata& metadata, std::string architecture) : metadata_(metadata) {
    architecture_ = std::move(architecture);
  }
  bool is_gguf() const override { return true; }
  std::string name(Key key) const override {
    return fmt::format("key {}.{}", architecture_, key.gguf);
  }

 protected:
  std::optional<SourceValue> find(Key key) const override {
    if (key.gguf.empty()) return std::nullopt;
    const MetaValue* meta = metadata_.find(fmt::format("{}.{}", architecture_, key.gguf));
    if (meta == nullptr) return std::nullopt;
    return from_meta(*meta);
  }

 private:
  const storage::Metadata& metadata_;
};

using Json = nlohmann::json;

// Nothing for null, objects and nested lists.
std::optional<Scalar> from_json(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return saturate(json.get<std::uint64_t>());
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  return std::nullopt;
}

class ConfigSource : public Source {
 public:
  ConfigSource(Json config, std::string architecture) : config_(std::move(config)) {
    architecture_ = std::move(architecture);
  }
  bool is_gguf() const override { return false; }
  std::string name(Key key) const override { return fmt::format("config.json: {}", key.config); }

 protected:
  std::optional<SourceValue> find(Key key) const override {
    const Json* at = &config_;
    std::string_view rest = key.config;
    while (!rest.empty()) {
      const std::size_t slash = rest.find('/');
      if (!at->is_object()) return std::nullopt;
      const auto member = at->find(std::string(rest.substr(0, slash)));
      if (member == at->end()) return std::nullopt;
      at = &*member;
      rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
    }
    SourceValue value;
    if (at->is_array()) {
      value.is_list = true;
      value.size = at->size();
      if (value.size > kMaxListItems) return value;
      for (const Json& item : *at) value.items.push_back(from_json(item).value_or(Scalar(false)));
      return value;
    }
    const std::optional<Scalar> scalar = from_json(*at);
    if (!scalar) return std::nullopt;
    value.items.push_back(*scalar);
    return value;
  }

 private:
  Json config_;
};

Result<std::unique_ptr<Source>> open_gguf(const storage::Checkpoint& checkpoint) {
  const MetaValue* value = checkpoint.metadata().find("general.architecture");
  if (value == nullptr) return fail("E_ARCH", "key general.architecture is missing");
  const auto* text = std::get_if<std::string_view>(value);
  if (text == nullptr) return fail("E_ARCH", "key general.architecture is no string");
  return std::make_unique<GgufSource>(checkpoint.metadata(), std::string(*text));
}

Result<std::unique_ptr<Source>> open_config(const storage::Checkpoint& checkpoint) {
  if (checkpoint.config_json().empty()) {
    return fail("E_ARCH", "config.json is missing beside the safetensors files");
  }
  std::optional<Json> parsed = storage::parse_config_json(checkpoint.config_json());
  if (!parsed) return fail("E_HPARAM", "config.json is no JSON object of a sensible size");
  Json config = std::move(*parsed);
  const auto read_type = [](const Json& from) {
    const auto type = from.find("model_type");
    return type != from.end() && type->is_string() ? type->get<std::string>() : std::string();
  };
  std::string architecture = read_type(config);
  // Models that also see keep the parameters of their language model apart.
  if (const auto text = config.find("text_config"); text != config.end() && text->is_object()) {
    Json inner = std::move(*text);
    if (const std::string type = read_type(inner); !type.empty()) architecture = type;
    config = std::move(inner);
  }
  if (architecture.empty()) return fail("E_ARCH", "config.json: model_type is missing");
  return std::make_unique<ConfigSource>(std::move(config), std::move(architecture));
}

}  // namespace

Result<std::unique_ptr<Source>> open_source(const storage::Checkpoint& checkpoint) {
  return checkpoint.format() == storage::Format::gguf ? open_gguf(checkpoint)
                                                      : open_config(checkpoint);
}

std::optional<std::uint64_t> list_size(const storage::Checkpoint& checkpoint,
                                       std::string_view key) {
  const MetaValue* value = checkpoint.metadata().find(key);
  if (value == nullptr) return std::nullopt;
  const auto shape = storage::array_shape(*value);
  return shape ? std::optional(shape->size) : std::nullopt;
}

}  // namespace orrery::model
