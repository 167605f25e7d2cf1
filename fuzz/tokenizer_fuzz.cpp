// Random vocabularies and texts: whatever loads must encode within its bounds and decode.
//
// The first byte chooses the kind; then pieces, each with a leading length byte, become tokens,
// merges, scores and the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.hpp"
#include "text/unicode.hpp"

namespace {

using namespace orrery::text;

void require(bool condition) {
  if (!condition) std::abort();
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : bytes_(reinterpret_cast<const char*>(data), size) {}
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const char c = bytes_.front();
    bytes_.remove_prefix(1);
    return static_cast<std::uint8_t>(c);
  }
  std::string_view piece() {
    const std::size_t size = byte() % 16U;
    const std::string_view out = bytes_.substr(0, size);
    bytes_.remove_prefix(out.size());
    return out;
  }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

TokenizerSpec make_spec(Input& in) {
  TokenizerSpec spec;
  const std::uint8_t kind = in.byte();
  const std::uint8_t flags = in.byte();
  spec.model = static_cast<ModelKind>(kind % 4U);
  spec.byte_level = (flags & 1U) != 0;
  spec.byte_fallback = (flags & 2U) != 0;
  spec.ignore_merges = (flags & 4U) != 0;
  spec.fuse_unknown = (flags & 8U) != 0;
  spec.escaped_spaces = (flags & 16U) != 0;
  spec.newline_words = (flags & 32U) != 0;
  spec.continuation_prefix = "##";
  const std::size_t n = 2 + in.byte() % 40U;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint8_t type = in.byte();
    spec.tokens.push_back(in.piece());
    spec.types.push_back(static_cast<TokenType>(1 + type % 5U));
    spec.scores.push_back(static_cast<float>(type) - 128.0F);
    if ((type & 64U) != 0) {
      spec.added.push_back({.id = static_cast<TokenId>(i),
                            .content = spec.tokens.back(),
                            .special = (type & 1U) != 0,
                            .lstrip = (type & 2U) != 0,
                            .rstrip = (type & 4U) != 0,
                            .single_word = (type & 8U) != 0,
                            .normalized = (type & 16U) != 0});
    }
  }
  for (std::size_t i = in.byte() % 20U; i > 0; --i) {
    const std::string_view left = spec.tokens[in.byte() % n];
    spec.merges.push_back({left, spec.tokens[in.byte() % n]});
  }
  spec.unknown = (flags & 64U) != 0 ? 0 : kNoToken;
  for (std::size_t i = in.byte() % 4U; i > 0; --i) {
    NormalizerStep step{.kind = static_cast<NormalizerStep::Kind>(in.byte() % 16U)};
    step.a = in.piece();
    step.b = in.piece();
    step.left = step.right = true;
    spec.normalizer.push_back(step);
  }
  for (std::size_t i = in.byte() % 4U; i > 0; --i) {
    PreTokenizerStep step{.kind = static_cast<PreTokenizerStep::Kind>(in.byte() % 8U)};
    step.behavior = static_cast<SplitBehavior>(in.byte() % 5U);
    step.invert = in.byte() % 2U != 0;
    step.prepend = static_cast<PreTokenizerStep::Prepend>(in.byte() % 3U);
    step.pattern = in.piece();
    spec.pre_tokenizer.push_back(step);
  }
  return spec;
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.encode(text, {.add_special = true, .parse_special = parse_special});
    for (const TokenId id : ids) {
      require(id >= 0 && id < tokenizer.vocab_size());
    }
    Utf8Stream stream;
    std::string streamed;
    for (const TokenId id : ids) streamed += stream.push(tokenizer.piece(id));
    streamed += stream.finish();
    require(is_valid_utf8(streamed));
    (void)tokenizer.decode(ids, !parse_special);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  if (in.byte() % 4U == 0) {
    // tokenizer.json as it comes, used on itself.
    auto spec = spec_from_json(in.rest(), "", "");
    if (!spec) return 0;
    const auto tokenizer = build_tokenizer(std::move(*spec));
    if (tokenizer) use(**tokenizer, in.rest());
    return 0;
  }
  const auto tokenizer = build_tokenizer(make_spec(in));
  if (tokenizer) use(**tokenizer, in.rest());
  return 0;
}
