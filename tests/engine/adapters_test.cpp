// Adapters of sessions: merged weights are the oracle, and nobody sees another session's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/model.hpp"
#include "engine/scheduler_fixture.hpp"
#include "engine/session.hpp"
#include "engine/session_file.hpp"
#include "support/crashing_state_io.hpp"
#include "support/memory_io.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_adapter.hpp"
#include "support/tiny_gguf.hpp"
#include "tensor/decode.hpp"

namespace orrery::engine {
namespace {

using test::TinyAdapter;
using Tokens = std::vector<text::TokenId>;

Tokens some_tokens(std::size_t n) {
  Tokens tokens(n);
  for (std::size_t i = 0; i < n; ++i)
    tokens[i] = static_cast<text::TokenId>((i * i * 7 + 11) % 250);
  return tokens;
}

ModelOptions options_of(Device device) {
  ModelOptions options;
  options.device = device;
  options.threads = 2;
  options.context = 128;
  options.max_sequences = 4;
  options.cache_budget_bytes = 1U << 26;
  options.k_type = options.v_type = DType::f32;
  return options;
}

std::vector<float> evaluate(Session& session, const Tokens& tokens) {
  const auto result = session.evaluate(tokens);
  EXPECT_TRUE(result) << result.error().message;
  return {result->logits.begin(), result->logits.end()};
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = a.size() == b.size() ? 0.0 : 1e30, size = 1e-9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
    size = std::max(size, std::abs(double(b[i])));
  }
  return worst / size;
}

// Every kind of product of the tiny llama.
TinyAdapter all_products(std::uint32_t seed) {
  TinyAdapter adapter(seed);
  const std::string block = "blk.0.", layer = "model.layers.0.";
  adapter.add({block + "attn_q.weight", layer + "self_attn.q_proj", 64, 64, 4});
  adapter.matrices.back().paired_heads = 4;
  adapter.add({block + "attn_k.weight", layer + "self_attn.k_proj", 32, 64, 4});
  adapter.matrices.back().paired_heads = 2;
  adapter.add({block + "attn_v.weight", layer + "self_attn.v_proj", 32, 64, 4});
  adapter.add({block + "attn_output.weight", layer + "self_attn.o_proj", 64, 64, 4});
  adapter.add({block + "ffn_gate.weight", layer + "mlp.gate_proj", 96, 64, 4});
  adapter.add({block + "ffn_up.weight", layer + "mlp.up_proj", 96, 64, 4});
  adapter.add({block + "ffn_down.weight", layer + "mlp.down_proj", 64, 96, 4});
  return adapter;
}
TinyAdapter some_products(std::uint32_t seed) {
  TinyAdapter adapter(seed);
  adapter.add({"blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj", 96, 64, 7});
  return adapter;
}

class Adapters : public testing::TestWithParam<Device> {
 protected:
  Adapters() {
    io_.files["m.gguf"] = plain_.build();
    io_.files["all.gguf"] = all_products(1).gguf();
    io_.files["some.gguf"] = some_products(2).gguf();
    io_.files["all/adapter_model.safetensors"] = all_products(1).tensors();
    io_.files["all/adapter_config.json"] = all_products(1).config();
    model_ = open("m.gguf");
  }
  std::shared_ptr<const Model> open(const std::string& path) {
    auto model = Model::open(path, options_of(GetParam()), io_);
    EXPECT_TRUE(model) << model.error().message;
    return *model;
  }
  std::uint32_t load(const std::string& path) {
    const auto id = model_->load_adapter(path, io_);
    EXPECT_TRUE(id) << id.error().message;
    return id.value_or(99);
  }
  std::unique_ptr<Session> session() { return *Session::open(model_->executor()); }
  // Prefill is class b16 on device cpu alone.
  double tolerance() const { return GetParam() == Device::cpu ? 0.03 : 1e-5; }

