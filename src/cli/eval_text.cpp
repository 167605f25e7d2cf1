#include "cli/eval_text.hpp"

#include <string_view>

#include "cli/model_arg.hpp"

namespace orrery::cli {
namespace {

constexpr std::uint32_t kContext = 512, kShortContext = 128;

// Prose, a recipe, a letter, code and a table: some 500 tokens.
constexpr std::string_view kText =
    R"(The harbour was quiet when the first boats came home. Anna stood at the end of the pier and
counted the lights, as her grandfather had taught her: seven had left in the morning, and six were
back. The wind had turned to the north, and the water between the stones was the colour of slate.
She waited until the church bell had struck nine. Then, far beyond the point, a small yellow lamp
rose and fell with the waves, and she began to walk back towards the village.

To make bread for four people, mix 500 grams of flour with 10 grams of salt, 7 grams of dry yeast
and 320 millilitres of warm water. Knead the dough for ten minutes, cover the bowl with a cloth, and
let it rest for two hours in a warm place. Heat the oven to 230 degrees. Bake the loaf for about 35
minutes, until it sounds hollow when you tap the bottom, and let it cool before you cut it.

Dear Mr. Smith, thank you for your letter of 3 May. We are sorry to hear that the package did not
arrive in time. Our records show that it left our warehouse on Monday, and the carrier expects to
deliver it within two days. If you would like a refund, please let us know by the end of the week.

def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values) if values else None

Water boils at 100 degrees Celsius at sea level. The Earth moves around the Sun once a year, and the
Moon moves around the Earth in about 27 days. Light travels at about 300,000 kilometres per second,
so that sunlight needs roughly eight minutes to reach us. In 1665 Isaac Newton used a prism to show
that white light is a mixture of many colours, each of which is bent by a different angle.
)";

}  // namespace

std::uint32_t eval_context(const std::string& file, std::uint32_t context) {
  if (context != 0) return context;
  return file.empty() ? kShortContext : kContext;
}

Result<engine::EvalText> read_eval_text(const std::string& file, std::uint32_t context,
                                        const engine::Model& model) {
  std::string text(kText);
  if (!file.empty()) {
    ORRERY_TRY(text, read_text(file));
  }
  return engine::cut_windows(model.tokenizer(), text, eval_context(file, context));
}

}  // namespace orrery::cli
