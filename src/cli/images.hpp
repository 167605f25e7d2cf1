// Images of models (engine/image.hpp) in Orrery's cache: where they lie, when one is used or made.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/open_model.hpp"
#include "engine/quantize.hpp"

namespace orrery::cli {

// Below Orrery's cache. What is there was asked for, and `orrery models remove` removes it.
std::string images_folder();

// engine::quantize with a line of progress; Ctrl-C ends it and leaves nothing.
Result<engine::QuantizeReport> write_quantized(const std::string& in, const std::string& out,
                                               engine::QuantizeOptions job);

struct ImageJob {
  std::string source, out;  // paths
  std::optional<engine::QuantizeMix> mix;
  bool packed = false;
};
// The image that --quantize or --fit ask for; without either one of the model as it is, packed.
// With
// --fit the context and the budget of the cache become those that fit. E_MEMORY.
Result<ImageJob> choose_image(const std::string& source, OpenOptions& options);
// Makes it, and says its sizes and, for up to half a minute, how far it is from its source.
Status make_image(const ImageJob& job, const OpenOptions& options);

// The model of a path in the form that the options ask for. An image whose source has changed, or
// that is damaged, is made again where it was asked for, else not used; that is said.
Result<std::shared_ptr<const engine::Model>> open_form(const std::string& path,
                                                       OpenOptions options);

}  // namespace orrery::cli
