// A backend whose logits are a known function of the tokens and positions that it finds in the
// pages: what it returns proves that pages, tables and positions were right.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "engine/executor.hpp"
#include "plan/builder.hpp"

namespace orrery::engine::fake {

inline constexpr std::uint32_t kVocab = 97;
inline constexpr std::uint32_t kWindow = 100;

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

inline float logit(std::uint64_t hash, std::uint32_t token) {
  return static_cast<float>(mix(hash, token) >> 40) / static_cast<float>(1 << 20);
}

// What the row at the end of `tokens` is worth: a hash of the whole list and of its window.
inline std::uint64_t expected_hash(std::span<const std::int32_t> tokens) {
  std::uint64_t hash = 1;
  const std::size_t n = tokens.size();
  for (std::size_t i = 0; i < n; ++i) hash = mix(hash, tokens[i] * 1000003ULL + i);
  for (std::size_t i = n > kWindow ? n - kWindow : 0; i < n; ++i) {
    hash = mix(hash, tokens[i] * 1000003ULL + i);
  }
  return hash;
}

struct Faults {
  int fail_run = -1;  // this run (counted from 0) of layers is an error
  int runs = 0;       // runs of layers so far
  std::function<void(const backend::Batch&)> on_run;  // before the layers
};

class Program final : public backend::Program {
 public:
  Program(const plan::Plan& plan, backend::Bindings bindings, Faults* faults)
      : plan_(plan), pools_(std::move(bindings.pools)), faults_(faults) {
    rows_.resize(plan.capacity.tokens);
    selected_.resize(plan.capacity.outputs);
    result_.resize(std::size_t{plan.capacity.outputs} * kVocab);
  }

  Status run(const backend::Batch& batch, std::uint32_t first, std::uint32_t last) override {
    for (std::uint32_t i = first; i < last; ++i) {
      switch (plan_.steps[i].op) {
        case plan::Op::embed:
          if (faults_->runs++ == faults_->fail_run) return fail("E_FAKE", "asked to fail");
          if (faults_->on_run) faults_->on_run(batch);
          layers(batch);
          break;
        case plan::Op::select_rows:
          for (int r = 0; r < batch.n_outputs; ++r) selected_[r] = rows_[batch.output_rows[r]];
          break;
        case plan::Op::logits:
          for (int r = 0; r < batch.n_outputs; ++r) {
            for (std::uint32_t v = 0; v < kVocab; ++v) {
              result_[static_cast<std::size_t>(r) * kVocab + v] = logit(selected_[r], v);
            }
          }
          break;
        default:
          break;
      }
    }
    return {};
  }
  std::uint32_t n_steps() const override { return static_cast<std::uint32_t>(plan_.steps.size()); }
  const float* result() const override { return result_.data(); }
  std::vector<float> download(plan::BufferId, std::int64_t) const override { return {}; }
  std::uint64_t scratch_bytes() const override { return 64; }
  std::string kernel_name(std::uint32_t) const override { return "fake"; }

 private:
  std::uint32_t& cell(const backend::Batch& batch, std::size_t group, int sequence, int position) {
    const std::int32_t page =
        batch.page_tables[group][sequence * batch.pages_stride + position / 64];
    if (page < 0 || static_cast<std::uint32_t>(page) >= pools_[group].capacity) std::abort();
    std::byte* base =
        pools_[group].base + static_cast<std::uint64_t>(page) * plan_.groups[group].page_bytes();
    return reinterpret_cast<std::uint32_t*>(base)[position % 64];
  }

  void layers(const backend::Batch& batch) {
    for (int r = 0; r < batch.n_tokens; ++r) {
      const int position = batch.positions[r];
      const int sequence = batch.row_sequence[r];
      for (const std::size_t group : {0UL, 1UL}) {
        cell(batch, group, sequence, position) = static_cast<std::uint32_t>(batch.ids[r]);
      }
      std::uint64_t hash = 1;
      for (int p = 0; p <= position; ++p) {
        hash = mix(hash, cell(batch, 0, sequence, p) * 1000003ULL + static_cast<std::uint64_t>(p));
      }
      const int window = static_cast<int>(kWindow);
      for (int p = position >= window ? position - window + 1 : 0; p <= position; ++p) {
        hash = mix(hash, cell(batch, 1, sequence, p) * 1000003ULL + static_cast<std::uint64_t>(p));
      }
      rows_[r] = hash;
    }
  }

  plan::Plan plan_;
  std::vector<backend::PagePool> pools_;
  Faults* faults_;
  std::vector<std::uint64_t> rows_, selected_;
  std::vector<float> result_;
};

class Backend final : public backend::Backend {
 public:
  backend::DeviceInfo info() const override { return {"fake", "fake"}; }
  bool supports(const plan::Plan&, const plan::Step&) const override { return true; }
  Result<std::unique_ptr<backend::Program>> compile(const plan::Plan& plan,
                                                    backend::Bindings bindings) override {
    return std::make_unique<Program>(plan, std::move(bindings), &faults);
  }
  Faults faults;
};

// `window_tokens` at least kWindow: how much the cache keeps.
inline BoundPlan record(plan::Phase phase, plan::Capacity capacity,
                        std::uint32_t window_tokens = kWindow) {
  plan::Builder b("fake", phase, capacity, false);
  plan::CacheGroup full{plan::CacheKind::full, 0, 1, 1, 1, 1};
  plan::CacheGroup window{plan::CacheKind::window, window_tokens, 1, 1, 1, 1};
  b.cache_group(full);
  b.cache_group(window);
  const plan::WeightId table = b.weight({"table", DType::f32, kVocab, 32, 0});
  b.logits(b.select_rows(b.embed(table, plan::kNone, 1)), table, 1, 0);
  return {b.finish(), {nullptr}};
}

inline std::shared_ptr<Executor> make_executor(Backend& backend, std::uint32_t context,
                                               std::uint32_t sequences,
                                               std::uint64_t budget = 1 << 20,
                                               std::uint32_t window = kWindow) {
  auto executor = Executor::create(
      record(plan::Phase::decode, {8, 8, 8}, window),
      record(plan::Phase::prefill, {48, 1, 5}, window), backend,
      {.sequences = sequences, .context = context, .slice = 0, .budget_bytes = budget});
  if (!executor) std::abort();
  return std::move(*executor);
}

}  // namespace orrery::engine::fake
