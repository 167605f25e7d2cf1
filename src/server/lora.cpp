#include "server/lora.hpp"

#include <fmt/format.h>

#include <utility>

#include "server/handlers.hpp"

namespace orrery::server {
namespace {

constexpr double kMaxScale = 1e4;

}  // namespace

std::vector<ServedAdapter> Adapters::of(const std::string& domain) const {
  std::vector<ServedAdapter> adapters = loaded_;
  const std::lock_guard lock(mutex_);
  const auto found = scales_.find(domain);
  for (std::size_t i = 0; found != scales_.end() && i < adapters.size(); ++i) {
    adapters[i].scale = found->second[i];
  }
  return adapters;
}

void Adapters::set(const std::string& domain, const std::vector<engine::AdapterUse>& uses) {
  std::vector<float> scales(loaded_.size(), 0.0F);
  for (const engine::AdapterUse& use : uses) scales[use.id] = use.scale;
  const std::lock_guard lock(mutex_);
  scales_[domain] = std::move(scales);
}

std::vector<engine::AdapterUse> uses_of(const std::vector<ServedAdapter>& adapters) {
  std::vector<engine::AdapterUse> uses;
  for (const ServedAdapter& adapter : adapters) {
    if (adapter.scale != 0) uses.push_back({adapter.id, adapter.scale});
  }
  return uses;
}

ApiResult<std::vector<engine::AdapterUse>> parse_adapters(const Json& list, std::size_t count,
                                                          std::string_view param) {
  const auto wrong = [&](std::string why) {
    return refuse(400, std::move(why), std::string(param), "invalid_value");
  };
  if (!list.is_array()) return wrong("adapters are a list of {\"id\": ..., \"scale\": ...}");
  std::vector<engine::AdapterUse> uses;
  std::vector<bool> named(count, false);
  for (const Json& item : list) {
    const Json* number = find(item, "id");
    const auto id = number == nullptr ? std::nullopt : whole_number(*number);
    if (!id || *id < 0 || std::cmp_greater_equal(*id, count)) {
      return wrong(fmt::format("adapters have an id below {}, see GET /lora-adapters", count));
    }
    const auto index = static_cast<std::size_t>(*id);
    if (named[index]) return wrong(fmt::format("adapter {} is named twice", index));
    named[index] = true;
    ORRERY_TRY(const auto scale, get_number(item, "scale", -kMaxScale, kMaxScale));
    if (!scale) return wrong("an adapter has no scale");
    if (*scale != 0) {
      uses.push_back({static_cast<std::uint32_t>(index), static_cast<float>(*scale)});
    }
  }
  return uses;
}

ApiStatus lora_adapters(App& app, const CallPtr& call) {
  ORRERY_TRY(const auto model, app.models.find_writer(""));
  Json out = Json::array();
  for (const ServedAdapter& adapter : model->adapters.of(call->domain)) {
    Json item = Json::object();
    item["id"] = adapter.id;
    item["path"] = adapter.name;
    item["scale"] = adapter.scale;
    out.push_back(std::move(item));
  }
  send_json(app, *call, out);
  return {};
}

ApiStatus lora_set_adapters(App& app, const CallPtr& call) {
  auto body = parse_json(call->request.body);
  if (!body) return std::unexpected(api_error(body.error()));
  ORRERY_TRY(const auto model, app.models.find_writer(""));
  ORRERY_TRY(const auto uses, parse_adapters(*body, model->adapters.size(), ""));
  model->adapters.set(call->domain, uses);
  Json out = Json::object();
  out["success"] = true;
  send_json(app, *call, out);
  return {};
}

}  // namespace orrery::server
