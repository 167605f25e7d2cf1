#include "engine/quantize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "base/thread_team.hpp"
#include "base/topology.hpp"
#include "engine/image.hpp"
#include "engine/model_defaults.hpp"
#include "engine/packable.hpp"
#include "model/gguf_image.hpp"
#include "storage/gguf.hpp"
#include "storage/gguf_writer.hpp"
#include "tensor/decode.hpp"
#include "tensor/encode.hpp"
#include "tensor/packed.hpp"
#include "text/gguf_keys.hpp"

namespace orrery::engine {
namespace {

using model::GgufImage;
using model::ImageTensor;

constexpr std::uint64_t kSliceElements = std::uint64_t{1} << 22;  // encoded between two writes

// Rows [begin, end) of a tensor, shared by the threads.
struct Slice {
  const ImageTensor& tensor;
  DType type;
  const std::vector<std::vector<float>>& importance;  // per matrix; empty: not known
  std::uint64_t begin, end;
  std::byte* out;
  std::atomic<std::uint64_t> next{0};
  std::atomic<float> refused{0.0F};  // a value that cannot be written
  std::atomic<bool> failed{false};
};

// The first value that the type cannot hold.
std::optional<float> unwritable(const float* x, std::uint64_t n, DType type) {
  float most = INFINITY;  // not included
  if (type == DType::f16) most = 65520.0F;
  if (dtype_info(type).is_quantized) most = kMaxEncoded;
  for (std::uint64_t i = 0; i < n; ++i) {
    if (!(std::abs(x[i]) < most)) return x[i];
  }
  return std::nullopt;
}

void encode_rows(Slice& slice) {
  const std::uint64_t n = slice.tensor.as.dims[0], stride = row_bytes(slice.type, n);
  std::vector<float> row(n);
  for (;;) {
    const std::uint64_t i = slice.begin + slice.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= slice.end || slice.failed.load(std::memory_order_relaxed)) return;
    slice.tensor.read_row(i, row.data());
    if (const auto value = unwritable(row.data(), n, slice.type)) {
      slice.refused = *value;
      slice.failed = true;
      return;
    }
    const std::uint64_t matrix = i / slice.tensor.as.dims[1];
    const float* importance = nullptr;
    if (matrix < slice.importance.size() && !slice.importance[matrix].empty()) {
      importance = slice.importance[matrix].data();
    }
    encode_row(slice.type, row.data(), importance, slice.out + (i - slice.begin) * stride, n);
  }
}

// Panels in the place of their rows.
void pack_rows(DType type, std::uint64_t cols, std::span<std::byte> rows) {
  std::vector<std::byte> panel(kPackedRows * row_bytes(type, cols));
  for (std::size_t at = 0; at < rows.size(); at += panel.size()) {
    pack_panel(type, cols, rows.data() + at, panel.data());
    std::memcpy(rows.data() + at, panel.data(), panel.size());
  }
}

std::uint32_t count_layers(const GgufImage& image) {
  const auto architecture = image.metadata.string_or("general.architecture", "");
  if (!architecture) return 0;
  return image.metadata.u32_or(std::string(*architecture) + ".block_count", 0).value_or(0);
}

// `shrinks`: a matrix that is as small already keeps its type.
std::vector<storage::GgufTensor> targets_of(const GgufImage& image,
                                            const std::optional<QuantizeMix>& mix, bool shrinks) {
  MixModel model{.n_layers = count_layers(image), .tied = true};
  for (const ImageTensor& tensor : image.tensors) {
    if (tensor.as.name == "output.weight") model.tied = false;
  }
  std::vector<storage::GgufTensor> targets;
  for (const ImageTensor& tensor : image.tensors) {
    storage::GgufTensor target = tensor.as;
    if (mix) target.type = mixed_type(*mix, model, tensor.as);
    const bool stays = shrinks && target.n_dims > 1 && target.bytes() >= tensor.as.bytes();
    targets.push_back(stays ? tensor.as : target);
  }
  return targets;
}

class Quantizer {
 public:
  Quantizer(GgufImage image, const QuantizeOptions& options)
      : image_(std::move(image)),
        options_(options),
        team_(options.threads > 0 ? options.threads : physical_cores()) {}

