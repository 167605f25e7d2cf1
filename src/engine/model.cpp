#include "engine/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/checked.hpp"
#include "base/clock.hpp"
#include "base/topology.hpp"
#include "engine/packable.hpp"
#include "storage/direct_read.hpp"

namespace orrery::engine {
namespace {

constexpr std::uint32_t kDecodeTokens = 32;
constexpr std::uint32_t kPrefillTokens = 512;
constexpr std::uint32_t kPrefillTokensReference = 32;  // keeps every buffer in double precision
constexpr std::uint32_t kOutputs = 32;
// Packed whatever the cache: laying it out takes some 30 ms, and unpacking costs decode more than
// reading does (docs/performance.md).
constexpr std::uint64_t kSmallModel = std::uint64_t{128} << 20;

std::uint32_t slice_of(Device device) {
  return device == Device::reference ? kPrefillTokensReference : kPrefillTokens;
}

// Bytes of one sequence's pages at `context` tokens.
std::uint64_t cache_bytes(std::span<const plan::CacheGroup> groups, std::uint32_t context) {
  std::uint64_t bytes = 0;
  for (const plan::CacheGroup& group : groups) {
    bytes += pages_of_sequence(group, context, kPrefillTokens) * group.page_bytes();
  }
  return bytes;
}

// What a sequence holds however long it is.
struct StateBytes {
  std::uint64_t live = 0, snapshots = 0;
};
StateBytes state_bytes(std::span<const plan::CacheGroup> groups) {
  StateBytes bytes;
  for (const plan::CacheGroup& group : groups) {
    if (group.kind != plan::CacheKind::state) continue;
    bytes.live += group.page_bytes();
    bytes.snapshots += group.page_bytes() * max_snapshots(group);
  }
  return bytes;
}

std::uint64_t bytes_per_token(std::span<const plan::CacheGroup> groups) {
  std::uint64_t bytes = 0;
  for (const plan::CacheGroup& group : groups) {
    if (group.kind != plan::CacheKind::state) bytes += group.page_bytes() / plan::kPageTokens;
  }
  return bytes;
}

// Seconds since `start`, which is now from here on.
double lap(double& start) {
  const double before = start;
  start = now_seconds();
  return start - before;
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().filename().string();
}

}  // namespace

Result<std::shared_ptr<const Model>> Model::open(const std::string& path,
                                                 const ModelOptions& options, storage::Io& io) {
  std::shared_ptr<Model> model(new Model);
  model->options_ = options;
  double start = now_seconds();
  ORRERY_TRY_VOID(model->load_files(path, io));
  ORRERY_TRY_VOID(model->load_image());
  const auto found = model->checkpoint_->warnings();
  model->warnings_.assign(found.begin(), found.end());
  // Parameters and shapes first: a model that is refused for them costs no vocabulary.
  ORRERY_TRY(auto loaded, model::load_model(model->checkpoint_));
  const std::vector<std::string>& notes = loaded.hparams().notes;
  model->warnings_.insert(model->warnings_.end(), notes.begin(), notes.end());
  model->loaded_.emplace(std::move(loaded));
  if (options.load == storage::LoadMode::automatic && !options.seal) {
    model->info_.load = storage::ready_pages(*model->checkpoint_, model->packs_weights());
  }
  model->info_.times.files = lap(start);
  ORRERY_TRY_VOID(model->load_parts());
  ORRERY_TRY_VOID(model->checkpoint_->check_files(true));
  return model;
}

// The vocabulary's tables take as long as the rest of a small model; neither needs the other.
Status Model::load_parts() {
  Status text;
  const auto load = [&] {
    double start = now_seconds();
    text = load_text();
    info_.times.text = lap(start);
  };
  std::thread beside;
  try {
    beside = std::thread(load);
  } catch (const std::system_error&) {
    load();
  }
  double start = now_seconds();
  const Status plans = load_plans();
  info_.times.plans = lap(start);
  if (beside.joinable()) beside.join();
  ORRERY_TRY_VOID(std::move(text));
  ORRERY_TRY_VOID(plans);
  warnings_.insert(warnings_.end(), text_warnings_.begin(), text_warnings_.end());
  describe();
  return {};
}

Status Model::load_files(const std::string& path, storage::Io& io) {
  const bool is_direct = options_.load == storage::LoadMode::direct || options_.seal;
  if (!is_direct || options_.memory_bytes > 0) {
    info_.load = "mapped as it is";
    ORRERY_TRY(checkpoint_, storage::Checkpoint::open(path, io));
    ORRERY_TRY_VOID(cache_budget());  // before anything of it is read
  }
  if (!is_direct) return {};
  storage::DirectIo direct(io, options_.seal);
  ORRERY_TRY(checkpoint_, storage::Checkpoint::open(path, direct));
  info_.load = direct.way().empty() ? "mapped: small files are not read directly" : direct.way();
  return {};
}

Status Model::load_text() {
  ORRERY_TRY(tokenizer_, text::Tokenizer::load(*checkpoint_));
  // The first text pays for the merges, which can be now.
  static_cast<void>(tokenizer_->encode("first", {}));
  sampling_ = sampling_defaults(*checkpoint_, text_warnings_);
  // A broken template is no reason to refuse the model: whoever asks for the template gets this.
  auto source = chat_template_source(*checkpoint_);
  if (!source) {
    template_error_ = source.error();
    return {};
  }
  template_source_ = std::move(*source);
  if (template_source_.empty()) return {};
  auto compiled = text::ChatTemplate::compile(template_source_);
  if (compiled) {
    template_ = std::move(*compiled);
  } else {
    template_error_ = compiled.error();
  }
  return {};
}

Result<const text::ChatTemplate*> Model::chat_template() const {
  if (template_error_) return fail_in(checkpoint_->label(), *template_error_);
  if (template_ == nullptr) {
    return fail("E_NOTEMPLATE", fmt::format("{}: the model has no chat template; give it raw text",
                                            checkpoint_->path()));
  }
  return template_.get();
}

Status Model::load_plans() {
  info_.threads = options_.threads > 0 ? options_.threads : physical_cores();
  if (options_.device != Device::reference) {
    ORRERY_TRY(backend_, backend::make_cpu_backend({info_.threads, options_.isa}));
  } else {
    backend_ = backend::make_reference_backend();
  }
  ORRERY_TRY(const std::uint64_t budget, cache_budget());
  info_.cache_budget_bytes = budget;
  info_.training_context = loaded_->hparams().context_length;
  return loaded_->hparams().causal ? load_writer(budget) : load_encoder(budget);
}

Status Model::load_writer(std::uint64_t budget) {
  const model::Hparams& h = loaded_->hparams();
  const plan::Capacity decode_capacity{kDecodeTokens, kDecodeTokens, kDecodeTokens};
  // Recorded once to learn the cache groups: the context decides between some of the weights.
  const std::uint32_t asked = options_.context > 0 ? options_.context : h.context_length;
  ORRERY_TRY(auto decode, record(plan::Phase::decode, decode_capacity, asked));
  ORRERY_TRY(info_.context, choose_context(decode.plan.groups, budget));
  if (info_.context != asked) {
    ORRERY_TRY(decode, record(plan::Phase::decode, decode_capacity, info_.context));
  }
  ORRERY_TRY(auto prefill,
             record(plan::Phase::prefill, {slice_of(options_.device), 1, kOutputs}, info_.context));
  return compile(std::move(decode), std::move(prefill), budget);
}

Status Model::compile(BoundPlan decode, BoundPlan prefill, std::uint64_t budget) {
  if (options_.device == Device::cpu_f32) {
    ORRERY_TRY(decode, dequantized_.widen(std::move(decode)));
    ORRERY_TRY(prefill, dequantized_.widen(std::move(prefill)));
  }
  BoundPlan packed_decode, packed_prefill;
  if (packs_weights()) {
    ORRERY_TRY(packed_decode, packed_.bind(decode, *checkpoint_));
    ORRERY_TRY(packed_prefill, packed_.bind(prefill, *checkpoint_));
    info_.packed_bytes = packed_.bytes().size();
  }
  info_.cache_bytes_per_token = bytes_per_token(decode.plan.groups);
  info_.state_bytes = state_bytes(decode.plan.groups).live;
  info_.snapshot_bytes = state_bytes(decode.plan.groups).snapshots;
  ORRERY_TRY(executor_, Executor::create(std::move(decode), std::move(prefill), *backend_,
                                         {.sequences = options_.max_sequences,
                                          .context = info_.context,
                                          .slice = 1,
                                          .budget_bytes = budget}));
  if (info_.packed_bytes > 0) {
    executor_->follow_with(std::move(packed_decode), std::move(packed_prefill), *backend_,
                           [this] { return pack(); });
    // What others have made need not be waited for, and a refusal to seal is an error now.
    info_.packed_elsewhere = packed_.is_made();
    if (info_.packed_elsewhere || options_.seal) ORRERY_TRY_VOID(executor_->settle());
  }
  executor_->watch(*checkpoint_);
  info_.scratch_bytes = executor_->scratch_bytes();
  return {};
}

// The embedder is all there is, ready from the start.
Status Model::load_encoder(std::uint64_t budget) {
  const model::Hparams& h = loaded_->hparams();
  const std::uint32_t asked = options_.context > 0 ? options_.context : h.context_length;
  ORRERY_TRY(auto bound, record_embed(asked));
  info_.cache_bytes_per_token =
      cache_bytes(bound.plan.groups, plan::kPageTokens) / plan::kPageTokens;
  ORRERY_TRY(info_.context, choose_context(bound.plan.groups, budget));
  ORRERY_TRY_VOID(prepare_embedder());
  info_.packed_bytes = packed_.bytes().size();
  if (info_.packed_bytes > 0) ORRERY_TRY_VOID(pack());
  info_.scratch_bytes = embedder_->program().scratch_bytes();
  return {};
}

void Model::describe() {
  info_.family = loaded_->hparams().family;
  const auto name = checkpoint_->metadata().string_or("general.name", "");
  info_.name = name && !name->empty() ? std::string(*name) : file_name(checkpoint_->path());
  info_.device = backend_->info().description;
  info_.weight_bytes = weight_bytes();
  info_.copied_bytes = loaded_->copied_bytes() + dequantized_.bytes();
  const std::uint32_t vocab = loaded_->hparams().vocab_size;
  if (vocab < static_cast<std::uint32_t>(tokenizer_->vocab_size())) {
    warnings_.push_back(fmt::format(
        "the tokenizer has {} tokens, the model only {}: some texts cannot be evaluated",
        tokenizer_->vocab_size(), vocab));
  }
}

Status Model::pack() {
  return packed_.fill(*checkpoint_, info_.threads, options_.seal);
}

// What the weights leave of the budget for all.
Result<std::uint64_t> Model::cache_budget() const {
  const std::uint64_t most =
      options_.cache_budget_bytes > 0 ? options_.cache_budget_bytes : available_memory() / 2;
  if (options_.memory_bytes == 0) return most;
  const std::uint64_t weights = weight_bytes();
  if (weights < options_.memory_bytes) return std::min(most, options_.memory_bytes - weights);
  return fail(
      "E_MEMORY",
      fmt::format("{}: the weights have {} bytes, which leaves nothing of {} for the cache; "
                  "allow more memory or take a smaller model",
                  checkpoint_->label(), weights, options_.memory_bytes));
}

std::uint64_t Model::weight_bytes() const {
  std::uint64_t bytes = 0;
  for (const storage::TensorInfo& tensor : checkpoint_->tensors()) bytes += tensor.bytes;
  return bytes;
}

bool packs(WeightLayout layout, std::uint64_t bytes) {
  if (layout != WeightLayout::automatic) return layout == WeightLayout::packed;
  return bytes <= std::max<std::uint64_t>(last_level_cache(), kSmallModel);
}

bool Model::packs_weights() const {
  if (options_.device != Device::cpu || (info_.image && info_.image->packed)) return false;
  return packs(options_.layout, weight_bytes());
}

Status Model::load_image() {
  if (!is_image(*checkpoint_)) return {};
  ORRERY_TRY(info_.image, read_image(*checkpoint_));
  if (!info_.image->packed || options_.device != Device::reference) return {};
  return fail("E_UNSUPPORTED", fmt::format("{}: the reference device reads no packed weights; name "
                                           "the model that the image was made of",
                                           checkpoint_->label()));
}

Result<std::uint32_t> Model::choose_context(std::span<const plan::CacheGroup> groups,
                                            std::uint64_t budget) {
  const std::uint32_t trained = loaded_->hparams().context_length;
  if (options_.context > 0) {
    const std::uint64_t needed = cache_bytes(groups, options_.context);
    if (needed > budget) {
      return fail("E_MEMORY",
                  fmt::format("a context of {} tokens needs {} bytes of cache and {} are "
                              "to be had; ask for a smaller one",
                              options_.context, needed, budget));
    }
    if (options_.context > trained) {
      warnings_.push_back(
          fmt::format("the context of {} tokens is more than the {} of the training",
                      options_.context, trained));
    }
    return options_.context;
  }
  if (cache_bytes(groups, trained) <= budget) return trained;
  std::uint32_t fits = 0;  // in pages; the bytes grow with the context
  std::uint32_t too_many = static_cast<std::uint32_t>(ceil_div(trained, plan::kPageTokens));
  while (too_many - fits > 1) {
    const std::uint32_t middle = fits + (too_many - fits) / 2;
    (cache_bytes(groups, middle * plan::kPageTokens) <= budget ? fits : too_many) = middle;
  }
  if (fits == 0) {
    return fail("E_MEMORY", fmt::format("{} bytes of memory hold not even {} tokens of cache",
                                        budget, plan::kPageTokens));
  }
  warnings_.push_back(
      fmt::format("memory caps the context at {} of {} tokens", fits * plan::kPageTokens, trained));
  return fits * plan::kPageTokens;
}

Result<BoundPlan> Model::record(plan::Phase phase, plan::Capacity capacity,
                                std::uint32_t context) const {
  const bool is_f32 = options_.device == Device::cpu_f32;  // decode's classes, then widened
  BoundPlan bound;
  ORRERY_TRY(bound.plan, loaded_->record({.phase = phase,
                                          .capacity = capacity,
                                          .deterministic = options_.deterministic || is_f32,
                                          .experts_as_decode = backend_->info().prefers_i8_rows,
                                          .context_length = context,
                                          .k_type = is_f32 ? DType::f32 : options_.k_type,
                                          .v_type = is_f32 ? DType::f32 : options_.v_type,
                                          .pooling = options_.pooling}));
  ORRERY_TRY_VOID(check_packed(bound.plan));
  ORRERY_TRY(bound.weights, loaded_->bind(bound.plan));
  bound.experts = loaded_->bind_experts(bound.plan);
  return bound;
}

std::uint32_t Model::embed_context() const {
  const std::uint32_t said = loaded_->hparams().text_tokens;
  const bool chosen = options_.context > 0 || said == 0;
  return chosen ? info_.context : std::min(info_.context, said);
}

// Slices of a text can follow each other where rows see only those before them and the last one
// counts; else the whole text is one run.
Result<BoundPlan> Model::record_embed(std::uint32_t context) const {
  const model::Hparams& h = loaded_->hparams();
  const bool sliced = h.causal && options_.pooling.value_or(h.pooling) == plan::PoolKind::last;
  const std::uint32_t most = std::min(context, slice_of(options_.device));
  return record(plan::Phase::embed, {sliced ? most : context, 1, 1}, context);
}

Status Model::prepare_embedder() const {
  ORRERY_TRY(auto bound, record_embed(embed_context()));
  if (packs_weights()) {
    ORRERY_TRY(bound, packed_.bind(std::move(bound), *checkpoint_));
  }
  ORRERY_TRY(embedder_, Embedder::create(std::move(bound), *backend_, embed_context(),
                                         info_.cache_budget_bytes));
  return {};
}

Result<std::vector<float>> Model::embed(std::span<const text::TokenId> ids,
                                        const EmbedOptions& options) const {
  if (!loaded_->hparams().ranks) return run_embedder(ids, options);
  return fail("E_RANKS",
              "the model scores documents for a query and makes no vectors of texts; "
              "use it with /v1/rerank of orrery serve");
}

Result<float> Model::rank(std::span<const text::TokenId> ids, std::size_t second) const {
  if (!loaded_->hparams().ranks) {
    return fail("E_NORANK",
                "the model cannot rank: it has no head that scores a query and a "
                "document together");
  }
  ORRERY_TRY(const std::vector<float> rows,
             run_embedder(ids, {.normalize = false, .second = second}));
  return rows.size() == 1 ? rows[0] : 1.0F / (1.0F + std::exp(rows[1] - rows[0]));
}

Result<std::vector<float>> Model::run_embedder(std::span<const text::TokenId> ids,
                                               const EmbedOptions& options) const {
  if (options_.device == Device::cpu_f32) {
    return fail("E_UNSUPPORTED", "neither vectors nor ranks are made on device cpu_f32");
  }
  const std::unique_lock one_text(encoder_mutex_);
  std::unique_lock<FairMutex> held;
  if (executor_ != nullptr) held = executor_->turn();
  const auto give_turn = [&held] {
    if (!held) return;
    held.unlock();
    held.lock();
  };
  ORRERY_TRY_VOID(checkpoint_->check_files(true));
  if (embedder_ == nullptr) {
    if (executor_ != nullptr) ORRERY_TRY_VOID(executor_->settle());
    ORRERY_TRY_VOID(prepare_embedder());
    packed_.release(*checkpoint_);
  }
  ORRERY_TRY(std::vector<float> vector, embedder_->embed(ids, options, give_turn));
  ORRERY_TRY_VOID(checkpoint_->check_files(true));
  return vector;
}

std::string Model::packed_in() const {
  const auto held = turn();
  return packed_.how();
}

Status Model::settle() const {
  if (executor_ == nullptr) return {};
  const auto held = turn();
  return executor_->settle();
}

std::unique_lock<FairMutex> Model::turn() const {
  return executor_ != nullptr ? executor_->turn() : std::unique_lock(encoder_mutex_);
}

Status Model::check_writes() const {
  if (executor_ != nullptr) return {};
  const bool ranks = loaded_->hparams().ranks;
  return fail("E_ENCODER",
              fmt::format("{}: the model {}", checkpoint_->label(),
                          ranks ? "scores documents for a query and writes no text; use it with "
                                  "/v1/rerank of orrery serve"
                                : "makes vectors of texts and writes none; use it with embed"));
}

Result<std::uint32_t> Model::load_adapter(const std::string& path, storage::Io& io) const {
  ORRERY_TRY_VOID(check_writes());
  ORRERY_TRY(const model::AdapterFile file, model::open_adapter_file(path, io));
  const auto held = turn();
  ORRERY_TRY(model::Adapter adapter, model::fit_adapter(file, *loaded_, executor_->decode_plan()));
  // Kept even if it cannot be bound: one of the programs may have it then.
  adapters_.push_back(std::make_unique<const model::Adapter>(std::move(adapter)));
  return executor_->bind_adapter(*adapters_.back());
}

std::vector<std::span<const std::byte>> Model::weight_spans() const {
  std::vector<std::span<const std::byte>> spans;
  for (const storage::TensorInfo& tensor : checkpoint_->tensors()) {
    if (tensor.n_dims < 2 || tensor.data == nullptr) continue;
    const std::span<const std::byte> bytes(tensor.data, tensor.bytes);
    if (!packed_.holds(bytes)) spans.push_back(bytes);
  }
  if (!packed_.bytes().empty()) spans.push_back(packed_.bytes());
  return spans;
}

std::shared_ptr<Executor> Model::executor() const {
  if (executor_ == nullptr) return nullptr;
  return {shared_from_this(), executor_.get()};
}

std::int32_t Model::n_tokens() const {
  return std::min(tokenizer_->vocab_size(),
                  static_cast<std::int32_t>(loaded_->hparams().vocab_size));
}

}  // namespace orrery::engine
