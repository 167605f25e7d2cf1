// A loaded model: immutable, shared by any number of sessions. Opening it maps the files, records
// and compiles the plans, and reserves (not commits) the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "base/fair_mutex.hpp"
#include "base/result.hpp"
#include "engine/dequantize.hpp"
#include "engine/embedder.hpp"
#include "engine/executor.hpp"
#include "engine/image.hpp"
#include "engine/model_defaults.hpp"
#include "engine/packed_weights.hpp"
#include "engine/sampler_params.hpp"
#include "model/adapter.hpp"
#include "model/model.hpp"
#include "storage/checkpoint.hpp"
#include "storage/ready_pages.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

namespace orrery::engine {

// cpu_f32: the CPU with weights decoded to f32, all in class f32, caches too: nearly exact, and
// much faster than reference, for the memory of the decoded weights.
enum class Device : std::uint8_t { cpu, cpu_f32, reference };

// automatic: packed where the weights fit into the last-level cache or into 128 MiB.
enum class WeightLayout : std::uint8_t { automatic, file, packed };

struct ModelOptions {
  Device device = Device::cpu;
  int threads = 0;                       // 0: physical cores
  std::string isa;                       // "" chooses; else forced
  std::uint32_t context = 0;             // tokens; 0: the training context, capped by memory
  bool deterministic = false;            // prefill in decode's number classes
  std::uint32_t max_sequences = 1;       // sessions open at once
  std::uint64_t cache_budget_bytes = 0;  // 0: half of the memory that is available
  std::uint64_t memory_bytes = 0;        // of weights and cache together; 0: no limit but those
  WeightLayout layout = WeightLayout::automatic;  // device cpu
  storage::LoadMode load = storage::LoadMode::automatic;
  // Files are loaded as by LoadMode::direct, and an error tells where anything might write to them.
  bool seal = false;
  // Of cached keys and values: f32, f16, bf16, q8_0 or q4_0; device cpu_f32: always f32.
  DType k_type = DType::f16, v_type = DType::f16;
  std::optional<plan::PoolKind> pooling = {};  // of vectors of texts; else as the file says
};

// Where the time of opening a model went, in seconds.
struct LoadTimes {
  double files = 0;  // mapped or read, their tables checked
  double text = 0;   // tokenizer and chat template, beside the rest
  double plans = 0;  // recorded and compiled, the cache reserved
};

// For printing.
struct ModelInfo {
  std::string name;    // general.name, or the file's
  std::string family;  // "llama"
  std::string device;  // "avx512, 2 threads"
  int threads = 0;
  std::uint64_t weight_bytes = 0;           // tensors in the files, mapped
  std::uint64_t copied_bytes = 0;           // converted at load
  std::uint64_t packed_bytes = 0;           // of the weights, laid out anew after the first run
  std::uint64_t scratch_bytes = 0;          // of the programs
  std::uint64_t cache_bytes_per_token = 0;  // of one sequence, before windows fill
  std::uint64_t state_bytes = 0;            // of one sequence, however long
  std::uint64_t snapshot_bytes = 0;         // of one sequence at most: earlier states to go on from
  std::uint64_t cache_budget_bytes = 0;
  std::uint32_t context = 0;  // tokens of a sequence
  std::uint32_t training_context = 0;
  std::string load;                     // how the pages of the files came into memory
  bool packed_elsewhere = false;        // another model or process has packed them
  std::optional<ImageInfo> image = {};  // what the file says, if it is one
  LoadTimes times;
};

// Whether weights of so many bytes are packed on device cpu.
bool packs(WeightLayout layout, std::uint64_t bytes);

class Model : public std::enable_shared_from_this<Model> {
 public:
  // Errors: those of Checkpoint::open, Tokenizer::load, load_model and the backend; E_MEMORY when a
  // context that was asked for does not fit, or the weights into memory_bytes; with `seal` E_SEAL
  // and E_BUSY.
  static Result<std::shared_ptr<const Model>> open(const std::string& path,
                                                   const ModelOptions& options, storage::Io& io);

