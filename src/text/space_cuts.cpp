#include "text/space_cuts.hpp"

namespace orrery::text {
namespace {
constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
}

SpaceCuts::SpaceCuts(const Vocabulary& vocabulary) {
  never_ = vocabulary.find_textual(kSpace) == kNoToken;
  for (const std::string_view token : vocabulary.spec().tokens) {
    for (std::size_t at = token.find(kSpace, 1); at != std::string_view::npos;
         at = token.find(kSpace, at + kSpace.size())) {
      const bool is_run = at >= kSpace.size() && token.substr(at - kSpace.size(), 3) == kSpace;
      if (!is_run) joins_space_.set(static_cast<std::uint8_t>(token[at - 1]));
    }
  }
}

std::size_t SpaceCuts::next(std::string_view text, std::size_t start) const {
  if (never_) return text.size();
  for (std::size_t at = text.find(kSpace, start + 1); at != std::string_view::npos;
       at = text.find(kSpace, at + kSpace.size())) {
    const bool is_run = at >= start + kSpace.size() && text.substr(at - kSpace.size(), 3) == kSpace;
    if (!is_run && !joins_space_.test(static_cast<std::uint8_t>(text[at - 1]))) return at;
  }
  return text.size();
}

}  // namespace orrery::text
