// A two-layer llama of one element type, recorded without a file: what backends are compared on.
// With `mixture` its second layer has experts and a shared one.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "plan/builder.hpp"
#include "plan/passes.hpp"
#include "support/random_blocks.hpp"

namespace orrery::test {

struct TinyLlama {
  static constexpr std::uint32_t kHidden = 256, kFfn = 512, kVocab = 97, kLayers = 2;
  static constexpr std::uint16_t kHeads = 4, kKvHeads = 2, kHeadDim = 64;
  static constexpr std::uint32_t kPages = 16;

  DType type = DType::f32;
  std::uint32_t window = 0;
  float softcap = 0.0F;
  bool qk_norm = false, qk_norm_weights = true;
  bool chunked = false;
  plan::QueryGrowth query_growth{};
  DType k_type = DType::f32, v_type = DType::f32;
  struct Mixture {
    std::uint32_t experts = 0, ffn = 96;
    DType router = DType::f32;
    plan::RouteOptions route{};
    bool shared = false, biases = false;
    bool as_decode = false;  // in prefill, too
    bool gated = true, weigh_input = false, sum_bias = false, factors = false;
  } mixture{};

  plan::Plan record(plan::Phase phase, plan::Capacity capacity, bool deterministic) const {
    plan::Builder b("tiny", phase, capacity, deterministic, mixture.as_decode);
    const auto matrix = [&](std::string name, std::uint32_t rows, std::uint32_t cols) {
      return b.weight({std::move(name), type, rows, cols, 0});
    };
    const auto vector = [&](std::string name, std::uint32_t cols) {
      return b.weight({std::move(name), DType::f32, 1, cols, 0});
    };
    const std::int16_t group =
        b.cache_group({window != 0 ? plan::CacheKind::window : plan::CacheKind::full, window,
                       kLayers, kKvHeads, kHeadDim, kHeadDim, k_type, v_type});
    std::vector<float> frequencies;
    for (int i = 0; i < kHeadDim / 2; ++i) {
      frequencies.push_back(std::pow(10000.0F, -2.0F * float(i) / float(kHeadDim)));
    }
    const std::int16_t table = b.constant(frequencies);
    const plan::WeightId embedding = matrix("token_embd", kVocab, kHidden);
    plan::BufferId x = b.embed(embedding, plan::kNone, 1.0F);
    for (std::uint32_t l = 0; l < kLayers; ++l) {
      const std::string p = "blk." + std::to_string(l) + ".";
      b.set_layer(static_cast<std::int16_t>(l));
      const plan::BufferId h = b.norm("attn_norm", x, vector(p + "attn_norm", kHidden), {});
      const std::string names[] = {"q", "k", "v"};
      const plan::WeightId weights[] = {matrix(p + "q", kHeads * kHeadDim, kHidden),
                                        matrix(p + "k", kKvHeads * kHeadDim, kHidden),
                                        matrix(p + "v", kKvHeads * kHeadDim, kHidden)};
      plan::MatmulOptions biased;
      biased.bias[0] = vector(p + "q_bias", kHeads * kHeadDim);
      const auto qkv = b.matmul(names, h, weights, biased);
      const plan::BufferId attn =
          b.attention(qkv[0], qkv[1], qkv[2], attention(b, l, group, table));
      plan::MatmulOptions residual;
      residual.residual = x;
      x = b.matmul("x", attn, matrix(p + "o", kHidden, kHeads * kHeadDim), residual);
      const plan::BufferId f = b.norm("ffn_norm", x, vector(p + "ffn_norm", kHidden), {});
      if (l == 1 && mixture.experts > 0) {
        x = record_mixture(b, f, x);
        continue;
      }
      const plan::BufferId g = b.glu("ffn", f, matrix(p + "gate", kFfn, kHidden),
                                     matrix(p + "up", kFfn, kHidden), plan::Activation::silu);
      residual.residual = x;
      x = b.matmul("x", g, matrix(p + "down", kHidden, kFfn), residual);
    }
    b.set_layer(-1);
    const plan::BufferId last = b.select_rows(x);
    const plan::BufferId n = b.norm("output_norm", last, vector("output_norm", kHidden), {});
    b.logits(n, matrix("output", kVocab, kHidden), 1.0F, 0.0F);
    return b.finish();
  }

