// Adapter files: both forms, and every way in which one does not fit.
#include "model/adapter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "support/memory_io.hpp"
#include "support/paths.hpp"
#include "support/tiny_adapter.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::model {
namespace {

using test::TinyAdapter;

// For the one-layer llama of TinyGguf: 4 heads of 16, 2 of keys.
TinyAdapter good() {
  TinyAdapter adapter;
  adapter.add({"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj", 64, 64, 4});
  adapter.matrices[0].paired_heads = 4;
  adapter.add({"blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj", 64, 96, 4});
  return adapter;
}

class AdapterTest : public testing::Test {
 protected:
  AdapterTest() {
    io_.files["m.gguf"] = test::TinyGguf().build();
    auto model = load_model(*storage::Checkpoint::open("m.gguf", io_));
    model_.emplace(std::move(*model));
    RecordOptions options;
    options.capacity = {1, 1, 1};
    options.context_length = 128;
    plan_ = *model_->record(options);
  }

  Result<Adapter> fit(const std::string& path) {
    ORRERY_TRY(const AdapterFile file, open_adapter_file(path, io_));
    return fit_adapter(file, *model_, plan_);
  }
  Result<Adapter> fit_gguf(const TinyAdapter& adapter) {
    io_.files["a.gguf"] = adapter.gguf();
    return fit("a.gguf");
  }
  Result<Adapter> fit_peft(const TinyAdapter& adapter) {
    io_.files["a/adapter_model.safetensors"] = adapter.tensors();
    io_.files["a/adapter_config.json"] = adapter.config();
    return fit("a");
  }
  static std::string message(const Result<Adapter>& result) {
    EXPECT_FALSE(result);
    if (result) return "";
    EXPECT_EQ(result.error().kind, "E_ADAPTER") << result.error().message;
    return result.error().message;
  }
  static bool has(const std::string& text, std::string_view part) {
    return text.find(part) != text.npos;
  }

