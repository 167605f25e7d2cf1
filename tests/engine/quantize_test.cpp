// Quantized models: how far from their source, what the file says, and that a run that fails leaves
// nothing.
#include "engine/quantize.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "engine/collect_importance.hpp"
#include "engine/eval.hpp"
#include "engine/model.hpp"
#include "support/memory_io.hpp"
#include "support/paths.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"
#include "tensor/decode.hpp"

namespace orrery::engine {
namespace {

// Rows of 256, so that every type can be written as it is.
test::TinyGguf wide_model() {
  test::TinyGguf model;
  model.set("llama.embedding_length", 256U).set("llama.feed_forward_length", 256U);
  model.tensor("token_embd.weight", DType::f32, {256, test::TinyGguf::kTokens});
  model.tensor("output_norm.weight", DType::f32, {256}).fill("output_norm.weight", 1.0F);
  for (const std::string norm : {"attn_norm", "ffn_norm"}) {
    model.tensor("blk.0." + norm + ".weight", DType::f32, {256});
    model.fill("blk.0." + norm + ".weight", 1.0F);
  }
  for (const std::string matrix : {"attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    model.tensor("blk.0." + matrix + ".weight", DType::f32, {256, 256});
  }
  model.tensor("blk.0.attn_k.weight", DType::f32, {256, 128});
  model.tensor("blk.0.attn_v.weight", DType::f32, {256, 128});
  return model;
}

QuantizeOptions options_of(std::string_view type) {
  return {.mix = *find_mix(type), .importance = nullptr, .threads = 2, .progress = {}};
}

EvalText some_text() {
  EvalText text;
  text.context = 32;
  for (int i = 0; i < 64; ++i) text.tokens.push_back(3 + i * i % 250);
  return text;
}

std::unique_ptr<Session> open_session(const std::string& path, storage::Io& io, Device device) {
  ModelOptions options;
  options.threads = 2;
  options.context = 64;
  options.cache_budget_bytes = 1U << 24;
  options.device = device;
  const auto model = Model::open(path, options, io);
  if (!model) ADD_FAILURE() << model.error().message;
  return model ? *Session::open((*model)->executor()) : nullptr;
}

std::vector<float> weights_of(const std::string& path, const std::string& name, storage::Io& io) {
  const auto file = *storage::Checkpoint::open(path, io);
  const storage::TensorInfo& tensor = *file->find(name);
  std::vector<float> values(tensor.n_elements());
  decode_row(tensor.type, tensor.data, values.data(), values.size());
  return values;
}

// The sizes of divergences are those of a model of random weights, whose every bit counts.
struct Bound {
  const char* type;
  double kl;  // from the source, mean
};

class Quantize : public testing::TestWithParam<Bound> {};

TEST_P(Quantize, StaysNearItsSource) {
  test::MemoryIo io;
  io.files["in.gguf"] = wide_model().build();
  const auto report = quantize("in.gguf", "out.gguf", options_of(GetParam().type), io);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_LE(report->bytes_after, report->bytes_before);
  EXPECT_FALSE(report->was_quantized);
  const auto copy = open_session("out.gguf", io, Device::cpu_f32);
  const auto source = open_session("in.gguf", io, Device::cpu_f32);
  ASSERT_TRUE(copy && source);
  const auto result = evaluate_divergence(*copy, *source, some_text());
  ASSERT_TRUE(result) << result.error().message;
  RecordProperty("kl", std::to_string(result->mean_kl));
  EXPECT_LE(result->mean_kl, GetParam().kl);
  EXPECT_LE(result->perplexity, result->reference_perplexity * std::exp(3 * GetParam().kl + 0.1));
}

INSTANTIATE_TEST_SUITE_P(
    Types, Quantize,
    testing::Values(Bound{"F32", 1e-9}, Bound{"F16", 5e-05}, Bound{"BF16", 0.002},
                    Bound{"Q8_0", 0.02}, Bound{"Q4_0", 1.1}, Bound{"Q4_1", 0.6}, Bound{"Q5_0", 0.3},
                    Bound{"Q5_1", 0.3}, Bound{"Q2_K", 4.2}, Bound{"Q3_K", 2.3}, Bound{"Q4_K", 0.8},
                    Bound{"Q5_K", 0.27}, Bound{"Q6_K", 0.1}, Bound{"IQ4_NL", 1}, Bound{"IQ4_XS", 1},
                    Bound{"MXFP4", 1.3}, Bound{"NVFP4", 1.3}, Bound{"Q4_K_M", 0.8}),
    [](const auto& test) { return std::string(test.param.type); });

TEST(QuantizeFile, SaysWhatItHolds) {
  test::MemoryIo io;
  io.files["in.gguf"] = wide_model().set("general.file_type", 0U).build();
  const auto report = quantize("in.gguf", "out.gguf", options_of("q4_k_m"), io);
  ASSERT_TRUE(report) << report.error().message;
  const auto file = storage::Checkpoint::open("out.gguf", io);
  ASSERT_TRUE(file);
  EXPECT_EQ(*(*file)->metadata().u32("general.file_type"), 15U);
  EXPECT_EQ(*(*file)->metadata().u32("general.quantization_version"), 2U);
  EXPECT_EQ(*(*file)->metadata().string("tokenizer.ggml.model"), "llama");
  EXPECT_EQ((*file)->find("token_embd.weight")->type, DType::q6_k);  // tied: the head
  EXPECT_EQ((*file)->find("blk.0.ffn_up.weight")->type, DType::q4_k);
  EXPECT_EQ((*file)->find("output_norm.weight")->type, DType::f32);
  std::uint64_t bytes = 0;
  for (const storage::TensorInfo& tensor : (*file)->tensors()) bytes += tensor.bytes;
  EXPECT_EQ(bytes, report->bytes_after);
}

TEST(QuantizeFile, IsTheSameForAnyNumberOfThreads) {
  test::MemoryIo io;
  io.files["in.gguf"] = wide_model().build();
  QuantizeOptions options = options_of("Q4_K");
  ASSERT_TRUE(quantize("in.gguf", "two.gguf", options, io));
  options.threads = 1;
  ASSERT_TRUE(quantize("in.gguf", "one.gguf", options, io));
  EXPECT_EQ(io.files["one.gguf"], io.files["two.gguf"]);
}

TEST(QuantizeFile, WhatHasItsTypeAlreadyIsCopied) {
  test::MemoryIo io;
  io.files["in.gguf"] = test::TinyGguf().quantize(DType::q8_0).build();
  const auto report = quantize("in.gguf", "out.gguf", options_of("Q8_0"), io);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->was_quantized);
  const auto in = *storage::Checkpoint::open("in.gguf", io);
  const auto out = *storage::Checkpoint::open("out.gguf", io);
  for (const storage::TensorInfo& tensor : in->tensors()) {
    const storage::TensorInfo* copy = out->find(tensor.name);
    ASSERT_NE(copy, nullptr);
    ASSERT_EQ(copy->bytes, tensor.bytes);
    EXPECT_EQ(std::memcmp(copy->data, tensor.data, tensor.bytes), 0) << tensor.name;
  }
}

// The experts of gpt-oss lie apart in safetensors; the blocks are those of the golden file.
TEST(QuantizeFile, ExpertsInMxfp4AreCopied) {
  const std::string golden = test::source_dir() + "/tests/golden/";
  const test::TempDir folder;
  std::filesystem::copy(golden + "gpt-oss-mxfp4", folder.path());
  std::filesystem::copy(golden + "bert/tokenizer.json", folder.path());
  const std::string out = folder.file("out.gguf");
  const auto report = quantize(folder.path(), out, options_of("MXFP4"), storage::system_io());
  ASSERT_TRUE(report) << report.error().message;
  storage::Io& io = storage::system_io();
  const auto ours = *storage::Checkpoint::open(out, io);
  const auto theirs = *storage::Checkpoint::open(folder.file("gpt-oss-mxfp4-f16.gguf"), io);
  int experts = 0;
  for (const storage::TensorInfo& tensor : theirs->tensors()) {
    if (tensor.type != DType::mxfp4) continue;
    const storage::TensorInfo* copy = ours->find(tensor.name);
    ASSERT_NE(copy, nullptr);
    ASSERT_EQ(copy->bytes, tensor.bytes);
    EXPECT_EQ(std::memcmp(copy->data, tensor.data, tensor.bytes), 0) << tensor.name;
    ++experts;
  }
  EXPECT_EQ(experts, 6);
}

// A full disk, a file that cannot be read: whichever call fails, the target is as it was.
TEST(QuantizeFile, AnyCallMayFail) {
  const std::string in = test::TinyGguf().build();
  int failures = 0;
  for (int call = 1;; ++call) {
    test::MemoryIo io;
    io.files["in.gguf"] = in;
    io.files["out.gguf"] = "old";
    io.fail_call = call;
    if (quantize("in.gguf", "out.gguf", options_of("Q4_0"), io)) break;
    EXPECT_EQ(io.files["out.gguf"], "old") << call;
    EXPECT_EQ(io.files.size(), 2U) << call;
    ++failures;
  }
  EXPECT_GT(failures, 10);
}

TEST(QuantizeFile, CanBeStopped) {
  test::MemoryIo io;
  io.files["in.gguf"] = test::TinyGguf().build();
  QuantizeOptions options = options_of("Q8_0");
  options.progress = [](std::uint64_t done, std::uint64_t all) { return 2 * done < all; };
  const auto stopped = quantize("in.gguf", "out.gguf", options, io);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, "E_STOPPED");
  EXPECT_FALSE(io.files.contains("out.gguf"));
}

TEST(QuantizeFile, RefusesItsOwnSource) {
  test::MemoryIo io;
  io.files["in.gguf"] = test::TinyGguf().build();
  const auto refused = quantize("in.gguf", "in.gguf", options_of("Q8_0"), io);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_SAME");
}

TEST(QuantizeFile, NamesAValueThatTheTypeCannotHold) {
  for (const float bad : {std::nanf(""), INFINITY, 1e6F}) {
    test::MemoryIo io;
    io.files["in.gguf"] = test::TinyGguf().fill("blk.0.ffn_up.weight", bad).build();
    const auto refused = quantize("in.gguf", "out.gguf", options_of("F16"), io);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, "E_VALUE");
    EXPECT_NE(refused.error().message.find("blk.0.ffn_up.weight"), std::string::npos);
    EXPECT_FALSE(io.files.contains("out.gguf"));
  }
}

