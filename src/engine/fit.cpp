#include "engine/fit.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/checked.hpp"
#include "engine/quantize.hpp"

namespace orrery::engine {
namespace {

constexpr std::array<std::string_view, 7> kMixes = {"Q8_0",   "Q6_K",   "Q5_K_M", "Q4_K_M",
                                                    "Q4_K_S", "Q3_K_M", "Q2_K_S"};

}  // namespace

Result<Fit> fit_model(const model::GgufImage& image, const FitNeeds& needs, std::uint64_t limit) {
  const std::uint64_t beside = needs.cache + needs.scratch;  // both are of this machine
  const auto fits = [&](const Fit& fit) {
    const CheckedU64 all = checked_add(fit.weights, beside);
    return all && *all <= limit;
  };
  Fit fit{std::nullopt, image_bytes(image, std::nullopt)};
  if (fits(fit)) return fit;
  std::string_view smallest = "the model as it is";
  for (const std::string_view name : kMixes) {
    const auto mix = find_mix(name);
    const std::uint64_t bytes = image_bytes(image, mix);
    if (bytes >= fit.weights) continue;
    fit = {mix, bytes};
    smallest = name;
    if (fits(fit)) return fit;
  }
  return fail(
      "E_MEMORY",
      fmt::format("the model does not fit into {} bytes: {}, its smallest form, needs {} "
                  "({} of weights, {} of cache for {} tokens, {} of scratch); give as much, "
                  "or ask for a smaller context with -c",
                  limit, smallest, fit.weights + beside, fit.weights, needs.cache, needs.context,
                  needs.scratch));
}

}  // namespace orrery::engine
