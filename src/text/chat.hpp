// From a conversation to token ids: the template renders, then the text is tokenized as one string
// in which only what the template wrote can be special tokens.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

namespace orrery::text {

// Special tokens count where they lie wholly in markup; everything between two of them is encoded
// as one plain text, whoever wrote it. A model that begins every text with BOS gets one here,
// unless the template has written it already.
std::vector<TokenId> encode_pieces(const Tokenizer& tokenizer,
                                   std::span<const RenderedPiece> pieces);

// Renders and encodes. `variables` is an object: messages, tools, add_generation_prompt, ...;
// bos_token, eos_token, unk_token and pad_token are set from the tokenizer, whatever it holds; the
// messages are brought into the form that the template accepts (conversation.hpp). E_RENDER from
// the template.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         Json variables, const RenderLimits& limits = {});

// The text that encode_chat encodes.
Result<std::string> render_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                Json variables, const RenderLimits& limits = {});

}  // namespace orrery::text
