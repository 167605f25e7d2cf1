#include "cli/serve_settings.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "cli/app.hpp"
#include "cli/config_file.hpp"
#include "cli/model_arg.hpp"
#include "cli/numbers.hpp"
#include "cli/terminal.hpp"

namespace orrery::cli {
namespace {

using Values = std::vector<std::string>;

struct Setting {
  std::string_view name;  // --max-queue, ORRERY_MAX_QUEUE, "max_queue"
  std::string_view help;
  Status (*set)(ServeSettings& settings, const Values& values);
  enum class Kind { one, many, flag } kind = Kind::one;
  std::string_view letter = {};
};

Result<std::uint64_t> number(const std::string& text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value < least ||
      value > most) {
    return fail(kUsageError, fmt::format("\"{}\" is no whole number from {} to {}", printable(text),
                                         least, most));
  }
  return value;
}

// Sets a number of any width.
template <class T>
Status take(T& field, const Values& values, std::uint64_t least, std::uint64_t most) {
  ORRERY_TRY(const std::uint64_t value, number(values.back(), least, most));
  field = static_cast<T>(value);
  return {};
}

Result<bool> truth(const std::string& text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off" || text.empty()) return false;
  return fail(kUsageError, fmt::format("\"{}\" is neither true nor false", printable(text)));
}

Status set_keys(ServeSettings& s, const Values& values) {
  for (const std::string& key : values) {
    if (key.empty()) return fail(kUsageError, "an API key must not be empty");
  }
  s.server.access.keys = values;
  return {};
}

using S = ServeSettings&;
using V = const Values&;
using enum Setting::Kind;

const Setting kSettings[] = {
    {"host", "address to listen on (default 127.0.0.1)",
     [](S s, V v) -> Status { return s.server.host = v.back(), Status{}; }},
    {"port", "port to listen on (default 8080; 0: any free one)",
     [](S s, V v) { return take(s.server.port, v, 0, 65535); }},
    {"api-key", "key that clients must send (repeatable)", set_keys, many},
    {"tls-cert", "PEM file with the certificate and its chain",
     [](S s, V v) -> Status { return s.server.certificate = v.back(), Status{}; }},
    {"tls-key", "PEM file with the key of the certificate",
     [](S s, V v) -> Status { return s.server.key = v.back(), Status{}; }},
    {"allow-origin", "origin of web pages that may use the server, or * (repeatable)",
     [](S s, V v) -> Status { return s.server.access.allowed_origins = v, Status{}; }, many},
    {"allow-host", "name by which clients may call the server (repeatable)",
     [](S s, V v) -> Status { return s.server.access.allowed_hosts = v, Status{}; }, many},
    {"shared-cache", "share cached prefixes between API keys, too",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.server.access.shares_cache, truth(v.back()));
       return {};
     },
     flag},
    {"requests-per-key", "most requests of one key at once (default 0: no limit)",
     [](S s, V v) { return take(s.server.access.requests_per_key, v, 0, 1 << 20); }},
    {"max-running", "answers in the making at once (default 16)",
     [](S s, V v) { return take(s.running, v, 1, 1024); }},
    {"max-queue", "answers that wait for a place; more get 503 (default 256)",
     [](S s, V v) { return take(s.queued, v, 0, 1 << 16); }},
    {"max-body", "most bytes of a request (default 16777216)",
     [](S s, V v) { return take(s.server.max_body, v, 1024, 1U << 30); }},
    {"log-requests", "write a line of JSON to stderr for each request that has ended",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.logs_requests, truth(v.back()));
       return {};
     },
     flag},
    {"drain", "seconds that streams may go on after SIGTERM (default 30)",
     [](S s, V v) -> Status {
       ORRERY_TRY(const std::uint64_t seconds, number(v.back(), 0, 86400));
       s.drain = std::chrono::seconds(seconds);
       return {};
     }},
    {"threads", "threads; 0 takes the physical cores",
     [](S s, V v) { return take(s.open.threads, v, 0, 256); }, one, "-t,"},
    {"ctx", "context of every request in tokens; 0 takes the model's own",
     [](S s, V v) { return take(s.open.context, v, 0, 1 << 24); }, one, "-c,"},
    {"kv-type", "types of cached keys and values, K,V or one for both",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.open.kv, parse_kv_types(v.back()));
       return {};
     }},
    {"layout", "of weights in memory: auto, file or packed",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.open.layout, parse_layout(v.back()));
       return {};
     }},
    {"load", "how files come into memory: map, direct or auto",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.open.load, parse_load(v.back()));
       return {};
     }},
    {"seal", "load into memory that nothing can write to any more, or fail",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.open.seal, truth(v.back()));
       return {};
     },
     flag},
    {"pin", "keep weights, cache and scratch in memory, never swapped out",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.open.pin, truth(v.back()));
       return {};
     },
     flag},
    {"on-overflow", "when the context is full: error (default), shift or roll, as of run",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.overflow, parse_overflow(v.back()));
       return {};
     }},
    {"quantize", "use the models with these element types, from images that are kept",
     [](S s, V v) -> Status {
       ORRERY_TRY(const engine::QuantizeMix mix, parse_mix(v.back()));
       s.open.quantize = mix.name;
       return {};
     }},
    {"fit", "the same with the least loss that fits each model into so many bytes",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.open.fit, read_bytes("fit", v.back()));
       return {};
     }},
    {"deterministic", "prefill with decode's number classes: slower, independent of chunking",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.open.deterministic, truth(v.back()));
       return {};
     },
     flag},
    {"session-dir", "folder for what clients save with POST /slots/ID?action=save",
     [](S s, V v) -> Status { return s.server.session_dir = v.back(), Status{}; }},
    {"lora", "FILE or FILE:SCALE, a LoRA adapter of the model (repeatable)",
     [](S s, V v) -> Status { return s.adapters = v, Status{}; }, many},
    {"models-dir", "folder with models that are loaded when they are asked for (repeatable)",
     [](S s, V v) -> Status { return s.folders = v, Status{}; }, many},
    {"local-models", "serve the models of the caches of Orrery, Hugging Face and Ollama, too",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.local_models, truth(v.back()));
       return {};
     },
     flag},
    {"memory", "most that models take together, as 8G or 512M",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.memory, read_bytes("memory", v.back()));
       return {};
     }},
    {"cache", "most that the cache of a model takes, as 2G or 512M",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.open.cache_bytes, read_bytes("cache", v.back()));
       return {};
     }},
    {"keep-alive", "how long an idle model stays, as 5m (default: named ones for ever, others 5m)",
     [](S s, V v) -> Status {
       ORRERY_TRY(const server::Keep keep, server::parse_keep_alive(v.back()));
       s.server.models.keep_named = s.server.models.keep_others = keep;
       return {};
     }},
    {"admin", "let clients pull and delete models",
     [](S s, V v) -> Status {
       ORRERY_TRY(s.server.access.admin, truth(v.back()));
       return {};
     },
     flag},
    {"models", "models to serve", [](S s, V v) -> Status { return s.models = v, Status{}; }, many},
};

