// Images: the bits of their source without a byte moved at the start, and refused when anything is
// wrong with them.
#include "engine/image.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "engine/model.hpp"
#include "engine/packable.hpp"
#include "engine/quantize.hpp"
#include "engine/session.hpp"
#include "storage/gguf.hpp"
#include "support/memory_io.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

Status make(storage::Io& io, const std::string& out, std::string_view mix, bool packed,
            const std::string& in = "in.gguf") {
  QuantizeOptions options;
  if (!mix.empty()) options.mix = find_mix(mix);
  options.image = true;
  options.packed = packed;
  options.threads = 1;
  const auto report = quantize(in, out, options, io);
  return report ? Status{} : std::unexpected(report.error());
}

std::shared_ptr<const Model> open(storage::Io& io, const std::string& path,
                                  WeightLayout layout = WeightLayout::file,
                                  Device device = Device::cpu) {
  ModelOptions options;
  options.threads = 2;
  options.layout = layout;
  options.device = device;
  options.context = 96;
  options.cache_budget_bytes = 1U << 26;
  auto model = Model::open(path, options, io);
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : nullptr;
}

// Of a prompt long enough for blocks of tokens, and of the tokens after it.
std::vector<float> logits(const std::shared_ptr<const Model>& model) {
  std::vector<float> all;
  if (model == nullptr) return all;
  const auto session = *Session::open(model->executor());
  const auto vocab = static_cast<int>(model->hparams().vocab_size);
  Tokens tokens(70);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int>(3 + i * 37) % vocab;
  }
  for (int step = 0; step < 4; ++step) {
    const auto result = session->evaluate(tokens);
    EXPECT_TRUE(result) << result.error().message;
    if (!result) return {};
    all.insert(all.end(), result->logits.begin(), result->logits.end());
    tokens.push_back(5 + step);
  }
  return all;
}

class ImageOf : public testing::TestWithParam<DType> {};

TEST_P(ImageOf, HasTheBitsOfItsSource) {
  test::MemoryIo io;
  io.files["in.gguf"] = test::TinyGguf(2).quantize(GetParam()).build();
  ASSERT_TRUE(make(io, "packed.gguf", "", true));
  ASSERT_TRUE(make(io, "file.gguf", "", false));
  const auto packed = open(io, "packed.gguf"), file = open(io, "file.gguf");
  const std::vector<float> wanted = logits(open(io, "in.gguf"));
  ASSERT_TRUE(packed && file);
  EXPECT_EQ(logits(packed), wanted);
  EXPECT_EQ(logits(file), wanted);
  EXPECT_EQ(logits(open(io, "packed.gguf", WeightLayout::packed)), wanted);
  EXPECT_EQ(packed->info().packed_bytes, 0U);
  ASSERT_TRUE(packed->info().image && file->info().image);
  EXPECT_TRUE(packed->info().image->packed);
  EXPECT_FALSE(file->info().image->packed);
  EXPECT_TRUE(packed->warnings().empty());
  int n_packed = 0;
  for (const storage::TensorInfo& tensor : packed->checkpoint().tensors()) {
    EXPECT_EQ(tensor.offset % 4096, 0U);
    n_packed += tensor.layout == Layout::packed;
  }
  EXPECT_EQ(n_packed, 15);  // seven a layer and the embedding, which is the head too
  // Decoded to f32 as well.
  EXPECT_EQ(logits(open(io, "packed.gguf", WeightLayout::file, Device::cpu_f32)),
            logits(open(io, "in.gguf", WeightLayout::file, Device::cpu_f32)));
  ModelOptions options;
  options.device = Device::reference;
  const auto refused = Model::open("packed.gguf", options, io);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_UNSUPPORTED");
}

INSTANTIATE_TEST_SUITE_P(Types, ImageOf,
                         testing::Values(DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                                         DType::q8_0),
                         [](const auto& of) { return std::string(dtype_info(of.param).name); });

TEST(Image, TypesAreThoseOfTheMix) {
  test::MemoryIo io;
  io.files["in.gguf"] = test::TinyGguf().build();
  ASSERT_TRUE(make(io, "q8.gguf", "Q8_0", true));
  ASSERT_TRUE(make(io, "q8-file.gguf", "Q8_0", false));
  const auto image = open(io, "q8.gguf");
  ASSERT_TRUE(image && image->info().image);
  EXPECT_EQ(image->info().image->types, "Q8_0");
  EXPECT_EQ(image->checkpoint().find("blk.0.ffn_up.weight")->type, DType::q8_0);
  EXPECT_EQ(logits(image), logits(open(io, "q8-file.gguf")));
  // 262 rows of the vocabulary are no whole panels.
  EXPECT_EQ(image->checkpoint().find("token_embd.weight")->layout, Layout::file);
  // What is smaller already stays.
  test::MemoryIo small;
  small.files["in.gguf"] = test::TinyGguf().quantize(DType::q4_0).build();
  ASSERT_TRUE(make(small, "q8.gguf", "Q8_0", true));
  EXPECT_EQ(open(small, "q8.gguf")->checkpoint().find("blk.0.ffn_up.weight")->type, DType::q4_0);
}