  test::MemoryIo io_;
  std::optional<LoadedModel> model_;
  plan::Plan plan_;
};

TEST_F(AdapterTest, BothFormsGiveTheSameNumbers) {
  const TinyAdapter adapter = good();
  const auto gguf = fit_gguf(adapter), peft = fit_peft(adapter);
  ASSERT_TRUE(gguf) << gguf.error().message;
  ASSERT_TRUE(peft) << peft.error().message;
  ASSERT_EQ(gguf->pairs.size(), 2U);
  ASSERT_EQ(peft->pairs.size(), 2U);
  for (const AdapterPair& pair : gguf->pairs) {
    const auto other = std::ranges::find(peft->pairs, pair.tensor, &AdapterPair::tensor);
    ASSERT_NE(other, peft->pairs.end()) << pair.tensor;
    EXPECT_EQ(other->a, pair.a) << pair.tensor;
    EXPECT_EQ(other->b, pair.b) << pair.tensor;
  }
  const AdapterPair& down = gguf->pairs[1];
  EXPECT_EQ(down.tensor, "blk.0.ffn_down.weight");
  EXPECT_EQ(down.rank, 4U);
  EXPECT_EQ(down.rows, 64U);
  EXPECT_EQ(down.cols, 96U);
  // alpha / rank is in B, whose columns lie one after the other.
  EXPECT_EQ(down.b[64 + 5], 1.5F * adapter.matrices[1].b[5 * 4 + 1]);
  EXPECT_EQ(down.a, adapter.matrices[1].a);
}

TEST_F(AdapterTest, ScalesFollowTheFile) {
  TinyAdapter adapter = good();
  const auto scale_of = [&](const Result<Adapter>& fitted, std::size_t pair) {
    EXPECT_TRUE(fitted) << fitted.error().message;
    return fitted ? fitted->pairs[pair].b[5] / adapter.matrices[1 - pair].b[5 * 4] : 0.0F;
  };
  adapter.extra_config = R"("use_rslora": true,)";
  EXPECT_FLOAT_EQ(scale_of(fit_peft(adapter), 0), 3.0F);  // 6 / sqrt(4)
  adapter.extra_config = R"("alpha_pattern": {"down_proj": 2, "layers.1.mlp.down_proj": 9},)";
  EXPECT_FLOAT_EQ(scale_of(fit_peft(adapter), 0), 0.5F);
  adapter.extra_config = R"("rank_pattern": {"q_proj": 4},)";
  EXPECT_FLOAT_EQ(scale_of(fit_peft(adapter), 0), 1.5F);
  adapter.alpha = 0.0F;  // llama.cpp's: a file without alpha is used as it is
  EXPECT_FLOAT_EQ(fit_gguf(adapter)->pairs[1].b[5], adapter.matrices[1].b[5 * 4]);
}

TEST_F(AdapterTest, TheFileOfAFolderIsTheSame) {
  const TinyAdapter adapter = good();
  const auto folder = fit_peft(adapter);
  const auto file = fit("a/adapter_model.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->pairs[0].b, folder->pairs[0].b);
  EXPECT_TRUE(is_adapter("a", io_));
  EXPECT_TRUE(is_adapter("a/adapter_model.safetensors", io_));
  fit_gguf(adapter);
  EXPECT_TRUE(is_adapter("a.gguf", io_));
  EXPECT_FALSE(is_adapter("m.gguf", io_));
  EXPECT_FALSE(is_adapter("nothing.gguf", io_));
}

TEST_F(AdapterTest, RefusesAnotherModel) {
  TinyAdapter adapter = good();
  adapter.architecture = "qwen2";
  EXPECT_TRUE(has(message(fit_gguf(adapter)), "architecture \"qwen2\", the model is llama"));
  adapter =
      TinyAdapter().add({"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj", 64, 32, 4});
  for (const auto& fitted : {fit_gguf(adapter), fit_peft(adapter)}) {
    EXPECT_TRUE(has(message(fitted), "(64, 32), the model's blk.0.attn_q.weight has (64, 64)"));
  }
  adapter =
      TinyAdapter().add({"blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj", 64, 64, 4});
  EXPECT_TRUE(has(message(fit_gguf(adapter)), "\"blk.1.attn_q.weight\", which this llama model"));
  EXPECT_TRUE(has(message(fit_peft(adapter)), "\"model.layers.1.self_attn.q_proj\", which this"));
}

// Files of most families store some numbers in another way, or several matrices as one.
TEST_F(AdapterTest, RefusesTheOtherFormatForMostFamilies) {
  const std::string path = test::source_dir() + "/tests/golden/cohere/cohere-f16.gguf";
  const auto cohere = load_model(*storage::Checkpoint::open(path, storage::system_io()));
  ASSERT_TRUE(cohere) << cohere.error().message;
  const TinyAdapter adapter = good();
  io_.files["a/adapter_model.safetensors"] = adapter.tensors();
  io_.files["a/adapter_config.json"] = adapter.config();
  const auto file = open_adapter_file("a", io_);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(has(message(fit_adapter(*file, *cohere, plan_)), "convert the adapter to GGUF"));
}

TEST_F(AdapterTest, RefusesRanksThatCannotBe) {
  const auto of_rank = [](std::uint64_t rank) {
    return TinyAdapter().add(
        {"blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj", 32, 64, rank});
  };
  EXPECT_TRUE(has(message(fit_peft(of_rank(0))), "rank 0, expected 1 to 32"));
  EXPECT_TRUE(has(message(fit_peft(of_rank(33))), "rank 33, expected 1 to 32"));
  EXPECT_TRUE(has(message(fit_gguf(of_rank(33))), "rank 33, expected 1 to 32"));
  EXPECT_TRUE(fit_gguf(of_rank(32)));
  EXPECT_TRUE(fit_gguf(of_rank(1)));
  TinyAdapter torn = of_rank(4);
  io_.files["a/adapter_model.safetensors"] = torn.tensors();
  torn.matrices[0].rank = 5;
  io_.files["a/adapter_config.json"] = torn.config();
  EXPECT_TRUE(has(message(fit("a")), "has rank 4, adapter_config.json says 5"));
}

TEST_F(AdapterTest, RefusesHalfAPairAndWhatIsNone) {
  TinyAdapter adapter = good();
  const auto renamed = [&](std::string text, const std::string& from, const std::string& to) {
    EXPECT_EQ(from.size(), to.size());
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos);
    return text.replace(at, from.size(), to);
  };
  fit_peft(adapter);
  const std::string tensors = io_.files["a/adapter_model.safetensors"];
  const auto with = [&](const std::string& from, const std::string& to) {
    io_.files["a/adapter_model.safetensors"] = renamed(tensors, from, to);
    return message(fit("a"));
  };
  EXPECT_TRUE(has(with("q_proj.lora_B", "x_proj.lora_B"), "there is no lora_B"));
  EXPECT_TRUE(has(with("q_proj.lora_A", "x_proj.lora_A"), "there is no lora_A"));
  EXPECT_TRUE(has(with("lora_A.weight", "lora_C.weight"), "no half of a LoRA pair"));
  EXPECT_TRUE(has(
      with("layers.0.self_attn.q_proj.lora_A.weight", "embed_tokens.lora_embedding_A.something"),
      "adapts an embedding"));
  EXPECT_TRUE(has(with("self_attn.q_proj.lora_A.weight", "mlp.lora_magnitude_vector.abcd"),
                  "belongs to DoRA"));
  EXPECT_TRUE(has(message(fit_peft(TinyAdapter())), "no tensors"));
}

TEST_F(AdapterTest, RefusesWhatIsNoPlainProduct) {
  const auto of = [](const char* gguf, const char* module, std::uint64_t rows, std::uint64_t cols) {
    return TinyAdapter().add({gguf, module, rows, cols, 1});
  };
  const auto embedding = of("token_embd.weight", "model.embed_tokens", 262, 64);
  EXPECT_TRUE(has(message(fit_gguf(embedding)), "token_embd.weight, which is used by embed"));
  EXPECT_TRUE(has(message(fit_peft(embedding)), "token_embd.weight, which is used by embed"));
  EXPECT_TRUE(has(message(fit_gguf(of("blk.0.attn_norm.weight", "", 1, 64))), "used by norm"));
  EXPECT_TRUE(has(message(fit_peft(of("", "model.layers.0.mlp.experts.3.up_proj", 96, 64))),
                  "experts are not supported"));
}

TEST_F(AdapterTest, RefusesKindsThatItWouldComputeWrongly) {
  const auto with = [&](const char* extra) {
    TinyAdapter adapter = good();
    adapter.extra_config = extra;
    return message(fit_peft(adapter));
  };
  EXPECT_TRUE(has(with(R"("use_dora": true,)"), "use_dora is true"));
  EXPECT_TRUE(has(with(R"("lora_bias": true,)"), "lora_bias is true"));
  EXPECT_TRUE(has(with(R"("target_parameters": ["experts"],)"), "target_parameters is set"));
  EXPECT_TRUE(has(with(R"("alpha_pattern": {"q.*": 4},)"), "has the entry \"q.*\""));
  TinyAdapter adapter = good();
  adapter.type = "model";
  EXPECT_TRUE(has(message(fit_gguf(adapter)), "general.type is \"model\""));
  adapter.type = "adapter";
  adapter.kind = "control_vector";
  EXPECT_TRUE(has(message(fit_gguf(adapter)), "adapter.type is \"control_vector\""));
}

TEST_F(AdapterTest, RefusesBrokenConfigurations) {
  fit_peft(good());
  const auto with = [&](const std::string& config) {
    io_.files["a/adapter_config.json"] = config;
    return message(fit("a"));
  };
  EXPECT_TRUE(has(with("[]"), "is no JSON object"));
  EXPECT_TRUE(has(with("{"), "is no JSON object"));
  EXPECT_TRUE(has(with("{}"), "peft_type is \"\""));
  EXPECT_TRUE(has(with(R"({"peft_type": "IA3"})"), "peft_type is \"IA3\""));
  EXPECT_TRUE(has(with(R"({"peft_type": "LORA", "lora_alpha": 1})"), "r is missing or no number"));
  EXPECT_TRUE(has(with(R"({"peft_type": "LORA", "r": 4, "lora_alpha": "x"})"), "lora_alpha is"));
  EXPECT_TRUE(has(with(R"({"peft_type": "LORA", "bias": "all"})"), "change biases"));
  EXPECT_TRUE(has(with(R"({"peft_type": "LORA", "modules_to_save": ["lm_head"]})"),
                  "modules_to_save is set"));
  io_.files.erase("a/adapter_config.json");
  EXPECT_TRUE(has(message(fit("a/adapter_model.safetensors")), "adapter_config.json is missing"));
}

TEST_F(AdapterTest, RefusesNumbersThatAreNotFinite) {
  TinyAdapter adapter = good();
  adapter.matrices[1].b[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(has(message(fit_gguf(adapter)), "number that is not finite"));
  adapter = good();
  adapter.alpha = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(has(message(fit_gguf(adapter)), "scale of the pair"));
}

}  // namespace
}  // namespace orrery::model
