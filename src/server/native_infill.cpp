// POST /infill: the text between what stands before and behind the cursor, in llama.cpp's form.
#include <fmt/format.h>

#include <utility>

#include "server/handlers.hpp"
#include "server/native_request.hpp"

namespace orrery::server {
namespace {

using Tokens = std::vector<text::TokenId>;

constexpr std::size_t kMaxExtraFiles = 1024;

class InfillPrompt {
 public:
  explicit InfillPrompt(const ServedModel& model)
      : tokenizer_(model.model->tokenizer()), marks_(model.infill) {}

  void mark(text::TokenId id) {
    if (id != text::kNoToken) tokens_.push_back(id);
  }
  // Nothing in it becomes a special token.
  void text(std::string_view text) {
    const Tokens part = tokenizer_.encode(text, {});
    tokens_.insert(tokens_.end(), part.begin(), part.end());
  }
  void begin() {
    const text::TokenId bos = tokenizer_.special().bos;
    const Tokens around = tokenizer_.encode("", {.add_special = true});
    if (!around.empty() && around.front() == bos) tokens_.push_back(bos);
  }

  // Other files of the repository, as the models that know of such were trained; a comment between
  // them for the others.
  ApiStatus extra_files(const Json& list) {
    const auto wrong = [] {
      return refuse(400,
                    fmt::format("input_extra must be a list of up to {} objects with text and "
                                "filename",
                                kMaxExtraFiles),
                    "input_extra", "invalid_value");
    };
    if (!list.is_array() || list.size() > kMaxExtraFiles) return wrong();
    if (list.empty()) return {};
    if (marks_.repository != text::kNoToken) {
      mark(marks_.repository);
      text("repository\n");
    }
    for (const Json& file : list) {
      if (!file.is_object()) return wrong();
      ORRERY_TRY(const auto content, get_string(file, "text", SIZE_MAX));
      ORRERY_TRY(const auto name, get_string(file, "filename", 4096));
      if (!content) return wrong();
      separate(name.value_or("other"));
      text(*content);
    }
    separate("current");
    return {};
  }

  Tokens take() { return std::move(tokens_); }

 private:
  void separate(std::string_view name) {
    mark(marks_.file);
    text(marks_.file != text::kNoToken ? fmt::format("{}\n", name)
                                       : fmt::format("\n\n--- {} ---\n\n", name));
  }

  const text::Tokenizer& tokenizer_;
  const text::InfillTokens& marks_;
  Tokens tokens_;
};

ApiResult<Tokens> infill_prompt(const Json& body, const ServedModel& model) {
  InfillPrompt prompt(model);
  prompt.begin();
  if (const Json* extra = find(body, "input_extra")) {
    ORRERY_TRY_VOID(prompt.extra_files(*extra));
  }
  ORRERY_TRY(const auto before, get_string(body, "input_prefix", SIZE_MAX));
  ORRERY_TRY(const auto behind, get_string(body, "input_suffix", SIZE_MAX));
  ORRERY_TRY(const auto begun, get_string(body, "prompt", SIZE_MAX));
  if (!before || !behind) {
    const char* const missing = before ? "input_suffix" : "input_prefix";
    return refuse(400, fmt::format("{} is missing", missing), missing, "invalid_value");
  }
  prompt.mark(model.infill.prefix);
  prompt.text(*before);
  prompt.text(begun.value_or(""));
  prompt.mark(model.infill.suffix);
  prompt.text(*behind);
  prompt.mark(model.infill.middle);
  return prompt.take();
}

}  // namespace

ApiStatus native_infill(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(NativeOptions options, parse_native_options(app.models, body));
  if (!options.model->infill.is_whole()) {
    return refuse(501, "the model was not trained to fill in the middle: it has no tokens for it",
                  "model", "not_supported");
  }
  ORRERY_TRY(Tokens prompt, infill_prompt(body, *options.model));
  std::vector<Tokens> prompts;
  prompts.push_back(std::move(prompt));
  return complete(app, call, std::move(options), std::move(prompts));
}

}  // namespace orrery::server
