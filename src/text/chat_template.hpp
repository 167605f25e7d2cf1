// Chat templates: the model's own Jinja source, rendered by our own interpreter (no reflection, no
// host objects, bounded steps and output), byte for byte as Python jinja2 does it for
// transformers (trim_blocks, lstrip_blocks, loop controls, tojson, raise_exception, strftime_now).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace orrery::text {

// Objects keep the order of their keys, as Python's dicts do.
using Json = nlohmann::ordered_json;

// Rendered text in pieces: what the template wrote is markup, where special tokens are parsed; what
// came from the caller's variables (message content, names, tool text) is content, where they are
// not. Adjacent pieces of the same kind are joined.
struct RenderedPiece {
  std::string text;
  bool is_markup = true;
};

struct RenderLimits {
  std::uint64_t max_steps = 5'000'000;
  std::uint64_t max_output_bytes = 16U << 20;
  std::int64_t now_unix_seconds = 0;  // what strftime_now sees; 0 means the wall clock
};

class ChatTemplate {
 public:
  // Compiles a template. E_TEMPLATE names line and column.
  static Result<std::shared_ptr<const ChatTemplate>> compile(std::string_view source);
  virtual ~ChatTemplate() = default;

  // `variables` is an object: messages, tools, add_generation_prompt, bos_token, eos_token, ...
  virtual Result<std::string> render(const Json& variables,
                                     const RenderLimits& limits = {}) const = 0;
  // The same text with the provenance of every byte.
  virtual Result<std::vector<RenderedPiece>> render_pieces(
      const Json& variables, const RenderLimits& limits = {}) const = 0;
};

}  // namespace orrery::text
