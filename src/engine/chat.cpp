#include "engine/chat.hpp"

#include <algorithm>
#include <string>

namespace orrery::engine {
namespace {

// Encodes rendered text: special tokens are looked for in markup only; all text between two of them
// is encoded as one, so that words which markup and content share stay whole.
class PieceEncoder {
 public:
  explicit PieceEncoder(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (text::TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      if (tokenizer.is_special(id) && !tokenizer.token_text(id).empty()) special_.push_back(id);
    }
    std::sort(special_.begin(), special_.end(), [&](text::TokenId a, text::TokenId b) {
      const std::string_view x = tokenizer.token_text(a);
      const std::string_view y = tokenizer.token_text(b);
      return x[0] != y[0] ? x[0] < y[0] : x.size() > y.size();  // the longest match wins
    });
  }

  std::vector<text::TokenId> encode(const std::vector<text::RenderedPiece>& pieces) {
    for (const text::RenderedPiece& piece : pieces) {
      if (piece.is_markup) {
        add_markup(piece.text);
      } else {
        plain_ += piece.text;
      }
    }
    flush();
    return std::move(ids_);
  }

 private:
  void add_markup(std::string_view text) {
    while (!text.empty()) {
      const text::TokenId id = special_at(text);
      if (id == text::kNoToken) {
        plain_ += text[0];
        text.remove_prefix(1);
        continue;
      }
      flush();
      ids_.push_back(id);
      text.remove_prefix(tokenizer_.token_text(id).size());
    }
  }

  text::TokenId special_at(std::string_view text) const {
    auto it = std::lower_bound(
        special_.begin(), special_.end(), text[0],
        [&](text::TokenId id, char c) { return tokenizer_.token_text(id)[0] < c; });
    for (; it != special_.end() && tokenizer_.token_text(*it)[0] == text[0]; ++it) {
      if (text.starts_with(tokenizer_.token_text(*it))) return *it;
    }
    return text::kNoToken;
  }

  void flush() {
    if (plain_.empty()) return;
    const auto ids = tokenizer_.encode(plain_, {.add_special = false, .parse_special = false});
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    plain_.clear();
  }

  const text::Tokenizer& tokenizer_;
  std::vector<text::TokenId> special_;
  std::vector<text::TokenId> ids_;
  std::string plain_;
};

}  // namespace

Result<text::Json> chat_variables(const Model& model, const text::Json& conversation,
                                  bool add_generation_prompt) {
  text::Json variables = text::Json::object();
  if (conversation.is_array()) {
    variables["messages"] = conversation;
  } else if (conversation.is_object()) {
    variables = conversation;
  } else {
    return fail("E_JSON", "a conversation is a JSON array of messages or an object that holds one");
  }
  const text::Tokenizer& tokenizer = model.tokenizer();
  const auto add = [&](const char* name, const text::Json& value) {
    if (!variables.contains(name)) variables[name] = value;
  };
  const auto spelled = [&](text::TokenId id) {
    return id == text::kNoToken ? std::string() : std::string(tokenizer.token_text(id));
  };
  add("add_generation_prompt", add_generation_prompt);
  add("bos_token", spelled(tokenizer.special().bos));
  add("eos_token", spelled(tokenizer.special().eos));
  return variables;
}

Result<text::Json> parse_conversation(const Model& model, std::string_view conversation_json,
                                      bool add_generation_prompt) {
  const text::Json parsed = text::Json::parse(conversation_json, nullptr, false);
  if (parsed.is_discarded()) return fail("E_JSON", "the conversation is not valid JSON");
  return chat_variables(model, parsed, add_generation_prompt);
}

Result<std::vector<text::TokenId>> chat_tokens(const Model& model, const text::Json& variables) {
  ORRERY_TRY(const text::ChatTemplate* chat_template, model.chat_template());
  ORRERY_TRY(const auto pieces, chat_template->render_pieces(variables));
  return PieceEncoder(model.tokenizer()).encode(pieces);
}

}  // namespace orrery::engine