  // The model's file with W + scale alpha / rank B A.
  void merge(test::TinyGguf& file, const TinyAdapter& adapter, float scale) {
    for (const test::AdapterMatrix& m : adapter.matrices) {
      const auto b = m.gguf_b();
      const double factor = scale * adapter.alpha / static_cast<double>(m.rank);
      file.edit(m.gguf, [&](std::vector<float>& w) {
        for (std::size_t r = 0; r < m.rows; ++r) {
          for (std::size_t c = 0; c < m.cols; ++c) {
            double sum = 0;
            for (std::size_t j = 0; j < m.rank; ++j) {
              sum += double{b[r * m.rank + j]} * double{m.a[j * m.cols + c]};
            }
            w[r * m.cols + c] += static_cast<float>(factor * sum);
          }
        }
      });
    }
  }

  test::MemoryIo io_;
  test::TinyGguf plain_;
  std::shared_ptr<const Model> model_;
};

TEST_P(Adapters, EqualMergedWeights) {
  const Tokens tokens = some_tokens(50);
  const auto all = load("all.gguf"), some = load("some.gguf"), folder = load("all");
  test::TinyGguf merged = plain_;
  merge(merged, all_products(1), 0.5F);
  merge(merged, some_products(2), -1.25F);
  io_.files["merged.gguf"] = merged.build();
  const auto other = open("merged.gguf");
  const auto expected = evaluate(**Session::open(other->executor()), tokens);
  const auto adapted = session();
  const auto plain = evaluate(*adapted, tokens);
  ASSERT_TRUE(adapted->set_adapters(std::vector<AdapterUse>{{all, 0.5F}, {some, -1.25F}}));
  const auto got = evaluate(*adapted, tokens);
  EXPECT_LT(difference(got, expected), tolerance());
  EXPECT_GT(difference(plain, expected), 0.2);
  // The same from PEFT's form, but that its slot comes after the other one's.
  ASSERT_TRUE(adapted->set_adapters(std::vector<AdapterUse>{{folder, 0.5F}, {some, -1.25F}}));
  EXPECT_LT(difference(evaluate(*adapted, tokens), got), tolerance());
  // Token by token, and from what is held.
  const auto next = session();
  ASSERT_TRUE(next->set_adapters(std::vector<AdapterUse>{{all, 0.5F}, {some, -1.25F}}));
  std::vector<float> last;
  for (std::size_t n = 20; n <= 50; ++n) {
    last = evaluate(*next, Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)));
  }
  EXPECT_LT(difference(last, expected), tolerance());
}

// A file does not say which adapters made its pages.
TEST_P(Adapters, NoSessionWithAdaptersIsKeptOrRestored) {
  const Tokens tokens = some_tokens(70);
  const std::vector<AdapterUse> one = {{load("all.gguf"), 1.0F}};
  test::CrashingStateIo io;
  auto file = SessionFile::open(io, "s", kv_identity(*model_->executor(), nullptr));
  ASSERT_TRUE(file) << file.error().message;
  const auto plain = session(), adapted = session();
  evaluate(*plain, tokens);
  ASSERT_TRUE((*file)->save(*plain, "text"));
  ASSERT_TRUE(adapted->set_adapters(one));
  evaluate(*adapted, tokens);
  const Status kept = (*file)->save(*adapted, "text");
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().kind, "E_ADAPTER");
  const Restored restored = (*file)->restore(*adapted);
  EXPECT_EQ(restored.tokens, 0U);
  ASSERT_TRUE(restored.problem);
  EXPECT_EQ(restored.problem->kind, "E_ADAPTER");
  EXPECT_EQ((*file)->restore(*plain).tokens, 70U);
}