  Result<QuantizeReport> write(const std::string& out, storage::Io& io);

 private:
  Status choose_types();
  void set_keys();
  Status set_image_keys(storage::Io& io);
  Status put(std::span<const std::byte> bytes);
  Status write_tensor(const ImageTensor& tensor, const storage::GgufTensor& target);
  Status write_copy(const ImageTensor& tensor, Layout layout);
  Status encode(const ImageTensor& tensor, const storage::GgufTensor& target);
  std::vector<std::vector<float>> importance_of(const ImageTensor& tensor, DType type);
  Status tell_progress(std::uint64_t elements);

  GgufImage image_;
  const QuantizeOptions& options_;
  ThreadTeam team_;
  std::vector<storage::GgufTensor> targets_;
  std::optional<storage::GgufWriter> writer_;
  std::optional<ImageSums> sums_;
  bool packs_ = false;
  QuantizeReport report_;
  std::uint64_t done_ = 0;  // elements
  std::vector<std::byte> buffer_;
};

Status Quantizer::choose_types() {
  targets_ = targets_of(image_, options_.mix, options_.image);
  std::set<std::string> packable;
  if (options_.packed) {
    ORRERY_TRY(packable, find_packable(image_.checkpoint));
  }
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    storage::GgufTensor& target = targets_[i];
    const ImageTensor& tensor = image_.tensors[i];
    if (packable.contains(target.name) &&
        is_packable(target.type, target.dims[1], target.dims[0])) {
      target.layout = Layout::packed;
      packs_ = true;
    }
    report_.elements += target.dims[0] * target.n_rows();
    report_.bytes_before += tensor.as.bytes();
    report_.bytes_after += target.bytes();
    ++report_.tensors[target.type];
    report_.was_quantized |= dtype_info(tensor.as.type).is_quantized;
  }
  return {};
}

// Says what the file is now.
void Quantizer::set_keys() {
  constexpr std::uint64_t kVersion = 2;  // of the block formats
  storage::Metadata metadata;
  for (const auto& [key, value] : image_.metadata.all()) {
    if (key != "general.file_type" && key != "general.quantization_version") {
      metadata.insert(key, value);
    }
  }
  if (options_.mix->file_type != kNoFileType) {
    metadata.insert("general.file_type", std::uint64_t{options_.mix->file_type});
  }
  metadata.insert("general.quantization_version", kVersion);
  image_.metadata = std::move(metadata);
}

// What image.hpp says.
Status Quantizer::set_image_keys(storage::Io& io) {
  ORRERY_TRY(const ImageSource source, identify_source(*image_.checkpoint, io));
  storage::Metadata metadata;
  for (const auto& [key, value] : image_.metadata.all()) {
    if (key != "general.alignment") metadata.insert(key, value);
  }
  const auto text = [&](std::string_view key, std::string value) {
    metadata.insert(key, image_.keep(std::move(value)));
  };
  metadata.insert("general.alignment", std::uint64_t{kImageAlignment});
  metadata.insert(storage::kImageVersionKey, std::uint64_t{kImageVersion});
  text("orrery.image.types", options_.mix ? std::string(options_.mix->name) : "");
  text("orrery.image.layout", packs_ ? "rows16" : "file");
  text("orrery.image.source", source.path);
  metadata.insert("orrery.image.source_bytes", source.bytes);
  metadata.insert("orrery.image.source_modified", source.modified_ns);
  text("orrery.image.source_hash", fmt::format("{:016x}", source.hash));
  image_.metadata = std::move(metadata);
  return {};
}

