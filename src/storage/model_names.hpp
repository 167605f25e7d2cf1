// Short names of models: what they are called in the cache and where they come from.
#pragma once

#include <span>
#include <string_view>

namespace orrery::storage {

struct ModelName {
  std::string_view name;        // what a user types
  std::string_view file;        // its name in the cache folder
  std::string_view sha256;      // of the file, lower-case hex; empty when no bytes are pinned
  std::string_view repository;  // ORG/NAME on Hugging Face that has `file`; empty: from a package
};

inline constexpr std::string_view kDefaultModel = "smollm2-135m";

inline constexpr ModelName kModelNames[] = {
    {"smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf",
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", ""},
    {"gemma3-270m", "gemma-3-270m-q4_k_m.gguf",
     "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", ""},
    {"qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
     "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", ""},
    {"qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
     "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046", ""},
    {"smollm2-1.7b", "smollm2-1.7b-instruct-q4_k_m.gguf", "",
     "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF"},
    {"qwen2.5-0.5b", "qwen2.5-0.5b-instruct-q4_k_m.gguf", "", "Qwen/Qwen2.5-0.5B-Instruct-GGUF"},
    {"qwen2.5-1.5b", "qwen2.5-1.5b-instruct-q4_k_m.gguf", "", "Qwen/Qwen2.5-1.5B-Instruct-GGUF"},
    {"qwen2.5-3b", "qwen2.5-3b-instruct-q4_k_m.gguf", "", "Qwen/Qwen2.5-3B-Instruct-GGUF"},
    {"qwen3-0.6b", "Qwen3-0.6B-Q8_0.gguf", "", "Qwen/Qwen3-0.6B-GGUF"},
    {"qwen3-1.7b", "Qwen3-1.7B-Q8_0.gguf", "", "Qwen/Qwen3-1.7B-GGUF"},
    {"qwen3-4b", "Qwen3-4B-Q4_K_M.gguf", "", "Qwen/Qwen3-4B-GGUF"},
    {"qwen3-8b", "Qwen3-8B-Q4_K_M.gguf", "", "Qwen/Qwen3-8B-GGUF"},
    {"gemma3-1b", "gemma-3-1b-it-Q4_K_M.gguf", "", "ggml-org/gemma-3-1b-it-GGUF"},
    {"gemma3-4b", "gemma-3-4b-it-Q4_K_M.gguf", "", "ggml-org/gemma-3-4b-it-GGUF"},
    {"llama3.2-1b", "Llama-3.2-1B-Instruct-Q4_K_M.gguf", "",
     "bartowski/Llama-3.2-1B-Instruct-GGUF"},
    {"llama3.2-3b", "Llama-3.2-3B-Instruct-Q4_K_M.gguf", "",
     "bartowski/Llama-3.2-3B-Instruct-GGUF"},
};

// The entry of a short name, or null; "-instruct" at its end is optional.
constexpr const ModelName* find_model_name(std::string_view name) {
  constexpr std::string_view kSuffix = "-instruct";
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  for (const ModelName& entry : kModelNames) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace orrery::storage
