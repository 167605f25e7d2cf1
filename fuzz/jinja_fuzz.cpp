// Chat templates: any source on any variables. The input is a template, then, after a byte 1, JSON
// with the variables. Whatever happens, the pieces of a rendering join to its text.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/chat_template.hpp"

namespace {

const char* const kVariables = R"({
  "messages": [{"role": "system", "content": "Be terse."},
    {"role": "user", "content": "Hi <b> \u00e9"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
      "function": {"name": "f", "arguments": {"a": [1, 2.5, true, null, "x"]}}}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
  "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 7, "f": 2.5,
  "s": "Hello, World", "list": [3, 1, 2], "d": {"b": 1, "a": "x"}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orrery::text;
  static const Json kDefaults = Json::parse(kVariables);
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t split = input.find('\x01');
  const auto compiled = ChatTemplate::compile(input.substr(0, split));
  if (!compiled) return 0;
  Json variables = kDefaults;
  if (split != std::string_view::npos) {
    variables = Json::parse(input.substr(split + 1), nullptr, false);
    if (variables.is_discarded()) return 0;
  }
  RenderLimits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 1U << 20;
  limits.now_unix_seconds = 1'700'000'000;
  const auto pieces = (*compiled)->render_pieces(variables, limits);
  const auto text = (*compiled)->render(variables, limits);
  if (pieces.has_value() != text.has_value()) abort();
  if (!pieces) return 0;
  std::string joined;
  for (const RenderedPiece& piece : *pieces) joined += piece.text;
  if (joined != *text) abort();
  return 0;
}
