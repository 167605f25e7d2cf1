// What `orrery run` was asked for; shared by the single answer and the chat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/adapters.hpp"
#include "cli/open_model.hpp"
#include "engine/generate.hpp"

namespace orrery::cli {

struct RunOptions {
  std::vector<std::string> positional;  // [MODEL] [TEXT]
  std::string model, prompt, file, system;
  std::string session;                                     // the name of a kept one; "": none
  std::string grammar, grammar_file, schema, schema_file;  // at most one of them
  bool has_prompt = false;
  std::uint32_t max_tokens = 0;
  OpenOptions open;
  AdapterFiles adapters;
  std::optional<float> temperature, top_p, min_p, repeat_penalty;
  std::optional<std::int32_t> top_k;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
  engine::Overflow overflow = engine::Overflow::error;
  bool raw = false, quiet = false;

  bool is_constrained() const {
    return !grammar.empty() || !grammar_file.empty() || !schema.empty() || !schema_file.empty();
  }
};

// The model's sampling defaults with what the user set.
engine::SamplerParams sampler_params(const RunOptions& options, const engine::Model& model);
engine::GenerateOptions generate_options(const RunOptions& options);
// What holds the answer to the grammar or schema that was given; null for any text. Borrows the
// model. E_GRAMMAR, E_SCHEMA, E_LIMIT.
Result<std::unique_ptr<text::Constraint>> run_constraint(const RunOptions& options,
                                                         const engine::Model& model);
// Ctrl-C sets this flag; the running answer stops.
std::atomic<bool>& interrupted();
void catch_interrupts();
// "prompt 12 tokens, 345 tok/s; answer 100 tokens, 67 tok/s; first token 35 ms; memory 120 MiB"
std::string stats_line(const engine::Generation& generation);

// The terminal chat.
Status chat(const RunOptions& options, const engine::Model& model);

}  // namespace orrery::cli
