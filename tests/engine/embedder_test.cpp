// Vectors of the tiny embedding models of tests/golden/make_dense.py against transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/embedder.hpp"
#include "engine/golden_model.hpp"
#include "model/model.hpp"
#include "storage/checkpoint.hpp"
#include "support/gguf_export.hpp"
#include "support/temp_dir.hpp"

namespace orrery::engine {
namespace {

using golden::folder_of, golden::Param, golden::print_name;

constexpr std::uint32_t kContext = 128;
constexpr double kExact = 2e-5;        // of an element, sums in f32 or more
constexpr double kMaxDistance = 1e-3;  // cosine, operands rounded to bf16

struct Golden {
  std::vector<text::TokenId> ids;
  std::vector<float> vector;
};

// `gguf_texts`: where GGUF files lack something that safetensors have.
std::vector<Golden> golden_of(const std::string& name, bool gguf = false) {
  const auto json = golden::json_of(name);
  std::vector<Golden> all;
  if (json.is_discarded()) return all;
  const char* list = gguf && json.contains("gguf_texts") ? "gguf_texts" : "texts";
  for (const auto& text : json[list]) all.push_back({text["ids"], text["vector"]});
  return all;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  const double dot = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  const double aa = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
  const double bb = std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
  return 1.0 - dot / std::sqrt(aa * bb);
}

double worst_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) worst = std::max<double>(worst, std::abs(a[i] - b[i]));
  return worst;
}

struct Made {
  std::shared_ptr<const model::LoadedModel> model;  // owns what the embedder reads
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<Embedder> embedder;
};

// `exact`: decode's number classes and caches in f32.
Result<Made> make(const std::string& path, std::unique_ptr<backend::Backend> backend, bool exact,
                  std::optional<plan::PoolKind> pooling = {}) {
  ORRERY_TRY(auto checkpoint, storage::Checkpoint::open(path, storage::system_io()));
  ORRERY_TRY(auto loaded, model::load_model(std::move(checkpoint)));
  Made made{std::make_shared<model::LoadedModel>(std::move(loaded)), std::move(backend), nullptr};
  model::RecordOptions options;
  options.phase = plan::Phase::embed;
  options.capacity = {kContext, 1, 1};
  options.deterministic = exact;
  options.context_length = kContext;
  options.k_type = options.v_type = exact ? DType::f32 : DType::f16;
  options.pooling = pooling;
  BoundPlan bound;
  ORRERY_TRY(bound.plan, made.model->record(options));
  ORRERY_TRY(bound.weights, made.model->bind(bound.plan));
  bound.experts = made.model->bind_experts(bound.plan);
  ORRERY_TRY(made.embedder,
             Embedder::create(std::move(bound), *made.backend, kContext, std::uint64_t{1} << 30));
  return made;
}

std::unique_ptr<backend::Backend> cpu() {
  auto made = backend::make_cpu_backend({.threads = 2, .isa = ""});
  return made ? std::move(*made) : nullptr;
}

class EmbedGolden : public ::testing::TestWithParam<Param> {
 protected:
  void expect_all(std::unique_ptr<backend::Backend> backend, bool exact) {
    const std::vector<Golden> golden = golden_of(GetParam().name, GetParam().gguf);
    ASSERT_FALSE(golden.empty());
    const auto made = make(GetParam().path(), std::move(backend), exact);
    ASSERT_TRUE(made) << made.error().message;
    for (const Golden& text : golden) {
      SCOPED_TRACE(text.ids.size());
      const auto vector = made->embedder->embed(text.ids, {});
      ASSERT_TRUE(vector) << vector.error().message;
      ASSERT_EQ(vector->size(), text.vector.size());
      EXPECT_LE(distance(*vector, text.vector), kMaxDistance);
      if (exact) {
        EXPECT_LE(worst_difference(*vector, text.vector), kExact);
      }
    }
    // Nothing is left of the longest text.
    const auto again = made->embedder->embed(golden[0].ids, {});
    EXPECT_LE(distance(*again, golden[0].vector), kMaxDistance);
  }
};

TEST_P(EmbedGolden, Reference) {
  expect_all(backend::make_reference_backend(), true);
}

TEST_P(EmbedGolden, CpuF32) {
  expect_all(cpu(), true);
}

TEST_P(EmbedGolden, CpuB16) {
  expect_all(cpu(), false);
}

