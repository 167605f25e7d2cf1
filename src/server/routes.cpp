#include "server/handlers.hpp"
#include "server/router.hpp"

namespace orrery::server {
namespace {

using enum Where;
using enum Dialect;

constexpr Route kRoutes[] = {
    {"GET", "/health", openai, network, health, false},
    {"GET", "/v1/health", openai, network, health, false},
    {"GET", "/metrics", openai, network, metrics},
    {"GET", "/openapi.json", openai, network, server::openapi},

    {"POST", "/v1/chat/completions", openai, texts, openai_chat},
    {"POST", "/chat/completions", openai, texts, openai_chat},
    {"POST", "/v1/completions", openai, texts, openai_completions},
    {"POST", "/v1/responses", openai, texts, openai_responses},
    {"POST", "/v1/embeddings", openai, Where::vectors, openai_embeddings},
    {"POST", "/embeddings", openai, Where::vectors, openai_embeddings},
    {"POST", "/v1/rerank", openai, Where::vectors, rerank},
    {"POST", "/v1/reranking", openai, Where::vectors, rerank},
    {"POST", "/rerank", openai, Where::vectors, rerank},
    {"POST", "/reranking", openai, Where::vectors, rerank},
    {"GET", "/v1/models", openai, network, openai_models},
    {"GET", "/models", openai, network, openai_models},
    {"GET", "/v1/models/*", openai, network, openai_model},

    {"POST", "/v1/messages", anthropic, texts, anthropic_messages},
    {"POST", "/v1/messages/count_tokens", anthropic, texts, anthropic_count_tokens},

    {"POST", "/api/chat", ollama, texts, ollama_chat},
    {"POST", "/api/generate", ollama, texts, ollama_generate},
    {"GET", "/api/tags", ollama, network, ollama_tags},
    {"GET", "/api/ps", ollama, network, ollama_ps},
    {"GET", "/api/version", ollama, network, ollama_version},
    {"POST", "/api/show", ollama, texts, ollama_show, true, false},
    {"POST", "/api/embed", ollama, Where::vectors, ollama_embed},
    {"POST", "/api/embeddings", ollama, Where::vectors, ollama_embed},
    {"POST", "/api/pull", ollama, network, ollama_pull},
    {"DELETE", "/api/delete", ollama, network, ollama_delete},
    {"POST", "/api/create", ollama, network, ollama_unsupported},
    {"POST", "/api/copy", ollama, network, ollama_unsupported},
    {"POST", "/api/push", ollama, network, ollama_unsupported},

    {"POST", "/completion", openai, texts, native_completion},
    {"POST", "/completions", openai, texts, native_completion},
    {"POST", "/infill", openai, texts, native_infill},
    {"GET", "/slots", openai, files, native_slots, true, false},
    {"POST", "/slots/*", openai, files, native_slot_action},
    {"GET", "/lora-adapters", openai, network, lora_adapters},
    {"POST", "/lora-adapters", openai, network, lora_set_adapters},
    {"GET", "/props", openai, network, native_props},
    {"POST", "/tokenize", openai, texts, native_tokenize},
    {"POST", "/detokenize", openai, texts, native_detokenize},
    {"POST", "/apply-template", openai, texts, native_apply_template},
};

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

}  // namespace orrery::server