Status Quantizer::put(std::span<const std::byte> bytes) {
  if (sums_) sums_->add(bytes);
  return writer_->append(bytes);
}

Status Quantizer::tell_progress(std::uint64_t elements) {
  done_ += elements;
  if (!options_.progress || options_.progress(done_, report_.elements)) return {};
  return fail("E_STOPPED", "stopped; nothing was written");
}

Status Quantizer::write_copy(const ImageTensor& tensor, Layout layout) {
  const std::uint64_t panel = kPackedRows * row_bytes(tensor.as.type, tensor.as.dims[0]);
  const std::uint64_t most = std::max<std::uint64_t>(kSliceElements / panel, 1) * panel;
  for (std::span<const std::byte> bytes : tensor.pieces()) {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min<std::size_t>(bytes.size(), most));
      bytes = bytes.subspan(part.size());
      if (layout == Layout::file) {
        ORRERY_TRY_VOID(put(part));
        continue;
      }
      buffer_.assign(part.begin(), part.end());
      pack_rows(tensor.as.type, tensor.as.dims[0], buffer_);
      ORRERY_TRY_VOID(put(buffer_));
    }
  }
  return tell_progress(tensor.as.dims[0] * tensor.as.n_rows());
}

std::vector<std::vector<float>> Quantizer::importance_of(const ImageTensor& tensor, DType type) {
  std::vector<std::vector<float>> columns;
  if (options_.importance == nullptr || !dtype_info(type).is_quantized) return columns;
  const std::uint64_t matrices = tensor.as.dims[2] * tensor.as.dims[3];
  bool known = false;
  for (std::uint64_t m = 0; m < matrices; ++m) {
    columns.push_back(options_.importance->columns(tensor.as.name, m, tensor.as.dims[0]));
    known |= !columns.back().empty();
  }
  if (!known) ++report_.without_importance;
  return columns;
}

Status Quantizer::encode(const ImageTensor& tensor, const storage::GgufTensor& target) {
  const DType type = target.type;
  const std::uint64_t n = tensor.as.dims[0], rows = tensor.as.n_rows();
  const std::uint64_t stride = row_bytes(type, n);
  const std::uint64_t step =  // in whole panels
      std::max<std::uint64_t>(kSliceElements / n / kPackedRows, 1) * kPackedRows;
  const auto importance = importance_of(tensor, type);
  buffer_.resize(std::min(step, rows) * stride);
  for (std::uint64_t begin = 0; begin < rows; begin += step) {
    Slice slice{tensor, type, importance, begin, std::min(begin + step, rows), buffer_.data()};
    team_.run([](void* context, int) { encode_rows(*static_cast<Slice*>(context)); }, &slice);
    if (slice.failed) {
      return fail("E_VALUE",
                  fmt::format("tensor {} holds the value {}, which {} cannot hold", tensor.as.name,
                              slice.refused.load(), dtype_info(type).name));
    }
    const auto bytes = std::span(buffer_).first((slice.end - begin) * stride);
    if (target.layout == Layout::packed) pack_rows(type, n, bytes);
    ORRERY_TRY_VOID(put(bytes));
    ORRERY_TRY_VOID(tell_progress((slice.end - begin) * n));
  }
  return {};
}

Status Quantizer::write_tensor(const ImageTensor& tensor, const storage::GgufTensor& target) {
  if (!tensor.has_data()) {
    return fail("E_NODATA", fmt::format("the data of tensor {} was not read", tensor.as.name));
  }
  const bool joins = tensor.runs.empty() || target.layout == Layout::file;  // panels may not
  if (tensor.is_plain() && tensor.as.type == target.type && joins) {
    ORRERY_TRY_VOID(write_copy(tensor, target.layout));
  } else {
    ORRERY_TRY_VOID(encode(tensor, target));
  }
  if (tensor.turned_cols > 0) return {};  // others have its rows
  for (const std::span<const std::byte> bytes : tensor.pieces()) image_.checkpoint->release(bytes);
  return {};
}