TEST(Importance, IsCollectedWrittenAndRead) {
  test::MemoryIo io;
  io.files["in.gguf"] = wide_model().build();
  const auto session = open_session("in.gguf", io, Device::cpu);
  const auto exact = open_session("in.gguf", io, Device::reference);
  ASSERT_TRUE(session && exact);
  const auto found = collect_importance(*session, some_text());
  const auto wanted = collect_importance(*exact, some_text());
  ASSERT_TRUE(found && wanted);
  EXPECT_EQ(found->sums.size(), 8U);  // seven matrices and the head
  for (const auto& [name, sums] : wanted->sums) {
    ASSERT_TRUE(found->sums.contains(name)) << name;
    const ColumnSums& got = found->sums.at(name);
    ASSERT_EQ(got.squares.size(), 256U);
    EXPECT_EQ(got.counts, sums.counts) << name;
    for (std::size_t i = 0; i < got.squares.size(); ++i) {
      ASSERT_NEAR(got.squares[i], sums.squares[i], 0.05F * sums.squares[i] + 0.02F) << name << i;
    }
  }
  EXPECT_EQ(found->sums.at("blk.0.attn_q.weight").counts[0], 64.0F);
  ASSERT_TRUE(write_importance(*found, "m.imatrix", io));
  const auto read = read_importance("m.imatrix", io);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->n_chunks, 2U);
  EXPECT_EQ(read->chunk_tokens, 32U);
  EXPECT_EQ(read->sums.at("blk.0.ffn_down.weight").squares,
            found->sums.at("blk.0.ffn_down.weight").squares);

  // And it is heeded: errors cost less where they would be multiplied.
  QuantizeOptions options = options_of("Q2_K");
  ASSERT_TRUE(quantize("in.gguf", "plain.gguf", options, io));
  options.importance = &*read;
  const auto report = quantize("in.gguf", "told.gguf", options, io);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->without_importance, 0U);
  const std::vector<float> columns = read->columns("blk.0.ffn_down.weight", 0, 256);
  const auto cost = [&](const std::string& path) {
    const std::vector<float> source = weights_of("in.gguf", "blk.0.ffn_down.weight", io);
    const std::vector<float> copy = weights_of(path, "blk.0.ffn_down.weight", io);
    double sum = 0.0;
    for (std::size_t i = 0; i < source.size(); ++i) {
      sum += columns[i % 256] * std::pow(source[i] - copy[i], 2.0);
    }
    return sum;
  };
  EXPECT_LT(cost("told.gguf"), 0.95 * cost("plain.gguf"));
}

