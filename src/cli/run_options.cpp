#include "cli/run_options.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include "cli/terminal.hpp"

namespace orrery::cli {

engine::SamplerParams sampler_params(const RunOptions& options, const engine::Model& model) {
  engine::SamplerParams params = model.sampling();
  if (options.temperature) params.temperature = *options.temperature;
  if (options.top_k) params.top_k = *options.top_k;
  if (options.top_p) params.top_p = *options.top_p;
  if (options.min_p) params.min_p = *options.min_p;
  if (options.repeat_penalty) params.repeat_penalty = *options.repeat_penalty;
  if (options.seed) params.seed = *options.seed;
  return params;
}

engine::GenerateOptions generate_options(const RunOptions& options) {
  engine::GenerateOptions generate;
  generate.max_tokens = options.max_tokens;
  generate.stop = options.stop;
  generate.overflow = options.overflow;
  generate.cancel = &interrupted();
  return generate;
}

std::atomic<bool>& interrupted() {
  static std::atomic<bool> flag{false};
  return flag;
}

void catch_interrupts() {
  interrupted();  // made here, not in the handler
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted().store(true); };
  sigaction(SIGINT, &action, nullptr);  // no SA_RESTART: a read at the prompt ends too
}

std::string stats_line(const engine::Generation& generation) {
  const auto rate = [](std::size_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::uint32_t computed = generation.prompt_tokens - generation.reused_tokens;
  return fmt::format(
      "prompt {} tokens ({} reused), {:.0f} tok/s; answer {} tokens, {:.1f} tok/s; first token "
      "{:.0f} ms; peak memory {}",
      generation.prompt_tokens, generation.reused_tokens,
      rate(computed, generation.prefill_seconds), generation.tokens.size(),
      rate(generation.tokens.size(), generation.decode_seconds),
      generation.first_token_seconds * 1e3,
      human_bytes(static_cast<std::uint64_t>(usage.ru_maxrss) * 1024));
}

}  // namespace orrery::cli
