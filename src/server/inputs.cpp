#include "server/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace orrery::server {
namespace {

using Tokens = std::vector<text::TokenId>;

std::unexpected<ApiError> wrong(std::string_view name, std::string_view what) {
  return refuse(400, fmt::format("{} {}", name, what), std::string(name), "invalid_prompt");
}

ApiResult<Tokens> parse_ids(const Json& list, std::string_view name, const ServedModel& model) {
  Tokens ids;
  const std::int32_t vocab = model.model->n_tokens();
  for (const Json& item : list) {
    const auto id = whole_number(item);
    if (!id || *id < 0 || *id >= vocab) {
      return wrong(name, fmt::format("holds what is no token id from 0 to {}", vocab - 1));
    }
    ids.push_back(static_cast<text::TokenId>(*id));
  }
  return ids;
}

ApiResult<Tokens> parse_one(const Json& input, std::string_view name, const ServedModel& model,
                            text::EncodeOptions options) {
  if (input.is_string()) {
    return model.model->tokenizer().encode(input.get_ref<const std::string&>(), options);
  }
  if (input.is_array()) return parse_ids(input, name, model);
  return wrong(name, "must be a string, a list of strings or token ids");
}

}  // namespace

ApiResult<std::vector<Tokens>> parse_inputs(const Json& body, std::string_view name,
                                            const ServedModel& model, text::EncodeOptions options) {
  const Json* given = find(body, name);
  if (given == nullptr) return wrong(name, "is missing");
  std::vector<Tokens> inputs;
  const bool is_one = !given->is_array() || (!given->empty() && given->front().is_number());
  const Json list = is_one ? Json::array({*given}) : *given;
  if (list.empty()) return wrong(name, "is empty");
  if (list.size() > kMaxInputs)
    return wrong(name, fmt::format("has more than {} entries", kMaxInputs));
  for (const Json& input : list) {
    if (input.type() != list.front().type()) return wrong(name, "mixes texts and token ids");
    ORRERY_TRY(Tokens tokens, parse_one(input, name, model, options));
    if (tokens.empty()) return wrong(name, "holds an empty text");
    inputs.push_back(std::move(tokens));
  }
  return inputs;
}

}  // namespace orrery::server