// Of each expert the rows that its routes bring, whatever order the backend keeps them in: rows and
// blocks of 32, and inputs that are weighed (Llama 4).
TEST(Importance, OfExpertsCountsEachForItself) {
  const auto collect = [](const std::string& name, Device device, bool deterministic) {
    ModelOptions options;
    options.threads = 2;
    options.context = 64;
    options.cache_budget_bytes = 1U << 24;
    options.device = device;
    options.deterministic = deterministic;
    const std::string file =
        test::source_dir() + "/tests/golden/" + name + "/" + name + "-f16.gguf";
    const auto model = *Model::open(file, options, storage::system_io());
    EvalText text;
    text.context = 32;
    for (int i = 0; i < 64; ++i) text.tokens.push_back(2 + i * i % 90);
    return *collect_importance(**Session::open(model->executor()), text);
  };
  struct Case {
    std::string name;
    bool deterministic;
  };
  // Gemma's routers flip where operands are rounded to bf16.
  for (const auto& [name, deterministic] :
       {Case{"llama4", true}, Case{"llama4", false}, Case{"gemma4-moe", true}}) {
    SCOPED_TRACE(name + (deterministic ? " in rows" : " in blocks"));
    const Importance exact = collect(name, Device::reference, true);
    const Importance found = collect(name, Device::cpu, deterministic);
    ASSERT_EQ(found.sums.size(), exact.sums.size());
    std::size_t compared = 0;
    for (const auto& [weight, wanted] : exact.sums) {
      if (!weight.contains("_exps")) continue;
      const ColumnSums& got = found.sums.at(weight);
      EXPECT_EQ(std::accumulate(got.counts.begin(), got.counts.end(), 0.0F),
                std::accumulate(wanted.counts.begin(), wanted.counts.end(), 0.0F));
      const std::size_t cols = wanted.squares.size() / wanted.counts.size();
      for (std::size_t e = 0; e < wanted.counts.size(); ++e) {
        if (got.counts[e] != wanted.counts[e]) continue;  // a token whose experts are close
        ++compared;
        for (std::size_t i = e * cols; i < (e + 1) * cols; ++i) {
          const float slack = 0.05F * wanted.squares[i] + 0.02F * wanted.counts[e];
          ASSERT_NEAR(got.squares[i], wanted.squares[i], slack) << weight << " " << e;
        }
      }
    }
    EXPECT_GE(compared, 8U);
  }
}

