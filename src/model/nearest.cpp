#include "model/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "base/edit_distance.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"

namespace orrery::model {
namespace {

constexpr std::size_t kShown = 6;  // names in a sentence

std::size_t name_distance(std::string_view architecture, const Family& family) {
  std::size_t least = SIZE_MAX;
  for (const auto& names : {family.gguf, family.config}) {
    for (const std::string_view name : names) {
      least = std::min(least, edit_distance(architecture.substr(0, kMaxNameChars), name));
    }
  }
  return least;
}

// "blk.3.attn_q.weight" -> "blk.N.attn_q.weight"
std::string pattern_of(std::string_view name) {
  std::string pattern;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    const bool number = !part.empty() && std::ranges::all_of(part, is_digit);
    pattern += number ? "N" : part;
    if (end < name.size()) pattern += '.';
    begin = end + 1;
  }
  return pattern;
}

template <class Names>
std::vector<std::string> patterns_of(const Names& names) {
  std::set<std::string> patterns;
  for (const auto& name : names) patterns.insert(pattern_of(name));
  return {patterns.begin(), patterns.end()};
}

// The file read as one of this family.
Nearest read_as(const Family& family, const std::shared_ptr<const storage::Checkpoint>& checkpoint,
                Source& source) {
  Nearest trial;
  trial.architecture = source.architecture();
  trial.family = family.name;
  Tensors tensors(checkpoint, family.tensor_names, family.transposed);
  Hparams h;
  if (const Status read = read_parameters(*checkpoint, source, family, tensors, h); !read) {
    trial.parameters = read.error().message;
    return trial;
  }
  RecordOptions options;
  options.phase = h.causal ? plan::Phase::decode : plan::Phase::embed;
  options.capacity = {1, 1, 1};
  options.context_length = h.context_length;
  Recorder recorder(h, options, tensors);
  family.forward(recorder);
  trial.missing = patterns_of(tensors.missing());
  trial.unknown = patterns_of(tensors.unused(family.ignored));
  return trial;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + names[i].substr(0, kMaxNameChars);
  }
  return text + (names.size() > kShown ? ", ..." : "");
}

}  // namespace

Result<Nearest> nearest_family(const std::shared_ptr<const storage::Checkpoint>& checkpoint) {
  ORRERY_TRY(const std::unique_ptr<Source> source, open_source(*checkpoint));
  Nearest best;
  std::pair<std::size_t, std::size_t> least{SIZE_MAX, SIZE_MAX};
  for (const Family* family : families()) {
    Nearest trial = read_as(*family, checkpoint, *source);
    const std::size_t tensors = trial.parameters.empty()
                                    ? trial.missing.size() + trial.unknown.size()
                                    : checkpoint->tensors().size() + 1;
    const std::pair rank(tensors, name_distance(source->architecture(), *family));
    if (rank >= least) continue;
    least = rank;
    best = std::move(trial);
  }
  return best;
}

std::string to_sentence(const Nearest& nearest) {
  std::string text = fmt::format("architecture \"{}\" is not supported; the nearest is {}",
                                 nearest.architecture.substr(0, kMaxNameChars), nearest.family);
  if (!nearest.parameters.empty()) return text + fmt::format(", but {}", nearest.parameters);
  if (nearest.missing.empty() && nearest.unknown.empty()) {
    return text + ", whose tensors are all there: the difference is in how they are used";
  }
  if (!nearest.missing.empty()) {
    text += fmt::format("; the file lacks {} of its tensors ({})", nearest.missing.size(),
                        list_of(nearest.missing));
  }
  if (!nearest.unknown.empty()) {
    text += fmt::format("; {} of the file's are unknown to it ({})", nearest.unknown.size(),
                        list_of(nearest.unknown));
  }
  return text;
}

}  // namespace orrery::model