 private:
  plan::AttentionOptions attention(plan::Builder& b, std::uint32_t l, std::int16_t group,
                                   std::int16_t table) const {
    const auto norm = [&](const char* name) {
      return b.weight({"blk." + std::to_string(l) + "." + name, DType::f32, 1, kHeadDim});
    };
    plan::AttentionOptions a;
    a.group = group;
    a.group_layer = static_cast<std::int16_t>(l);
    a.heads = kHeads;
    a.kv_heads = kKvHeads;
    a.k_dim = a.v_dim = kHeadDim;
    a.scale = 0.125F;
    a.softcap = softcap;
    a.window = window;
    a.chunked = chunked;
    a.query_growth = query_growth;
    a.rope = l == 0 ? plan::RopeStyle::halves : plan::RopeStyle::adjacent;
    a.rope_dim = kHeadDim;
    a.rope_table = table;
    a.eps = 1e-5F;
    if (qk_norm) {
      a.qk_norm = plan::QkNorm::head;
    }
    if (qk_norm && qk_norm_weights) {
      a.q_norm = norm("q_norm");
      a.k_norm = norm("k_norm");
    }
    return a;
  }

  plan::BufferId record_mixture(plan::Builder& b, plan::BufferId f, plan::BufferId x) const {
    const std::uint32_t n = mixture.experts;
    const auto vectors = [&](const char* name, std::uint32_t rows, std::uint32_t cols) {
      return mixture.biases ? b.weight({name, DType::f32, rows, cols}) : plan::kNone;
    };
    const auto stack = [&](const char* name, std::uint32_t rows, std::uint32_t cols) {
      return b.weight({.tensor = name, .dtype = type, .rows = rows, .cols = cols, .experts = n});
    };
    plan::MatmulOptions as_decode;
    as_decode.as_decode = true;
    plan::RouteOptions route = mixture.route;
    route.choice_bias = vectors("choice_bias", 1, n);
    if (mixture.factors) route.factors = b.weight({"factors", DType::f32, 1, n});
    const plan::WeightId router = b.weight({"router", mixture.router, n, kHidden});
    const plan::BufferId logits = b.matmul("router", f, router, as_decode);
    plan::ExpertOptions options;
    if (mixture.shared) {
      const plan::WeightId gate = b.weight({"gate", DType::f32, 1, kHidden});
      route.shared_gate = b.matmul("gate", f, gate, as_decode);
      options.shared = b.matmul("shared", f, b.weight({"shared", type, kHidden, kHidden}), {});
    }
    options.gate = stack("gate_exps", mixture.ffn, kHidden);
    if (mixture.gated) options.up = stack("up_exps", mixture.ffn, kHidden);
    options.down = stack("down_exps", kHidden, mixture.ffn);
    options.gate_bias = vectors("gate_bias", n, mixture.ffn);
    if (mixture.gated) options.up_bias = vectors("up_bias", n, mixture.ffn);
    options.down_bias = vectors("down_bias", n, kHidden);
    options.weigh_input = mixture.weigh_input;
    if (mixture.sum_bias) options.sum_bias = b.weight({"sum_bias", DType::f32, 1, kHidden});
    options.scale = 0.75F;
    options.residual = x;
    return b.experts("moe", f, b.moe_route(logits, route), options);
  }
};

// A plan compiled on a backend with its own weights (the same for equal seeds) and pages.
class Runner {
 public:
  using Edit = std::function<void(const plan::Weight&, std::vector<std::byte>&)>;  // of weights

