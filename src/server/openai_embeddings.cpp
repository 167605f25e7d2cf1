// POST /v1/embeddings.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "engine/embed_text.hpp"
#include "server/fields.hpp"
#include "server/handlers.hpp"
#include "server/inputs.hpp"

namespace orrery::server {
namespace {

// Little-endian f32, in base64.
std::string base64(std::span<const float> values) {
  static_assert(std::endian::native == std::endian::little);
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes(values.size_bytes());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < n ? bytes[i + k] : 0U);
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= n ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

}  // namespace

ApiStatus openai_embeddings(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  ORRERY_TRY(const auto model, app.models.find(name.value_or("")));
  ORRERY_TRY(const auto format, get_string(body, "encoding_format", 64));
  if (format && *format != "float" && *format != "base64") {
    return refuse(400, "encoding_format must be float or base64", "encoding_format",
                  "invalid_value");
  }
  const auto width = static_cast<std::int64_t>(model->model->hparams().embedding_dim());
  ORRERY_TRY(const auto dimensions, get_integer(body, "dimensions", 1, width));
  ORRERY_TRY(const auto inputs, parse_inputs(body, "input", *model, {.add_special = true}));
  engine::EmbedOptions options;
  options.dimensions = static_cast<std::uint32_t>(dimensions.value_or(0));
  Json data = Json::array();
  std::size_t tokens = 0;
  for (const std::vector<text::TokenId>& ids : inputs) {
    if (call->response->is_gone()) return {};
    auto vector = model->model->embed(ids, options);
    note_outcome(*model, vector ? nullptr : &vector.error());
    if (!vector) return std::unexpected(api_error(vector.error()));
    Json item = Json::object();
    item["object"] = "embedding";
    item["index"] = data.size();
    item["embedding"] = format == "base64" ? Json(base64(*vector)) : Json(*vector);
    data.push_back(std::move(item));
    tokens += ids.size();
  }
  Json out = Json::object();
  out["object"] = "list";
  out["data"] = std::move(data);
  out["model"] = model->id;
  out["usage"]["prompt_tokens"] = tokens;
  out["usage"]["total_tokens"] = tokens;
  send_json(app, *call, out);
  return {};
}

}  // namespace orrery::server