void put(std::string& out, const auto& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// llama.cpp's form before GGUF: two experts of two columns, means times calls.
std::string old_file(std::int32_t columns, float last) {
  std::string out;
  const std::string name = "blk.0.ffn_up_exps.weight", text = "wiki.txt";
  put(out, std::int32_t{1});
  put(out, static_cast<std::int32_t>(name.size()));
  out += name;
  put(out, std::int32_t{7});
  put(out, columns);
  for (const float x : {1.0F, 2.0F, 8.0F, last}) put(out, x);
  put(out, std::int32_t{7});
  put(out, static_cast<std::int32_t>(text.size()));
  return out + text;
}

TEST(Importance, ReadsTheFormBeforeGguf) {
  test::MemoryIo io;
  io.files["m.dat"] = old_file(4, 4.0F);
  const auto read = read_importance("m.dat", io);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->n_chunks, 7U);
  EXPECT_EQ(read->datasets, std::vector<std::string>{"wiki.txt"});
  const std::vector<float> first{0.5F, 1.0F}, second{1.0F, 0.5F};
  EXPECT_EQ(read->columns("blk.0.ffn_up_exps.weight", 0, 2), first);
  EXPECT_EQ(read->columns("blk.0.ffn_up_exps.weight", 1, 2), second);
  EXPECT_TRUE(read->columns("blk.0.ffn_up_exps.weight", 0, 3).empty());
  const auto error_of = [&](const std::string& bytes) {
    io.files["m.dat"] = bytes;
    const auto refused = read_importance("m.dat", io);
    return refused ? std::string("none") : refused.error().message;
  };
  EXPECT_NE(error_of(old_file(-4, 4.0F)).find("number of columns is -4"), std::string::npos);
  EXPECT_NE(error_of(old_file(4, -4.0F)).find("negative"), std::string::npos);
  EXPECT_NE(error_of(old_file(1 << 30, 4.0F)).find("m.dat"), std::string::npos);
  const std::string whole = old_file(4, 4.0F);
  const std::size_t entries = whole.size() - 4 - 4 - std::string("wiki.txt").size();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    if (n != entries) {
      EXPECT_NE(error_of(whole.substr(0, n)), "none") << n;
    }
  }
}

