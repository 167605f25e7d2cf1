#include "text/chat_template.hpp"

#include <new>

#include "text/jinja_interp.hpp"
#include "text/jinja_parser.hpp"

namespace orrery::text {

namespace {

class CompiledTemplate final : public ChatTemplate {
 public:
  explicit CompiledTemplate(std::shared_ptr<const jinja::Program> program)
      : program_(std::move(program)) {}

  Result<std::string> render(const Json& variables, const RenderLimits& limits) const override {
    ORRERY_TRY(const jinja::Text text, run(variables, limits));
    return text.bytes();
  }

  Result<std::vector<RenderedPiece>> render_pieces(const Json& variables,
                                                   const RenderLimits& limits) const override {
    ORRERY_TRY(const jinja::Text text, run(variables, limits));
    std::vector<RenderedPiece> pieces;
    text.for_each_run([&](std::string_view bytes, bool markup) {
      pieces.push_back({std::string(bytes), markup});
    });
    return pieces;
  }

 private:
  Result<jinja::Text> run(const Json& variables, const RenderLimits& limits) const {
    if (!variables.is_object()) {
      return fail("E_RENDER", "chat template: the variables are not an object");
    }
    try {
      jinja::Interpreter interpreter(*program_, variables, limits);
      try {
        return interpreter.run();
      } catch (const jinja::RenderError& error) {
        return fail("E_RENDER", "chat template, line " + std::to_string(interpreter.line()) + ": " +
                                    error.message);
      }
    } catch (const std::bad_alloc&) {
      return fail("E_RENDER", "chat template: out of memory");
    }
  }

  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string_view source) {
  ORRERY_TRY(auto program, jinja::parse(source));
  return std::make_shared<const CompiledTemplate>(std::move(program));
}

}  // namespace orrery::text