TEST(Image, IsMadeOfNoImage) {
  test::MemoryIo io;
  io.files["in.gguf"] = test::TinyGguf().quantize(DType::q8_0).build();
  ASSERT_TRUE(make(io, "image.gguf", "", true));
  const Status refused = make(io, "again.gguf", "Q4_0", true, "image.gguf");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_IMAGE");
}

// Whichever call fails, what was there stays, and nothing else is.
TEST(Image, AnyCallMayFail) {
  int failures = 0;
  for (int call = 1;; ++call) {
    test::MemoryIo io;
    io.files["in.gguf"] = test::TinyGguf().quantize(DType::q8_0).build();
    io.files["out.gguf"] = "old";
    io.fail_call = call;
    if (make(io, "out.gguf", "Q4_0", true)) break;
    EXPECT_EQ(io.files["out.gguf"], "old") << call;
    EXPECT_EQ(io.files.size(), 2U) << call;
    ++failures;
  }
  EXPECT_GT(failures, 10);
}

TEST(Image, DamageIsSeen) {
  test::MemoryIo io;
  io.files["in.gguf"] = test::TinyGguf().quantize(DType::q8_0).build();
  ASSERT_TRUE(make(io, "image.gguf", "", true));
  const std::string whole = io.files["image.gguf"];
  const auto checkpoint = *storage::Checkpoint::open("image.gguf", io);
  ASSERT_TRUE(verify_image(*checkpoint));
  const auto kind_of = [&](const std::string& bytes, bool verifies = false) -> std::string {
    io.files["image.gguf"] = bytes;
    ModelOptions options;
    const auto model = Model::open("image.gguf", options, io);
    if (!model) return std::string(model.error().kind);
    if (!verifies) return "none";
    const Status status = verify_image((*model)->checkpoint());
    return status ? "none" : std::string(status.error().kind);
  };
  EXPECT_EQ(kind_of(whole), "none");
  for (std::size_t cut = 1; cut < whole.size(); cut += cut < 200 ? 1 : 4099) {
    EXPECT_NE(kind_of(whole.substr(0, whole.size() - cut)), "none") << cut;
  }
  const auto flipped = [&](std::size_t at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    return bytes;
  };
  // A path in the head; each of the numbers behind the last tensor; a weight.
  EXPECT_EQ(kind_of(flipped(whole.find("orrery.image.source_hash") + 40)), "E_IMAGE");
  const std::size_t tail = 8 * (checkpoint->tensors().size() + 3);
  for (std::size_t back = 1; back <= tail; back += 8) {
    EXPECT_EQ(kind_of(flipped(whole.size() - back)), "E_IMAGE") << back;
  }
  for (const storage::TensorInfo& tensor : checkpoint->tensors()) {
    EXPECT_EQ(kind_of(flipped(tensor.offset + tensor.bytes / 2), true), "E_CHECKSUM")
        << tensor.name;
  }
}

TEST(Image, OtherVersionsAndLayoutsAreRefused) {
  test::MemoryIo io;
  io.files["in.gguf"] = test::TinyGguf().quantize(DType::q8_0).build();
  ASSERT_TRUE(make(io, "image.gguf", "", true));
  const std::string whole = io.files["image.gguf"];
  const auto refusal = [&](std::string_view key, std::size_t value_at, char value) {
    std::string bytes = whole;
    bytes[bytes.find(key) + key.size() + value_at] = value;
    io.files["image.gguf"] = bytes;
    const auto model = Model::open("image.gguf", {}, io);
    EXPECT_FALSE(model);
    return model ? std::string() : model.error().message;
  };
  // Behind the key: u32 type, the value (a text with its u64 length).
  EXPECT_NE(refusal("orrery.image.version", 4, 2).find("version 2 and not 1"), std::string::npos);
  EXPECT_NE(refusal("orrery.image.layout", 4 + 8 + 4, '3').find("layout rows36"),
            std::string::npos);
}