  Runner(backend::Backend& device, plan::Plan plan, std::uint32_t seed, const Edit& edit = {})
      : plan_(std::move(plan)) {
    plan_ = plan::fuse(std::move(plan_), [&](const plan::Plan& p, const plan::Step& s) {
      return device.supports(p, s);
    });
    plan_ = plan::place(std::move(plan_), false);
    backend::Bindings bindings;
    for (const plan::Weight& w : plan_.weights) {
      // By name, so that every plan of a model sees the same weights in whatever order.
      std::mt19937 rng(seed + static_cast<std::uint32_t>(std::hash<std::string>{}(w.tensor)));
      const float size = w.rows == 1 ? 1.0F : 1.0F / std::sqrt(float(w.cols)) * 2.0F;
      const std::uint32_t matrices = std::max(1U, w.experts);
      weights_.push_back(random_weights(w.dtype, w.rows * matrices, w.cols, size, rng));
      fit_to_name(w.tensor, weights_.back());
      if (edit) edit(w, weights_.back());
      const std::byte* data = weights_.back().data();
      bindings.weights.push_back(data);
      bindings.experts.emplace_back();
      for (std::uint32_t e = 0; e < w.experts; ++e) {  // not one after the other
        const std::uint32_t place = (e * 5 + 1) % w.experts;
        bindings.experts.back().push_back(data + w.bytes() / w.experts * place);
      }
    }
    for (const plan::CacheGroup& group : plan_.groups) {
      pools_.emplace_back(group.page_bytes() * TinyLlama::kPages / 4 + 16);
      bindings.pools.push_back(
          {reinterpret_cast<std::byte*>(pools_.back().data()), TinyLlama::kPages});
    }
    auto compiled = device.compile(plan_, bindings);
    if (compiled) program_ = std::move(*compiled);
  }
  explicit operator bool() const { return program_ != nullptr; }
  const plan::Plan& plan() const { return plan_; }
  backend::Program& program() { return *program_; }
  // Makes this runner read and write the other one's pages (prefill, then decode).
  void copy_pages(const Runner& other) {
    for (std::size_t i = 0; i < pools_.size(); ++i) pools_[i] = other.pools_[i];
  }

  std::vector<float> adapter_scales;  // of the sequences, as in Batch; empty: none

  // Runs rows (sequence, position, id); logits of every row, (rows, vocab).
  struct Row {
    std::int32_t sequence, position, id;
  };
  std::vector<float> run(const std::vector<Row>& rows) {
    std::vector<std::int32_t> ids, positions, sequences, outputs, pages;
    std::int32_t n_sequences = 0;
    for (const Row& row : rows) {
      outputs.push_back(static_cast<std::int32_t>(ids.size()));
      ids.push_back(row.id);
      positions.push_back(row.position);
      sequences.push_back(row.sequence);
      n_sequences = std::max(n_sequences, row.sequence + 1);
    }
    constexpr std::int32_t kStride = 4;  // pages a sequence
    for (std::int32_t i = 0; i < n_sequences * kStride; ++i) pages.push_back((i * 7 + 3) % 16);
    const std::vector<const std::int32_t*> tables(plan_.groups.size(), pages.data());
    backend::Batch batch;
    batch.n_tokens = batch.n_outputs = static_cast<std::int32_t>(rows.size());
    batch.n_sequences = n_sequences;
    batch.ids = ids.data();
    batch.positions = positions.data();
    batch.row_sequence = sequences.data();
    batch.output_rows = outputs.data();
    batch.page_tables = tables;
    batch.pages_stride = kStride;
    if (!adapter_scales.empty()) batch.adapter_scales = adapter_scales.data();
    const Status status = program_->run(batch, 0, program_->n_steps());
    if (!status) return {};
    const float* result = program_->result();
    return {result, result + rows.size() * plan_.vocab};
  }

 private:
  plan::Plan plan_;
  std::vector<std::vector<std::byte>> weights_;
  std::vector<std::vector<float>> pools_;
  std::unique_ptr<backend::Program> program_;
};

}  // namespace orrery::test