Result<QuantizeReport> Quantizer::write(const std::string& out, storage::Io& io) {
  ORRERY_TRY_VOID(choose_types());
  if (options_.mix) set_keys();
  if (options_.image) {
    ORRERY_TRY_VOID(set_image_keys(io));
    std::vector<std::uint64_t> sizes;
    for (const storage::GgufTensor& target : targets_) sizes.push_back(target.bytes());
    sums_.emplace(std::move(sizes));
  }
  ORRERY_TRY(writer_, storage::GgufWriter::create(out, image_.metadata, targets_, io));
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    ORRERY_TRY_VOID(write_tensor(image_.tensors[i], targets_[i]));
  }
  if (sums_) ORRERY_TRY_VOID(writer_->append_tail(sums_->tail(writer_->head())));
  ORRERY_TRY_VOID(image_.checkpoint->check_files(true));
  ORRERY_TRY_VOID(writer_->finish());
  return report_;
}

// Vocabulary and chat template of a folder.
Status add_text_keys(const storage::Checkpoint& checkpoint, GgufImage& image) {
  std::uint64_t rows = 0;
  for (const ImageTensor& tensor : image.tensors) {
    if (tensor.as.name == "token_embd.weight") rows = tensor.as.dims[1];
  }
  auto keys = text::tokenizer_keys(checkpoint.tokenizer_json(), checkpoint.tokenizer_config_json(),
                                   checkpoint.generation_config_json(), rows);
  if (!keys) return fail_in(checkpoint.label(), keys.error());
  for (const auto& [key, value] : keys->metadata.all()) image.metadata.insert(key, value);
  image.owners.insert(image.owners.end(), keys->owners.begin(), keys->owners.end());
  ORRERY_TRY(std::string source, chat_template_source(checkpoint));
  if (!source.empty()) image.metadata.insert("tokenizer.chat_template", image.keep(source));
  const auto path = std::filesystem::path(checkpoint.path()).lexically_normal();
  const auto name = path.has_filename() ? path.filename() : path.parent_path().filename();
  image.metadata.insert("general.name", image.keep(name.string()));
  return {};
}

// Before hours of work, not after.
Status check_target(const std::string& out, storage::Io& io) {
  const auto found = io.info(out);
  if (!found) return found.error().kind == "E_NOTFOUND" ? Status{} : std::unexpected(found.error());
  if (found->kind == storage::FileKind::regular) return {};
  return fail("E_NOTFILE", fmt::format("{}: is no file that could be written; name another", out));
}

// The same file under any name.
bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

}  // namespace

std::uint64_t image_bytes(const GgufImage& image, const std::optional<QuantizeMix>& mix) {
  std::uint64_t bytes = 0;
  for (const storage::GgufTensor& target : targets_of(image, mix, true)) bytes += target.bytes();
  return bytes;
}

Result<QuantizeReport> quantize(const std::string& in, const std::string& out,
                                const QuantizeOptions& options, storage::Io& io) {
  ORRERY_TRY_VOID(check_target(out, io));
  ORRERY_TRY(auto checkpoint, storage::Checkpoint::open(in, io));
  for (const std::string& file : checkpoint->files()) {
    if (file != out && !is_same_file(file, out)) continue;
    return fail("E_SAME", fmt::format("{}: is the model that is read; name another file", out));
  }
  if (is_image(*checkpoint)) {
    return fail("E_IMAGE", fmt::format("{}: is an image itself; name the model it was made of",
                                       checkpoint->label()));
  }
  ORRERY_TRY(GgufImage image, model::gguf_image(checkpoint));
  if (checkpoint->format() != storage::Format::gguf) {
    ORRERY_TRY_VOID(add_text_keys(*checkpoint, image));
  }
  return Quantizer(std::move(image), options).write(out, io);
}

}  // namespace orrery::engine