TEST_P(Adapters, WhatIsHeldBelongsToItsAdapters) {
  const Tokens tokens = some_tokens(40);
  const auto id = load("all.gguf");
  const auto one = session();
  const auto plain = evaluate(*one, tokens);
  EXPECT_EQ(one->held().size(), 40U);
  ASSERT_TRUE(one->set_adapters({}));  // as before
  EXPECT_EQ(one->held().size(), 40U);
  ASSERT_TRUE(one->set_adapters(std::vector<AdapterUse>{{id, 0.0F}}));  // the same as none
  EXPECT_EQ(one->held().size(), 40U);
  ASSERT_TRUE(one->set_adapters(std::vector<AdapterUse>{{id, 1.0F}}));
  EXPECT_EQ(one->held().size(), 0U);
  const auto adapted = evaluate(*one, tokens);
  EXPECT_NE(adapted, plain);
  ASSERT_TRUE(one->set_adapters(std::vector<AdapterUse>{{id, 0.5F}, {id, 0.5F}}));  // they add up
  EXPECT_EQ(one->held().size(), 40U);
  ASSERT_TRUE(one->set_adapters(std::vector<AdapterUse>{{id, 0.5F}}));
  EXPECT_NE(evaluate(*one, tokens), adapted);
  ASSERT_TRUE(one->set_adapters({}));
  EXPECT_EQ(evaluate(*one, tokens), plain);
}

TEST_P(Adapters, ABatchGivesEachTheBitsThatItHasAlone) {
  const Tokens tokens = some_tokens(20), next = {3, 5, 9, 4};
  const auto all = load("all.gguf"), some = load("some.gguf");
  const std::vector<std::vector<AdapterUse>> uses = {
      {{all, 1.0F}}, {}, {{some, 2.0F}}, {{some, 0.5F}, {all, -0.5F}}};
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Session*> batch;
  for (const auto& use : uses) {
    sessions.push_back(session());
    batch.push_back(sessions.back().get());
    ASSERT_TRUE(batch.back()->set_adapters(use));
    evaluate(*batch.back(), tokens);
  }
  ASSERT_TRUE(decode_batch(batch, next));
  std::vector<std::vector<float>> rows;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto row = model_->executor()->logits(i);
    rows.emplace_back(row.begin(), row.end());
  }
  for (std::size_t i = 0; i < 4; ++i) {
    batch[i]->clear();
    evaluate(*batch[i], tokens);
    ASSERT_TRUE(decode_batch({&batch[i], 1}, {&next[i], 1}));
    EXPECT_TRUE(std::ranges::equal(model_->executor()->logits(0), rows[i])) << i;
  }
  EXPECT_NE(rows[0], rows[1]);
}

TEST_P(Adapters, ANewSessionHasNone) {
  const auto id = load("all.gguf");
  const Tokens tokens = some_tokens(15);
  const auto plain = evaluate(*session(), tokens);
  {
    const auto one = session();
    ASSERT_TRUE(one->set_adapters(std::vector<AdapterUse>{{id, 1.0F}}));
    EXPECT_NE(evaluate(*one, tokens), plain);
  }
  EXPECT_EQ(evaluate(*session(), tokens), plain);
}

TEST_P(Adapters, RequestsOfASchedulerHaveTheirOwn) {
  const auto all = load("all.gguf"), some = load("some.gguf");
  const Tokens prompt = some_tokens(90);  // more than a page, for prefixes that could be shared
  const std::vector<std::vector<AdapterUse>> uses = {
      {{all, 1.0F}}, {}, {{all, 1.0F}}, {{some, 2.0F}}, {{all, 0.5F}}, {}};
  std::vector<Tokens> alone;
  for (const auto& use : uses) {
    const auto one = session();
    ASSERT_TRUE(one->set_adapters(use));
    Tokens tokens = prompt;
    for (int i = 0; i < 6; ++i) {
      const auto logits = evaluate(*one, tokens);
      tokens.push_back(
          static_cast<text::TokenId>(std::ranges::max_element(logits) - logits.begin()));
    }
    alone.emplace_back(tokens.begin() + 90, tokens.end());
  }
  const auto scheduler = *Scheduler::start(model_, {.running = 2, .queued = 16});
  const auto with = [](const Tokens& tokens, std::vector<AdapterUse> use) {
    Request request = fake::greedy(tokens, 6);
    request.sampling.logit_bias.clear();
    request.ignore_end = true;
    request.adapters = std::move(use);
    return request;
  };
  std::vector<std::shared_ptr<fake::Recorder>> events;
  for (const auto& use : uses) {
    events.push_back(std::make_shared<fake::Recorder>());
    ASSERT_TRUE(scheduler->submit(with(prompt, use), events.back()));
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    EXPECT_FALSE(events[i]->wait().error);
    EXPECT_EQ(events[i]->tokens, alone[i]) << i;
  }
  EXPECT_NE(alone[0], alone[1]);
  EXPECT_GT(events[2]->wait().reused_tokens + events[5]->wait().reused_tokens, 0U);
  const auto unknown = std::make_shared<fake::Recorder>();
  ASSERT_TRUE(scheduler->submit(with(prompt, {{9, 1.0F}}), unknown));
  ASSERT_TRUE(unknown->wait().error);
  EXPECT_EQ(unknown->wait().error->kind, "E_ADAPTER");
}