TEST(Importance, RefusesOtherFiles) {
  const auto error_of = [](const test::GgufBuilder& builder) {
    test::MemoryIo io;
    io.files["m.gguf"] = builder.build();
    const auto refused = read_importance("m.gguf", io);
    return refused ? std::string("none") : refused.error().message;
  };
  const std::vector<float> four{1, 2, 3, 4}, one{1}, bad{1, -2, 3, 4};
  test::GgufBuilder other;
  other.add_kv("general.type", "model");
  EXPECT_NE(error_of(other).find("general.type is not"), std::string::npos);
  test::GgufBuilder lonely;
  lonely.add_kv("general.type", "imatrix");
  lonely.add_tensor("a.weight.in_sum2", DType::f32, {4, 1}, four);
  EXPECT_NE(error_of(lonely).find("a.weight.counts is missing"), std::string::npos);
  test::GgufBuilder negative;
  negative.add_kv("general.type", "imatrix");
  negative.add_tensor("a.weight.in_sum2", DType::f32, {4, 1}, bad);
  negative.add_tensor("a.weight.counts", DType::f32, {1, 1}, one);
  EXPECT_NE(error_of(negative).find("negative"), std::string::npos);
  test::GgufBuilder uneven;
  uneven.add_kv("general.type", "imatrix");
  uneven.add_tensor("a.weight.in_sum2", DType::f32, {4, 1}, four);
  uneven.add_tensor("a.weight.counts", DType::f32, {1, 4}, four);
  EXPECT_NE(error_of(uneven).find("4 counts for 4 sums"), std::string::npos);
}

TEST(QuantizeMix, ChoosesByKindOfTensor) {
  const QuantizeMix mix = *find_mix("Q4_K_M");
  const MixModel model{.n_layers = 16, .tied = false};
  const auto type_of = [&](std::string name, std::uint64_t cols, std::uint32_t n_dims = 2) {
    return mixed_type(
        mix, model,
        {.name = std::move(name), .type = DType::bf16, .n_dims = n_dims, .dims = {cols, 64, 1, 1}});
  };
  EXPECT_EQ(type_of("blk.0.ffn_down.weight", 256), DType::q6_k);  // at the end
  EXPECT_EQ(type_of("blk.2.ffn_down.weight", 256), DType::q4_k);
  EXPECT_EQ(type_of("blk.4.ffn_down.weight", 256), DType::q6_k);  // each third
  EXPECT_EQ(type_of("blk.15.attn_v.weight", 256), DType::q6_k);
  EXPECT_EQ(type_of("blk.2.attn_q.weight", 256), DType::q4_k);
  EXPECT_EQ(type_of("output.weight", 256), DType::q6_k);
  EXPECT_EQ(type_of("token_embd.weight", 256), DType::q4_k);
  EXPECT_EQ(type_of("blk.2.attn_q.weight", 96), DType::q5_0);  // no whole blocks of 256
  EXPECT_EQ(type_of("output.weight", 96), DType::q8_0);
  EXPECT_EQ(type_of("blk.2.attn_q.weight", 100), DType::f16);
  EXPECT_EQ(type_of("blk.2.attn_norm.weight", 256, 1), DType::f32);
  EXPECT_EQ(type_of("blk.2.ffn_gate_inp.weight", 256), DType::f32);  // a router
  EXPECT_EQ(type_of("position_embd.weight", 256), DType::f32);
  EXPECT_EQ(type_of("token_types.weight", 256), DType::f32);
  EXPECT_EQ(type_of("blk.2.attn_q.bias", 256, 1), DType::f32);
  EXPECT_EQ(mixed_type(mix, model,
                       {.name = "blk.2.ffn_gate_inp.weight",
                        .type = DType::q8_0,
                        .n_dims = 2,
                        .dims = {256, 64, 1, 1}}),
            DType::q8_0);
  EXPECT_FALSE(find_mix("Q4_K_XL"));
  EXPECT_FALSE(find_mix("I32"));
}

}  // namespace
}  // namespace orrery::engine