  const ModelInfo& info() const { return info_; }
  const ModelOptions& options() const { return options_; }
  const storage::Checkpoint& checkpoint() const { return *checkpoint_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const model::Hparams& hparams() const { return loaded_->hparams(); }
  // E_NOTEMPLATE when the model has none, E_TEMPLATE when it does not compile.
  Result<const text::ChatTemplate*> chat_template() const;
  bool has_chat_template() const { return !template_source_.empty() || template_error_; }
  // The model's own sampling defaults.
  const SamplerParams& sampling() const { return sampling_; }
  // Bytes of every matrix, mapped or packed. Vectors are none of them: compiling has copied them,
  // and to read one in the file again may map the huge page around it.
  std::vector<std::span<const std::byte>> weight_spans() const;
  // One sentence each: oddities of the files that do not stop the loading.
  std::span<const std::string> warnings() const { return warnings_; }
  // Keeps the model alive too. Null for an encoder, which makes vectors of texts and writes none.
  std::shared_ptr<Executor> executor() const;
  // E_ENCODER for a model without an executor.
  Status check_writes() const;
  // Reads a LoRA adapter (model/adapter_file.hpp) for the sessions that name its number
  // (Session::set_adapters); it stays for the life of the model. Errors: those of
  // open_adapter_file, fit_adapter and Executor::bind_adapter, E_ENCODER.
  Result<std::uint32_t> load_adapter(const std::string& path, storage::Io& io) const;
  // A vector for the tokens (Embedder::embed); made ready at the first call. The executor's turn is
  // given back again and again, so that others go on beside a long text. Errors: those of
  // Embedder, E_RANKS for a model that ranks instead, E_UNSUPPORTED on device cpu_f32, E_CHANGED
  // when a file was written to or cut.
  Result<std::vector<float>> embed(std::span<const text::TokenId> ids,
                                   const EmbedOptions& options = {}) const;
  // How well a document answers a query, of the tokens of both (rank_text.hpp), the document's from
  // `second` on: the logit of the model's head; where that has two, the probability of "yes".
  // E_NORANK for a model that does not rank, and the errors of embed().
  Result<float> rank(std::span<const text::TokenId> ids, std::size_t second) const;
  // Does now what else the second run of the executor waits for: packs weights.
  Status settle() const;
  // What the packed weights lie in, or whose they are; empty until they are packed.
  std::string packed_in() const;
  // The longest text in tokens that embed() takes.
  std::uint32_t embed_context() const;
  // What an encoder runs; null for other models.
  const Embedder* encoder() const { return executor_ == nullptr ? embedder_.get() : nullptr; }
  // Tokens that a sampler chooses among: those that have a text.
  std::int32_t n_tokens() const;

 private:
  Model() = default;
  Status load_image();
  Status load_files(const std::string& path, storage::Io& io);
  Status load_parts();
  Status load_text();
  Status load_plans();
  Status load_writer(std::uint64_t budget);
  Status load_encoder(std::uint64_t budget);
  Result<BoundPlan> record_embed(std::uint32_t context) const;
  Status prepare_embedder() const;
  Result<std::vector<float>> run_embedder(std::span<const text::TokenId> ids,
                                          const EmbedOptions& options) const;
  void describe();
  [[nodiscard]] std::unique_lock<FairMutex> turn() const;
  Result<std::uint32_t> choose_context(std::span<const plan::CacheGroup> groups,
                                       std::uint64_t budget);
  Result<BoundPlan> record(plan::Phase phase, plan::Capacity capacity, std::uint32_t context) const;
  Status compile(BoundPlan decode, BoundPlan prefill, std::uint64_t budget);
  bool packs_weights() const;
  Result<std::uint64_t> cache_budget() const;
  std::uint64_t weight_bytes() const;
  Status pack();

  ModelOptions options_;
  ModelInfo info_;
  std::shared_ptr<const storage::Checkpoint> checkpoint_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::string template_source_;
  std::shared_ptr<const text::ChatTemplate> template_;
  std::optional<Error> template_error_;
  SamplerParams sampling_;
  std::optional<model::LoadedModel> loaded_;
  Dequantized dequantized_;
  mutable PackedWeights packed_;  // guarded by turn() once the model is open
  mutable std::vector<std::unique_ptr<const model::Adapter>> adapters_;  // guarded by turn()
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<Executor> executor_;
  mutable std::unique_ptr<Embedder> embedder_;  // guarded by turn()
  // Held by embed() for a whole text, while it gives its turn back; the turn itself of a model
  // without an executor.
  mutable FairMutex encoder_mutex_;
  std::vector<std::string> warnings_;
  std::vector<std::string> text_warnings_;  // load_text()'s, which runs beside the rest
};

}  // namespace orrery::engine
