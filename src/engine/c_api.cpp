// The C interface over the engine: translates structures, catches everything.
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "engine/chat.hpp"
#include "engine/generate.hpp"
#include "engine/model.hpp"
#include "engine/sampler.hpp"
#include "engine/session.hpp"
#include "orrery/orrery.h"

using orrery::Error;
using orrery::fail;
using orrery::Result;
using orrery::Status;
namespace engine = orrery::engine;
namespace text = orrery::text;

struct orrery_model {
  std::shared_ptr<const engine::Model> model;
};

struct orrery_session {
  std::shared_ptr<const engine::Model> model;
  std::unique_ptr<engine::Session> session;
};

namespace {

void copy_text(char* out, std::size_t capacity, std::string_view text) {
  std::size_t n = std::min(text.size(), capacity - 1);
  // Not in the middle of a character.
  while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
  std::memcpy(out, text.data(), n);
  out[n] = 0;
}

void report(orrery_error* out, const Error& error) {
  if (out == nullptr) return;
  copy_text(out->kind, sizeof out->kind, error.kind);
  copy_text(out->message, sizeof out->message, error.message);
}

// Runs a function that returns Status; no exception leaves.
template <class Function>
int guarded(orrery_error* error, Function function) {
  try {
    const Status status = function();
    if (status) return 0;
    report(error, status.error());
  } catch (const std::bad_alloc&) {
    report(error, {"E_MEMORY", "out of memory"});
  } catch (const std::exception& e) {
    report(error, {"E_INTERNAL", e.what()});
  } catch (...) {
    report(error, {"E_INTERNAL", "an unknown exception"});
  }
  return 1;
}

// The caller's structure over the defaults, as far as its version of the structure goes.
template <class Options>
Options complete(Options defaults, const Options* given) {
  if (given != nullptr) {
    std::memcpy(&defaults, given, std::min(sizeof(Options), given->size));
  }
  return defaults;
}

// As much of `source` as the caller's version of the structure holds; its size stays.
template <class Structure>
void give(Structure* out, const Structure& source) {
  if (out == nullptr) return;
  const std::size_t size = out->size;
  std::memcpy(out, &source, std::min(sizeof(Structure), size));
  out->size = size;
}

template <class Container, class Element>
Status fill(const Container& source, Element* out, std::size_t capacity, std::size_t* count) {
  if (count != nullptr) *count = source.size();
  if (out == nullptr) return {};
  if (capacity < source.size()) {
    return fail("E_BUFFER", "the buffer holds " + std::to_string(capacity) + " of " +
                                std::to_string(source.size()) + " elements");
  }
  std::copy(source.begin(), source.end(), out);
  return {};
}

Status need(bool present, const char* what) {
  if (present) return {};
  return fail("E_PARAM", std::string(what) + " is NULL");
}

orrery_model_options default_model_options() {
  orrery_model_options options{};
  options.size = sizeof options;
  options.device = "cpu";
  options.isa = "";
  options.max_sessions = 1;
  return options;
}

Result<engine::ModelOptions> convert(const orrery_model_options& given) {
  engine::ModelOptions options;
  const std::string_view device = given.device == nullptr ? "cpu" : given.device;
  if (device == "reference") {
    options.device = engine::Device::reference;
  } else if (device != "cpu") {
    return fail("E_PARAM", "device is " + std::string(device) + "; it must be cpu or reference");
  }
  if (given.threads < 0 || given.threads > 1024) {
    return fail("E_PARAM", "threads must be from 0 to 1024");
  }
  if (given.max_sessions < 1 || given.max_sessions > 1024) {
    return fail("E_PARAM", "max_sessions must be from 1 to 1024");
  }
  options.isa = given.isa == nullptr ? "" : given.isa;
  options.threads = given.threads;
  options.context = given.context;
  options.max_sequences = given.max_sessions;
  options.deterministic = given.deterministic != 0;
  options.cache_budget_bytes = given.cache_bytes;
  return options;
}

orrery_sampling convert(const engine::SamplerParams& p) {
  orrery_sampling s{};
  s.size = sizeof s;
  s.temperature = p.temperature;
  s.top_k = p.top_k;
  s.top_p = p.top_p;
  s.min_p = p.min_p;
  s.typical_p = p.typical_p;
  s.top_n_sigma = p.top_n_sigma;
  s.xtc_probability = p.xtc_probability;
  s.xtc_threshold = p.xtc_threshold;
  s.penalty_last_n = p.penalty_last_n;
  s.repeat_penalty = p.repeat_penalty;
  s.frequency_penalty = p.frequency_penalty;
  s.presence_penalty = p.presence_penalty;
  s.dry_multiplier = p.dry_multiplier;
  s.dry_base = p.dry_base;
  s.dry_allowed_length = p.dry_allowed_length;
  s.dry_last_n = p.dry_last_n;
  s.dynatemp_range = p.dynatemp_range;
  s.dynatemp_exponent = p.dynatemp_exponent;
  s.repetition_temperature = p.repetition_temperature;
  s.mirostat = p.mirostat;
  s.mirostat_tau = p.mirostat_tau;
  s.mirostat_eta = p.mirostat_eta;
  s.seed = -1;
  return s;
}

engine::SamplerParams convert(const orrery_sampling& s) {
  engine::SamplerParams p;
  p.temperature = s.temperature;
  p.top_k = s.top_k;
  p.top_p = s.top_p;
  p.min_p = s.min_p;
  p.typical_p = s.typical_p;
  p.top_n_sigma = s.top_n_sigma;
  p.xtc_probability = s.xtc_probability;
  p.xtc_threshold = s.xtc_threshold;
  p.penalty_last_n = s.penalty_last_n;
  p.repeat_penalty = s.repeat_penalty;
  p.frequency_penalty = s.frequency_penalty;
  p.presence_penalty = s.presence_penalty;
  p.dry_multiplier = s.dry_multiplier;
  p.dry_base = s.dry_base;
  p.dry_allowed_length = s.dry_allowed_length;
  p.dry_last_n = s.dry_last_n;
  p.dynatemp_range = s.dynatemp_range;
  p.dynatemp_exponent = s.dynatemp_exponent;
  p.repetition_temperature = s.repetition_temperature;
  p.mirostat = s.mirostat;
  p.mirostat_tau = s.mirostat_tau;
  p.mirostat_eta = s.mirostat_eta;
  if (s.seed >= 0) p.seed = static_cast<std::uint64_t>(s.seed);
  for (std::size_t i = 0; s.biases != nullptr && i < s.n_biases; ++i) {
    p.logit_bias.emplace_back(s.biases[i].id, s.biases[i].bias);
  }
  return p;
}

engine::GenerateOptions convert(const orrery_generate_options& given) {
  engine::GenerateOptions options;
  options.max_tokens = given.max_tokens;
  for (std::size_t i = 0; given.stop != nullptr && i < given.n_stop; ++i) {
    if (given.stop[i] != nullptr) options.stop.emplace_back(given.stop[i]);
  }
  options.overflow = given.shift == 0   ? engine::Overflow::error
                     : given.shift == 2 ? engine::Overflow::roll
                                        : engine::Overflow::shift;
  options.keep = given.keep;
  if (given.on_text != nullptr) {
    options.on_text = [callback = given.on_text, user = given.user](std::string_view piece) {
      return callback(piece.data(), piece.size(), user) == 0;
    };
  }
  return options;
}

Status generate(orrery_session& session, std::span<const int32_t> prompt,
                const orrery_sampling* sampling, const orrery_generate_options* given,
                std::span<int32_t> ids, orrery_generation* out) {
  const engine::Model& model = *session.model;
  engine::SamplerParams params = convert(complete(convert(model.sampling()), sampling));
  if (params.dry_multiplier > 0) {
    const std::string breakers[] = {"\n", ":", "\"", "*"};
    params.dry_breakers = engine::dry_breaker_tokens(model.tokenizer(), breakers);
  }
  ORRERY_TRY(auto sampler, engine::Sampler::create(params, model.n_tokens(), model.info().context));
  orrery_generate_options plain;
  orrery_generate_options_init(&plain);
  ORRERY_TRY(const auto generation, engine::generate(*session.session, model.tokenizer(), sampler,
                                                     prompt, convert(complete(plain, given))));
  std::copy_n(generation.tokens.begin(), std::min(generation.tokens.size(), ids.size()),
              ids.begin());
  orrery_generation result{};
  result.prompt_tokens = generation.prompt_tokens;
  result.reused_tokens = generation.reused_tokens;
  result.generated_tokens = static_cast<std::uint32_t>(generation.tokens.size());
  result.prefill_seconds = generation.prefill_seconds;
  result.decode_seconds = generation.decode_seconds;
  result.first_token_seconds = generation.first_token_seconds;
  result.finish = engine::finish_name(generation.finish).data();
  give(out, result);
  return {};
}

Result<text::Json> variables_of(const orrery_model* model, const char* messages_json,
                                int add_generation_prompt) {
  ORRERY_TRY_VOID(need(model != nullptr, "model"));
  ORRERY_TRY_VOID(need(messages_json != nullptr, "messages_json"));
  return engine::parse_conversation(messages_json, add_generation_prompt != 0);
}

}  // namespace