TEST_P(Adapters, RefusesWhatIsNotLoadedAndMoreThanFit) {
  const auto one = session();
  const auto unknown = one->set_adapters(std::vector<AdapterUse>{{0, 1.0F}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, "E_ADAPTER");
  for (std::uint32_t i = 0; i < backend::kMaxAdapters; ++i) EXPECT_EQ(load("some.gguf"), i);
  const auto more = model_->load_adapter("some.gguf", io_);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().kind, "E_ADAPTER");
  const auto infinite = one->set_adapters(std::vector<AdapterUse>{{0, HUGE_VALF}});
  ASSERT_FALSE(infinite);
  EXPECT_EQ(infinite.error().kind, "E_ADAPTER");
  const auto absent = model_->load_adapter("absent.gguf", io_);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, "E_NOTFOUND");
}

std::string name_of(const testing::TestParamInfo<Device>& info) {
  constexpr const char* kNames[] = {"cpu", "cpu_f32", "reference"};
  return kNames[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Devices, Adapters,
                         testing::Values(Device::cpu, Device::cpu_f32, Device::reference), name_of);

// The two forms of an adapter on the two forms of a model: safetensors on safetensors is the
// oracle, as nothing is put in another order there.
TEST(AdapterFormats, AreTheSameOnBothFormsOfAModel) {
  const std::string folder = test::shared_dir() + "/data/golden/llama";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  auto options = options_of(Device::cpu_f32);
  const auto safetensors = *Model::open(folder, options, storage::system_io());
  const auto gguf = *Model::open(folder + "/llama-f16.gguf", options, storage::system_io());
  const model::Hparams& h = gguf->hparams();
  TinyAdapter adapter(5);
  for (const auto& [letter, heads] : {std::pair{"q", h.n_heads}, std::pair{"k", h.n_kv_heads}}) {
    adapter.add({std::string("blk.1.attn_") + letter + ".weight",
                 std::string("model.layers.1.self_attn.") + letter + "_proj",
                 std::uint64_t{heads} * h.head_dim, h.hidden_dim, 4});
    adapter.matrices.back().paired_heads = heads;
  }
  const test::TempDir files;
  files.write("a.gguf", adapter.gguf());
  files.write("a/adapter_model.safetensors", adapter.tensors());
  files.write("a/adapter_config.json", adapter.config());
  const Tokens tokens = some_tokens(12);
  std::vector<std::vector<float>> logits;
  for (const auto& model : {safetensors, gguf}) {
    for (const char* name : {"a", "a.gguf"}) {
      const auto id = model->load_adapter(files.file(name), storage::system_io());
      ASSERT_TRUE(id) << id.error().message;
      const auto session = *Session::open(model->executor());
      const auto plain = evaluate(*session, tokens);
      ASSERT_TRUE(session->set_adapters(std::vector<AdapterUse>{{*id, 1.0F}}));
      logits.push_back(evaluate(*session, tokens));
      EXPECT_GT(difference(plain, logits.back()), 1e-3);
    }
  }
  for (const auto& other : logits) EXPECT_LT(difference(other, logits[0]), 1e-5);
}

}  // namespace
}  // namespace orrery::engine
