#include "text/chat.hpp"

#include <array>
#include <utility>

#include "text/conversation.hpp"

namespace orrery::text {

namespace {

// Whether the model's own frame around a text starts with BOS.
bool begins_with_bos(const Tokenizer& tokenizer) {
  if (tokenizer.special().bos == kNoToken) return false;
  const auto frame = tokenizer.encode("", {.add_special = true});
  return !frame.empty() && frame.front() == tokenizer.special().bos;
}

// The caller cannot name special tokens: what is markup comes from the tokenizer alone.
void set_token_variables(const Tokenizer& tokenizer, Json& variables) {
  if (!variables.is_object()) return;
  const SpecialTokens& special = tokenizer.special();
  const std::array<std::pair<const char*, TokenId>, 4> tokens{{{"bos_token", special.bos},
                                                               {"eos_token", special.eos},
                                                               {"unk_token", special.unk},
                                                               {"pad_token", special.pad}}};
  for (const auto& [name, id] : tokens) {
    variables.erase(name);
    if (id != kNoToken) variables[name] = std::string(tokenizer.token_text(id));
  }
  variables.erase("sep_token");
  variables.erase("cls_token");
}

}  // namespace

std::vector<TokenId> encode_pieces(const Tokenizer& tokenizer,
                                   std::span<const RenderedPiece> pieces) {
  std::string text;
  std::vector<ByteRange> content;
  for (const RenderedPiece& piece : pieces) {
    if (piece.text.empty()) continue;
    const std::size_t begin = text.size();
    text += piece.text;
    if (!piece.is_markup) content.push_back({begin, text.size()});
  }
  auto ids = tokenizer.encode(text, {.parse_special = true, .literal = content});
  const TokenId bos = tokenizer.special().bos;
  const bool written = !ids.empty() && ids.front() == bos;
  if (!written && begins_with_bos(tokenizer)) ids.insert(ids.begin(), bos);
  return ids;
}

Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         Json variables, const RenderLimits& limits) {
  set_token_variables(tokenizer, variables);
  ORRERY_TRY(const auto pieces, render_conversation(chat, std::move(variables), limits));
  return encode_pieces(tokenizer, pieces);
}

Result<std::string> render_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                Json variables, const RenderLimits& limits) {
  set_token_variables(tokenizer, variables);
  ORRERY_TRY(const auto pieces, render_conversation(chat, std::move(variables), limits));
  std::string text;
  for (const RenderedPiece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace orrery::text