const char* orrery_version(void) {
  return "0.1.0";
}

void orrery_model_options_init(orrery_model_options* options) {
  if (options != nullptr) *options = default_model_options();
}

int orrery_model_open(const char* path, const orrery_model_options* options, orrery_model** model,
                      orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY_VOID(need(path != nullptr, "path"));
    ORRERY_TRY_VOID(need(model != nullptr, "model"));
    ORRERY_TRY(const auto converted, convert(complete(default_model_options(), options)));
    ORRERY_TRY(auto opened, engine::Model::open(path, converted, orrery::storage::system_io()));
    *model = new orrery_model{std::move(opened)};
    return {};
  });
}

void orrery_model_close(orrery_model* model) {
  delete model;
}

void orrery_model_get_info(const orrery_model* model, orrery_model_info* out) {
  if (model == nullptr || out == nullptr) return;
  const engine::ModelInfo& info = model->model->info();
  const text::SpecialTokens& special = model->model->tokenizer().special();
  orrery_model_info result{};
  result.name = info.name.c_str();
  result.family = info.family.c_str();
  result.device = info.device.c_str();
  result.weight_bytes = info.weight_bytes;
  result.scratch_bytes = info.scratch_bytes;
  result.cache_bytes_per_token = info.cache_bytes_per_token;
  result.context = info.context;
  result.training_context = info.training_context;
  result.vocabulary = model->model->n_tokens();
  result.threads = info.threads;
  result.bos = special.bos;
  result.eos = special.eos;
  result.has_chat_template = model->model->has_chat_template() ? 1 : 0;
  give(out, result);
}

