#include "engine/roll.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/checked.hpp"
#include "tensor/cache_page.hpp"

namespace orrery::engine {
namespace {

using plan::kPageTokens;
using plan::Op;

// What a distance does to the pairs of a key.
struct Turn {
  std::vector<float> cosines, sines;

  Turn(const std::vector<float>& frequencies, std::int64_t distance) {
    for (const float frequency : frequencies) {
      const double angle = static_cast<double>(distance) * static_cast<double>(frequency);
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  void apply(plan::RopeStyle style, float* key) const {
    const std::size_t pairs = cosines.size();
    const bool adjacent = style == plan::RopeStyle::adjacent;
    for (std::size_t i = 0; i < pairs; ++i) {
      float& x = key[adjacent ? 2 * i : i];
      float& y = key[adjacent ? 2 * i + 1 : i + pairs];
      const float turned = x * cosines[i] - y * sines[i];
      y = x * sines[i] + y * cosines[i];
      x = turned;
    }
  }
};

// Why positions of this step cannot change afterwards; empty where they can.
std::string_view obstacle(const plan::Step& step) {
  switch (step.op) {
    case Op::embed:
      return step.w[1] != plan::kNone ? "it adds a learned vector for each position" : "";
    case Op::mla_write:
    case Op::mla_attention:
      return "its latent attention keeps no keys of their own";
    case Op::conv_state:
    case Op::scan_state:
    case Op::delta_state:
      return "its states hold all that was read, from which nothing can be dropped";
    default:
      return "";
  }
}

}  // namespace

std::uint32_t roll_sinks(std::uint32_t keep) {
  const std::uint64_t sinks = align_up(std::max<std::uint64_t>(keep, 1), kPageTokens);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(sinks, UINT32_MAX));
}

std::uint32_t roll_step(const plan::Plan& decode, std::uint32_t context, std::uint32_t keep) {
  const std::uint64_t sinks = roll_sinks(keep);
  if (sinks >= context) return 0;
  const std::uint64_t rest = context - sinks;
  std::uint64_t step = rest / kPageTokens == 1 ? kPageTokens : rest / 2;
  for (const plan::CacheGroup& group : decode.groups) {
    if (group.kind != plan::CacheKind::window || group.window >= context) continue;
    step = std::min(step, rest - std::min<std::uint64_t>(rest, group.window));
  }
  return static_cast<std::uint32_t>(step / kPageTokens * kPageTokens);
}

Status check_rolls(const plan::Plan& decode, std::uint32_t context, std::uint32_t keep) {
  for (const plan::Step& step : decode.steps) {
    const std::string_view why = obstacle(step);
    if (why.empty()) continue;
    return fail("E_UNSUPPORTED",
                fmt::format("the context of this model cannot roll: {}; choose to shift", why));
  }
  if (roll_step(decode, context, keep) > 0) return {};
  return fail("E_CONTEXT",
              fmt::format("a context of {} tokens is too short to roll: it drops whole pages of {} "
                          "behind the {} that stay and in front of the widest window; start with a "
                          "larger context or choose to shift",
                          context, kPageTokens, roll_sinks(keep)));
}

void rotate_keys(const plan::Plan& decode, const KvPages& kv, SequenceId sequence,
                 std::uint32_t first, std::int64_t distance) {
  const std::uint32_t length = kv.length(sequence);
  for (const plan::Step& step : decode.steps) {
    if (step.op != Op::rope_kv_write || step.rope == plan::RopeStyle::none) continue;
    const auto g = static_cast<std::size_t>(step.group);
    const plan::CacheGroup& shape = decode.groups[g];
    const Turn turn(decode.constants[static_cast<std::size_t>(step.rope_table)], distance);
    std::vector<float> key(shape.k_dim);
    const auto dim = static_cast<int>(shape.k_dim);
    for (std::uint32_t entry = first; entry < ceil_div(length, kPageTokens); ++entry) {
      if (kv.table(sequence, g)[entry] < 0) continue;  // behind the window
      const auto tokens = static_cast<int>(std::min(length - entry * kPageTokens, kPageTokens));
      std::byte* head = kv.page(sequence, g, entry).data() +
                        static_cast<std::uint64_t>(step.group_layer) * shape.layer_bytes();
      for (std::uint32_t h = 0; h < shape.kv_heads; ++h, head += shape.head_bytes()) {
        for (int slot = 0; slot < tokens; ++slot) {
          read_cache_row(shape.k_type, CacheSide::keys, dim, slot, head, key.data());
          turn.apply(step.rope, key.data());
          write_cache_row(shape.k_type, CacheSide::keys, dim, slot, key.data(), head);
        }
      }
    }
  }
}

}  // namespace orrery::engine
