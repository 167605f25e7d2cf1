// Grammars, patterns and schemas: any of them, and any text. The first byte says which the input
// is; a byte 1 ends it, and what follows is the text. Whatever happens, the mask and accept()
// agree.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar.hpp"

namespace {

using namespace orrery::text;

// The bytes, some pairs, and an end.
class Pieces final : public Tokenizer {
 public:
  Pieces() {
    for (int byte = 0; byte < 256; ++byte)
      texts_.push_back(std::string(1, static_cast<char>(byte)));
    for (const char* text : {"aa", "\":", "\"}", "},", "\xC3\xA9", ""}) texts_.push_back(text);
    special_.end_of_generation = {vocab_size() - 1};
  }
  std::vector<TokenId> encode(std::string_view, EncodeOptions) const override { return {}; }
  std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  std::string_view piece(TokenId id) const override { return texts_[static_cast<std::size_t>(id)]; }
  bool is_special(TokenId id) const override { return id == vocab_size() - 1; }
  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(texts_.size()); }
  const SpecialTokens& special() const override { return special_; }
  TokenId find(std::string_view) const override { return kNoToken; }
  std::string_view token_text(TokenId id) const override { return piece(id); }
  std::string_view model_name() const override { return "pieces"; }

 private:
  std::vector<std::string> texts_;
  SpecialTokens special_;
};

orrery::Result<Grammars::Source> compile(Grammars& grammars, char kind, std::string_view source) {
  if (kind == 'g') return grammars.gbnf(source);
  if (kind == 'r') return grammars.regex(source);
  const Json schema = Json::parse(source, nullptr, false);
  if (schema.is_discarded()) return orrery::fail("E_JSON", "no JSON");
  return grammars.json_schema(schema);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto kPieces = std::make_shared<const Pieces>();
  if (size == 0) return 0;
  Grammars grammars(kPieces);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t split = std::min(input.find('\x01'), size);
  const auto source =
      compile(grammars, input[0], input.substr(1, std::max<std::size_t>(split, 1) - 1));
  if (!source) return 0;
  const auto constraint = (*source)->start();
  for (std::size_t i = split + 1; i < size && i < split + 64; ++i) {
    const auto token = static_cast<TokenId>(data[i]);
    const bool is_allowed = (constraint->allowed()[data[i] / 32U] >> (data[i] % 32U) & 1U) != 0;
    if (is_allowed != constraint->accept(token).has_value()) abort();
    if (!is_allowed) return 0;
  }
  constraint->allowed();
  static_cast<void>(constraint->is_finished());
  return 0;
}