int orrery_tokenize(const orrery_model* model, const char* text, size_t text_size, int add_special,
                    int parse_special, int32_t* ids, size_t capacity, size_t* count,
                    orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY_VOID(need(model != nullptr, "model"));
    ORRERY_TRY_VOID(need(text != nullptr || text_size == 0, "text"));
    const auto tokens = model->model->tokenizer().encode(
        std::string_view(text, text_size),
        {.add_special = add_special != 0, .parse_special = parse_special != 0});
    return fill(tokens, ids, capacity, count);
  });
}

int orrery_detokenize(const orrery_model* model, const int32_t* ids, size_t n_ids, int keep_special,
                      char* text, size_t capacity, size_t* count, orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY_VOID(need(model != nullptr, "model"));
    ORRERY_TRY_VOID(need(ids != nullptr || n_ids == 0, "ids"));
    const std::span tokens(ids, n_ids);
    for (const int32_t id : tokens) {
      if (id >= 0 && id < model->model->tokenizer().vocab_size()) continue;
      return fail("E_TOKENS", "token " + std::to_string(id) + " is not in the vocabulary");
    }
    return fill(model->model->tokenizer().decode(tokens, keep_special != 0), text, capacity, count);
  });
}

int orrery_render(const orrery_model* model, const char* messages_json, int add_generation_prompt,
                  char* text, size_t capacity, size_t* count, orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY(auto variables, variables_of(model, messages_json, add_generation_prompt));
    ORRERY_TRY(const auto rendered, engine::render_chat(*model->model, std::move(variables)));
    return fill(rendered, text, capacity, count);
  });
}