std::vector<Param> all_cases() {
  std::vector<Param> params;
  for (const char* name : {"bert", "roberta", "nomic-bert", "nomic-bert-moe", "gemma3-embed"}) {
    for (const bool gguf : {true, false}) params.push_back({name, gguf});
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(Models, EmbedGolden, ::testing::ValuesIn(all_cases()), print_name);

void expect_vectors(const std::string& path, const std::vector<Golden>& golden) {
  ASSERT_FALSE(golden.empty());
  const auto made = make(path, backend::make_reference_backend(), true);
  ASSERT_TRUE(made) << made.error().message;
  for (const Golden& text : golden) {
    const auto vector = made->embedder->embed(text.ids, {});
    ASSERT_TRUE(vector) << vector.error().message;
    ASSERT_EQ(vector->size(), text.vector.size());
    EXPECT_LE(worst_difference(*vector, text.vector), kExact) << text.ids.size();
  }
}

class EmbedExport : public ::testing::TestWithParam<const char*> {};

TEST_P(EmbedExport, AFolderAsGgufGivesItsVectors) {
  const test::TempDir temporary;
  const std::string out = temporary.file("out.gguf");
  const auto written = testing::write_f32(folder_of(GetParam()), out);
  ASSERT_TRUE(written) << written.error().message;
  expect_vectors(out, golden_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Models, EmbedExport,
                         ::testing::Values("bert", "roberta", "nomic-bert", "gemma3-embed"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// GGUF has no bias of the experts: a model without one can be written.
TEST(EmbedExportOfExperts, WithoutTheirBias) {
  const test::TempDir temporary;
  std::filesystem::copy(folder_of("nomic-bert-moe"), temporary.path(),
                        std::filesystem::copy_options::recursive);
  testing::edit_safetensors(temporary.file("model.safetensors"),
                            [](const nlohmann::json& header, std::string& data) {
                              for (const auto& [name, tensor] : header.items()) {
                                if (!name.ends_with("experts.bias")) continue;
                                const std::size_t begin = tensor["data_offsets"][0];
                                const std::size_t end = tensor["data_offsets"][1];
                                data.replace(begin, end - begin, end - begin, '\0');
                              }
                            });
  const std::string out = temporary.file("out.gguf");
  const auto written = testing::write_f32(temporary.path(), out);
  ASSERT_TRUE(written) << written.error().message;
  expect_vectors(out, golden_of("nomic-bert-moe", true));
}

TEST(Embedder, CutsAndNormalises) {
  const Golden text = golden_of("bert").at(1);
  const auto made = make(folder_of("bert"), cpu(), true);
  ASSERT_TRUE(made) << made.error().message;
  const auto whole = made->embedder->embed(text.ids, {.normalize = false});
  const auto cut = made->embedder->embed(text.ids, {.dimensions = 16});
  ASSERT_EQ(cut->size(), 16U);
  EXPECT_NEAR(std::inner_product(cut->begin(), cut->end(), cut->begin(), 0.0), 1.0, 1e-6);
  EXPECT_NEAR(distance(*cut, {whole->begin(), whole->begin() + 16}), 0.0, 1e-6);
  EXPECT_LE(distance(*whole, text.vector), 1e-6);
  EXPECT_GT(worst_difference(*whole, text.vector), 0.01);
}

TEST(Embedder, PoolingCanBeChosen) {
  const Golden text = golden_of("bert").at(1);  // cls by the file
  std::vector<std::vector<float>> vectors;
  for (const auto kind : {plan::PoolKind::first, plan::PoolKind::mean, plan::PoolKind::last}) {
    const auto made = make(folder_of("bert"), cpu(), true, kind);
    ASSERT_TRUE(made) << made.error().message;
    vectors.push_back(*made->embedder->embed(text.ids, {}));
  }
  EXPECT_LE(distance(vectors[0], text.vector), 1e-6);
  EXPECT_GT(distance(vectors[1], text.vector), 1e-3);
  EXPECT_GT(distance(vectors[2], vectors[1]), 1e-3);
}

TEST(Embedder, PausesAfterEachPartOfALongText) {
  const auto made = make(folder_of("bert"), cpu(), false);
  ASSERT_TRUE(made) << made.error().message;
  std::vector<text::TokenId> ids(kContext);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<text::TokenId>(5 + i % 50);
  int pauses = 0;
  const auto count = [&pauses] { ++pauses; };
  const auto vector = made->embedder->embed(ids, {}, count);
  EXPECT_EQ(vector.value(), made->embedder->embed(ids, {}).value());
  EXPECT_GE(pauses, static_cast<int>(kContext / Embedder::kPartTokens) - 1);
  pauses = 0;
  ids.resize(Embedder::kPartTokens);
  EXPECT_TRUE(made->embedder->embed(ids, {}, count));
  EXPECT_EQ(pauses, 0);
}

TEST(Embedder, RefusesWhatDoesNotFit) {
  const auto made = make(folder_of("bert"), cpu(), true);
  ASSERT_TRUE(made) << made.error().message;
  const std::vector<text::TokenId> fits(kContext, 7), longer(kContext + 1, 7);
  EXPECT_TRUE(made->embedder->embed(fits, {}));
  EXPECT_EQ(made->embedder->embed(longer, {}).error().kind, "E_CONTEXT");
  EXPECT_EQ(made->embedder->embed({}, {}).error().kind, "E_TOKENS");
  EXPECT_EQ(made->embedder->embed(fits, {.dimensions = 65}).error().kind, "E_RANGE");
  const std::vector<text::TokenId> unknown = {5, 4096};
  EXPECT_EQ(made->embedder->embed(unknown, {}).error().kind, "E_TOKEN");
}

}  // namespace
}  // namespace orrery::engine
