#include "server/ollama.hpp"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include <fmt/chrono.h>

namespace orrery::server {

std::string ollama_time() {
  return ollama_time(std::chrono::system_clock::now());
}

std::string ollama_time(std::chrono::system_clock::time_point moment) {
  using namespace std::chrono;
  const auto now = moment.time_since_epoch();
  const auto whole = duration_cast<seconds>(now);
  const auto rest = duration_cast<nanoseconds>(now - whole);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(std::time_t{whole.count()}),
                     rest.count());
}

ApiResult<OllamaOptions> parse_ollama_options(const Models& models, const Json& body) {
  // An answer that ignored these would not be what was asked for.
  for (const char* name : {"images", "suffix", "template"}) {
    const Json* value = find(body, name);
    const bool empty = value == nullptr || value->empty() || *value == "";
    if (!empty) return refuse(501, fmt::format("{} is not supported", name), name);
  }
  OllamaOptions options;
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  ORRERY_TRY(options.model, models.find(name.value_or("")));
  ORRERY_TRY(options.form, parse_ollama_form(body));
  ORRERY_TRY(options.stream, get_bool(body, "stream", true));
  const Json* given = find(body, "options");
  const Json none = Json::object();
  if (given != nullptr && !given->is_object()) return refuse(400, "options must be an object");
  const Json& fields = given == nullptr ? none : *given;
  ORRERY_TRY(options.generation.sampling, parse_sampling(fields, *options.model));
  ORRERY_TRY(options.generation.stop, parse_stop(fields, "stop"));
  ORRERY_TRY(const auto most, get_integer(fields, "num_predict", -2, INT32_MAX));
  if (most && *most > 0) options.generation.max_tokens = static_cast<std::uint32_t>(*most);
  ORRERY_TRY(const auto context, get_integer(fields, "num_ctx", 1, INT32_MAX));
  if (context && *context > options.model->context()) {
    return refuse(400, fmt::format("num_ctx is larger than the context of {} tokens that the "
                                   "model is served with",
                                   options.model->context()));
  }
  return options;
}

}  // namespace orrery::server