int orrery_render_tokens(const orrery_model* model, const char* messages_json,
                         int add_generation_prompt, int32_t* ids, size_t capacity, size_t* count,
                         orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY(auto variables, variables_of(model, messages_json, add_generation_prompt));
    ORRERY_TRY(const auto tokens, engine::chat_tokens(*model->model, std::move(variables)));
    return fill(tokens, ids, capacity, count);
  });
}

int orrery_session_open(const orrery_model* model, orrery_session** session, orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY_VOID(need(model != nullptr, "model"));
    ORRERY_TRY_VOID(need(session != nullptr, "session"));
    ORRERY_TRY(auto opened, engine::Session::open(model->model->executor()));
    *session = new orrery_session{model->model, std::move(opened)};
    return {};
  });
}

void orrery_session_close(orrery_session* session) {
  delete session;
}

void orrery_session_clear(orrery_session* session) {
  if (session == nullptr) return;
  const auto turn = session->session->executor().turn();
  session->session->clear();
}

int orrery_adapter_load(const orrery_model* model, const char* path, uint32_t* adapter,
                        orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY_VOID(need(model != nullptr, "model"));
    ORRERY_TRY_VOID(need(path != nullptr, "path"));
    ORRERY_TRY_VOID(need(adapter != nullptr, "adapter"));
    ORRERY_TRY(*adapter, model->model->load_adapter(path, orrery::storage::system_io()));
    return {};
  });
}

int orrery_session_set_adapters(orrery_session* session, const orrery_adapter_use* uses,
                                size_t n_uses, orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY_VOID(need(session != nullptr, "session"));
    ORRERY_TRY_VOID(need(uses != nullptr || n_uses == 0, "uses"));
    std::vector<engine::AdapterUse> adapters;
    for (const orrery_adapter_use& use : std::span(uses, n_uses)) {
      adapters.push_back({use.adapter, use.scale});
    }
    const auto turn = session->session->executor().turn();
    return session->session->set_adapters(adapters);
  });
}

int orrery_evaluate(orrery_session* session, const int32_t* ids, size_t n_ids, float* logits,
                    size_t capacity, orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY_VOID(need(session != nullptr, "session"));
    ORRERY_TRY_VOID(need(ids != nullptr || n_ids == 0, "ids"));
    const auto turn = session->session->executor().turn();
    ORRERY_TRY(const auto evaluation, session->session->evaluate(std::span(ids, n_ids)));
    const auto n = static_cast<std::size_t>(session->model->n_tokens());
    return fill(evaluation.logits.first(n), logits, capacity, nullptr);
  });
}

void orrery_sampling_init(const orrery_model* model, orrery_sampling* sampling) {
  if (sampling == nullptr) return;
  *sampling = convert(model != nullptr ? model->model->sampling() : engine::SamplerParams{});
}

void orrery_generate_options_init(orrery_generate_options* options) {
  if (options == nullptr) return;
  *options = {};
  options->size = sizeof *options;
}

int orrery_generate(orrery_session* session, const int32_t* prompt, size_t n_prompt,
                    const orrery_sampling* sampling, const orrery_generate_options* options,
                    int32_t* ids, size_t capacity, orrery_generation* generation,
                    orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY_VOID(need(session != nullptr, "session"));
    ORRERY_TRY_VOID(need(prompt != nullptr || n_prompt == 0, "prompt"));
    return generate(*session, std::span(prompt, n_prompt), sampling, options,
                    std::span(ids, ids == nullptr ? 0 : capacity), generation);
  });
}

int orrery_embed(const orrery_model* model, const int32_t* ids, size_t n_ids, float* vector,
                 size_t capacity, size_t* count, orrery_error* error) {
  return guarded(error, [&]() -> Status {
    ORRERY_TRY_VOID(need(model != nullptr, "model"));
    ORRERY_TRY_VOID(need(ids != nullptr || n_ids == 0, "ids"));
    if (vector == nullptr) {
      if (count != nullptr) *count = model->model->hparams().embedding_dim();
      return {};
    }
    ORRERY_TRY(const auto made, model->model->embed(std::span(ids, n_ids)));
    return fill(made, vector, capacity, count);
  });
}