std::string with(std::string_view name, char separator, bool upper) {
  std::string out;
  for (const char c : name) {
    out += c == '-' ? separator : upper && c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return out;
}

std::string variable_name(const Setting& setting) {
  return "ORRERY_" + with(setting.name, '_', true);
}

Values split(std::string_view text) {
  Values values;
  while (true) {
    const std::size_t comma = text.find(',');
    values.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::string> all_keys() {
  std::vector<std::string> keys;
  for (const Setting& setting : kSettings) keys.push_back(with(setting.name, '_', false));
  return keys;
}

}  // namespace

ServeOptions::ServeOptions(Command command) {
  command.option("MODEL", (*flags_)["models"], "model files, folders or short names").values(0, 64);
  command.option("--config", (*flags_)["config"], "TOML or JSON file with settings (ORRERY_CONFIG)")
      .values(1, 1);
  for (const Setting& setting : kSettings) {
    if (setting.name == "models") continue;
    const std::string flag_name = fmt::format("{}--{}", setting.letter, setting.name);
    const std::string help = fmt::format("{} ({})", setting.help, variable_name(setting));
    if (setting.kind == flag) {
      command.flag(flag_name, (*switches_)[std::string(setting.name)], help);
    } else if (setting.kind == many) {
      command.option(flag_name, (*flags_)[std::string(setting.name)], help).repeatable();
    } else {
      command.option(flag_name, (*flags_)[std::string(setting.name)], help).values(1, 1);
    }
  }
}

Result<ServeSettings> ServeOptions::read() const {
  ServeSettings settings;
  Config config;
  const char* const config_variable = std::getenv("ORRERY_CONFIG");
  const Values& config_flag = flags_->at("config");
  if (!config_flag.empty()) {
    ORRERY_TRY(config, read_config(config_flag.back(), all_keys()));
  } else if (config_variable != nullptr) {
    ORRERY_TRY(config, read_config(config_variable, all_keys()));
  }
  for (const Setting& setting : kSettings) {
    const std::string name(setting.name);
    Values values = setting.kind == flag ? Values{} : flags_->at(name);
    if (setting.kind == flag && switches_->at(name)) values = {"true"};
    std::string where = "--" + name;
    if (values.empty()) {
      where = variable_name(setting);
      const char* const variable = std::getenv(where.c_str());
      if (variable != nullptr) values = setting.kind == many ? split(variable) : Values{variable};
    }
    if (values.empty()) {
      where = with(setting.name, '_', false);
      const auto found = config.find(where);
      if (found != config.end()) values = found->second;
    }
    if (values.empty()) continue;
    const Status status = setting.set(settings, values);
    if (!status) return fail(kUsageError, where + ": " + status.error().message);
  }
  if (!settings.open.quantize.empty() && settings.open.fit > 0) {
    return fail(kUsageError, "--quantize and --fit exclude each other");
  }
  if (settings.server.certificate.empty() != settings.server.key.empty()) {
    return fail(kUsageError, "--tls-cert and --tls-key are given together or not at all");
  }
  const bool others =
      !settings.folders.empty() || settings.local_models || settings.server.access.admin;
  if (!settings.adapters.empty() && (settings.models.size() > 1 || others)) {
    return fail(kUsageError, "--lora is for a server of one model");
  }
  return settings;
}

}  // namespace orrery::cli