// Weights that are packed where nothing can read them so.
TEST(Image, HostilePackedTensorsAreRefused) {
  const auto error_of = [](const std::string& tensor, DType type) {
    test::MemoryIo io;
    std::string bytes = test::TinyGguf().quantize(DType::q8_0).build();
    const std::size_t at = bytes.find(tensor);
    EXPECT_NE(at, std::string::npos);
    std::uint32_t n_dims = 0;
    std::memcpy(&n_dims, bytes.data() + at + tensor.size(), 4);
    const std::uint32_t id = storage::kPackedTypes + static_cast<std::uint32_t>(type);
    std::memcpy(bytes.data() + at + tensor.size() + 4 + 8 * n_dims, &id, 4);
    io.files["m.gguf"] = bytes;
    const auto model = Model::open("m.gguf", {}, io);
    return model ? std::string("none") : std::string(model.error().kind);
  };
  EXPECT_EQ(error_of("blk.0.attn_output.weight", DType::q8_0), "none");
  // Gate and up are multiplied together.
  EXPECT_EQ(error_of("blk.0.ffn_up.weight", DType::q8_0), "E_UNSUPPORTED");
  EXPECT_EQ(error_of("blk.0.attn_norm.weight", DType::f32), "E_TTYPE");
  EXPECT_EQ(error_of("blk.0.ffn_up.weight", DType::q6_k), "E_TTYPE");
  EXPECT_EQ(error_of("blk.0.ffn_up.weight", static_cast<DType>(200)), "E_TTYPE");
  plan::Plan plan;
  plan.weights.push_back({"w", DType::q8_0, 32, 64, 8, Layout::packed});
  plan.steps.resize(1);
  plan.steps[0].op = plan::Op::matmul;
  plan.steps[0].w[0] = 0;
  EXPECT_EQ(check_packed(plan).error().kind, "E_IMAGE");  // begins within a panel
  plan.weights[0].row_begin = 16;
  EXPECT_TRUE(check_packed(plan));
  plan.steps[0].op = plan::Op::mla_values;
  EXPECT_EQ(check_packed(plan).error().kind, "E_IMAGE");
}

TEST(Image, KnowsWhenItsSourceHasChanged) {
  const test::TempDir folder;
  storage::Io& io = storage::system_io();
  const std::string model = test::TinyGguf().quantize(DType::q8_0).build();
  const std::string in = folder.write("in.gguf", model), out = folder.file("image.gguf");
  ASSERT_TRUE(make(io, out, "", true, in));
  const auto image = open(io, out);
  ASSERT_TRUE(image && image->info().image);
  const ImageInfo info = *image->info().image;
  EXPECT_EQ(info.source.path, std::filesystem::canonical(in).string());
  EXPECT_TRUE(*is_current(info, in, io));
  // Fetched again: another time, the same bytes.
  std::filesystem::last_write_time(
      in, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(*is_current(info, in, io));
  std::string other = model;
  other[other.size() - 20] = static_cast<char>(other[other.size() - 20] ^ 1);
  folder.write("in.gguf", other);
  EXPECT_FALSE(*is_current(info, in, io));
  folder.write("in.gguf", model + std::string(32, '\0'));
  EXPECT_FALSE(*is_current(info, in, io));
  std::filesystem::remove(in);
  EXPECT_EQ(is_current(info, in, io).error().kind, "E_NOTFOUND");
  // Whoever has the image open keeps it while another takes its name.
  folder.write("in.gguf", model);
  const std::vector<float> before = logits(image);
  ASSERT_TRUE(make(io, out, "Q4_0", true, in));
  EXPECT_EQ(logits(image), before);
  EXPECT_TRUE(image->checkpoint().check_files(true));
}

// Every kind of model: packed weights give the bits of those in file layout.
class ImageOfFamily : public testing::TestWithParam<const char*> {};

TEST_P(ImageOfFamily, PacksWhatProductsAloneRead) {
  const std::string name = GetParam();
  const std::string in = test::shared_dir() + "/data/golden/" + name + "/" + name + "-f16.gguf";
  if (!std::filesystem::exists(in)) GTEST_SKIP() << "needs ../shared/data/golden";
  const test::TempDir folder;
  storage::Io& io = storage::system_io();
  const std::string packed = folder.file("packed.gguf"), file = folder.file("file.gguf");
  ASSERT_TRUE(make(io, packed, "Q8_0", true, in));
  ASSERT_TRUE(make(io, file, "Q8_0", false, in));
  const auto image = open(io, packed);
  ASSERT_TRUE(image && image->info().image);
  EXPECT_TRUE(image->info().image->packed);
  EXPECT_EQ(logits(image), logits(open(io, file)));
}

INSTANTIATE_TEST_SUITE_P(Golden, ImageOfFamily,
                         testing::Values("llama", "phi3", "gemma3", "deepseek-v2", "deepseek-v3",
                                         "mixtral", "qwen2-moe", "gpt2", "mamba2", "qwen3-next",
                                         "lfm2", "gpt-oss"),
                         [](const auto& of) {
                           std::string name = of.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace orrery::engine
