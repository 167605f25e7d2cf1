// Sound GGUF containers that hold no sound model, through the program (G71 to G99).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "cli/refusal.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::cli {
namespace {

using test::run_program;
using test::TinyGguf;

struct Row {
  const char* name;
  const char* kind;  // "" when the model runs
  const char* says;
  std::function<void(TinyGguf&)> change;
  bool text = false;  // the vocabulary is at fault: `inspect tokens` refuses it too
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

// A row that gives one key another value.
template <class T>
Row key(const char* name, const char* key, T value, const char* says,
        const char* kind = "E_HPARAM") {
  return {name, kind, says, [=](TinyGguf& model) { model.set(key, value); }};
}

// The same for the vocabulary.
template <class T>
Row word(const char* name, const std::string& key, T value, const char* says,
         const char* kind = "E_TOKENIZER") {
  return {name, kind, says, [=](TinyGguf& m) { m.set("tokenizer.ggml." + key, value); }, true};
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
const char* const kHeads = "llama.attention.head_count";
const char* const kKvHeads = "llama.attention.head_count_kv";
const char* const kEps = "llama.attention.layer_norm_rms_epsilon";

std::vector<std::string> texts_with(std::size_t at, std::string text) {
  std::vector<std::string> texts = TinyGguf::texts();
  texts[at] = std::move(text);
  return texts;
}
template <class T>
std::vector<T> with(std::vector<T> list, std::size_t at, T value) {
  list[at] = value;
  return list;
}
template <class T>
std::vector<T> longer(std::vector<T> list) {
  list.push_back(list.back());
  return list;
}

void use_merges(TinyGguf& model, std::vector<std::string> merges) {
  model.set("tokenizer.ggml.model", "gpt2");
  model.set("tokenizer.ggml.pre", "gpt-2");
  model.set("tokenizer.ggml.merges", std::move(merges));
}

// A vocabulary of the largest size.
TinyGguf largest() {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  TinyGguf model;
  model.set("tokenizer.ggml.tokens", std::vector<std::string>(kMost, "some text"));
  model.set("tokenizer.ggml.token_type", std::vector<std::int32_t>(kMost, 1));
  model.set("tokenizer.ggml.scores", std::vector<float>(kMost, 0.0F));
  return model;
}

const Row kParameters[] = {
    {"Sound", "", "", [](TinyGguf&) {}},
    {"G71missing", "E_ARCH", "general.architecture is missing",
     [](TinyGguf& m) { m.drop("general.architecture"); }},
    key("G71array", "general.architecture", std::vector<std::uint32_t>{1}, "no string", "E_ARCH"),
    key("G71unknown", "general.architecture", "rwkv",
        "\"rwkv\" is not supported, these are: ", "E_ARCH"),
    key("G71long", "general.architecture", std::string(1U << 20, 'a'), "is not supported",
        "E_ARCH"),
    key("PoolingKind", "llama.pooling_type", 9U, "an integer from 0 to 4"),
    key("CausalNumber", "llama.attention.causal", 1U, "expected true or false"),
    key("G72zero", "llama.block_count", 0U, "an integer from 1 to 1024"),
    key("G72large", "llama.block_count", 0x80000000U, "an integer from 1 to 1024"),
    key("G72negative", "llama.block_count", -1, "is -1, expected an integer"),
    key("G72float", "llama.block_count", 32.0F, "the float 32"),
    key("G72string", "llama.block_count", "32", "the string \"32\""),
    key("G72longString", "llama.block_count", std::string(1U << 20, '3'), "the string \"333"),
    key("G73zero", kHeads, 0U, "head_count is 0"),
    key("G73kvZero", kKvHeads, 0U, "head_count_kv is 0"),
    key("G73kvMore", kKvHeads, 8U, "head_count_kv is 8"),
    key("G73kvOdd", kKvHeads, 3U, "no divisor of the 4 heads"),
    key("G74zero", "llama.embedding_length", 0U, "embedding_length is 0"),
    key("G74odd", "llama.embedding_length", 66U, "66, which 4 heads do not divide"),
    key("G74large", "llama.embedding_length", 1U << 31, "embedding_length is 2147483648"),
    key("G75shorter", kKvHeads, std::vector<std::uint32_t>{}, "a list of 0 items"),
    key("G75longer", kKvHeads, std::vector<std::uint32_t>{2, 2}, "a list of 2 items"),
    {"G75huge", "E_HPARAM", "a list of 4194304 items",
     [](TinyGguf& m) { m.set(kKvHeads, std::vector<std::uint32_t>(4U << 20, 2)); }},
    key("G76zero", "llama.rope.freq_base", 0.0F, "rope.freq_base is the float 0"),
    key("G76negative", "llama.rope.freq_base", -1.0F, "rope.freq_base is the float -1"),
    key("G76nan", "llama.rope.freq_base", kNan, "rope.freq_base is the float nan"),
    key("G76infinite", "llama.rope.freq_base", kInfinity, "rope.freq_base is the float inf"),
    key("G76odd", "llama.rope.dimension_count", 3U,
        "3 elements of a head rotate, expected an even number"),
    key("G76large", "llama.rope.dimension_count", 18U, "rope.dimension_count"),
    {"G76factor", "E_HPARAM", "llama.rope.scaling.factor",
     [](TinyGguf& m) {
       m.set("llama.rope.scaling.type", "linear").set("llama.rope.scaling.factor", 0.0F);
     }},
    key("G77zero", kEps, 0.0F, "a number above 0"),
    key("G77negative", kEps, -1e-5F, "a number above 0"),
    key("G77nan", kEps, kNan, "the float nan"),
    key("G77large", kEps, 1e30F, "up to 1"),
    key("G78", "llama.expert_count", 1U << 31, "expected an integer from 0 to 4096"),
    {"G78used", "E_HPARAM", "expert_used_count is 9, the model has 8 experts",
     [](TinyGguf& m) { m.set("llama.expert_count", 8U).set("llama.expert_used_count", 9U); }},
    {"G78tensors", "E_TENSOR", "tensor blk.0.ffn_gate_exps.weight is missing",
     [](TinyGguf& m) { m.set("llama.expert_count", 8U).set("llama.expert_used_count", 2U); }},
    key("G79", "llama.context_length", 0xFFFFFFFFU, "", ""),
    key("G79zero", "llama.context_length", 0U, "context_length is 0"),
    {"G80", "E_TENSOR", "tensor blk.0.attn_q.weight is missing",
     [](TinyGguf& m) { m.remove("blk.0.attn_q.weight"); }},
    {"G81transposed", "E_SHAPE", "has shape (96, 64), the parameters ask for (64, 96)",
     [](TinyGguf& m) { m.tensor("blk.0.ffn_down.weight", DType::f32, {64, 96}); }},
    {"G81offByOne", "E_SHAPE", "has shape (33, 64), the parameters ask for (32, 64)",
     [](TinyGguf& m) { m.tensor("blk.0.attn_k.weight", DType::f32, {64, 33}); }},
    {"G82integers", "E_TENSOR", "has type I32, supported weights are F32, F16",
     [](TinyGguf& m) { m.tensor("blk.0.attn_k.weight", DType::i32, {64, 32}); }},
    {"G82norm", "E_TENSOR", "has type F16, norms and biases are expected in F32",
     [](TinyGguf& m) { m.tensor("output_norm.weight", DType::f16, {64}); }},
    {"UnknownTensor", "E_TENSOR", "blk.0.odd.weight is not part of a llama model",
     [](TinyGguf& m) { m.tensor("blk.0.odd.weight", DType::f32, {64}); }},
    {"G85fewer", "E_HPARAM", "262 tokens, the embedding 200 rows",
     [](TinyGguf& m) { m.tensor("token_embd.weight", DType::f32, {64, 200}); }},
    {"G85more", "", "", [](TinyGguf& m) { m.tensor("token_embd.weight", DType::f32, {64, 300}); }},
    {"G95nan", "E_NAN", "262 of the model's 262 logits",
     [](TinyGguf& m) { m.fill("output_norm.weight", kNan); }},
    {"G95infinite", "E_NAN", "logits are no numbers",
     [](TinyGguf& m) { m.fill("token_embd.weight", kInfinity); }},
    {"G96zero", "", "", [](TinyGguf& m) { m.fill("token_embd.weight", 0.0F); }},
    {"G98count", "E_SPLIT", "split.count is 65535",
     [](TinyGguf& m) { m.set("split.count", std::uint16_t{65'535}); }},
    {"G98name", "E_SPLIT", "its name must end in -00001-of-00002.gguf",
     [](TinyGguf& m) { m.set("split.count", std::uint16_t{2}); }},
};

const Row kWords[] = {
    {"G83absent", "E_META", "tokenizer.ggml.tokens",
     [](TinyGguf& m) { m.drop("tokenizer.ggml.tokens"); }, true},
    {"G83noModel", "E_META", "tokenizer.ggml.model",
     [](TinyGguf& m) { m.drop("tokenizer.ggml.model"); }, true},
    word("G83numbers", "tokens", std::vector<std::int32_t>(262), "an array of strings", "E_META"),
    word("G83empty", "tokens", std::vector<std::string>{}, "0 tokens"),
    word("G83one", "tokens", std::vector<std::string>{"a"}, "1 tokens"),
    word("G84types", "token_type", longer(TinyGguf::types()), "token_type has 263 entries"),
    word("G84scores", "scores", longer(TinyGguf::scores()), "scores has 263 entries"),
    word("G84typeOfNone", "token_type", with(TinyGguf::types(), 9, 7), "type 7"),
    word("G86", "tokens", texts_with(4, "a"), "", ""),
    word("G87long", "tokens", texts_with(4, std::string(1U << 20, 'x')), "token 4 has 1048576"),
    word("G87odd", "tokens", texts_with(4, std::string("\0\xFF", 2)), "", ""),
    word("G87empty", "tokens", texts_with(4, ""), "", ""),
    word("G88sign", "tokens", texts_with(10, "<0x-1>"), "token 10 is marked as a byte"),
    word("G88letters", "tokens", texts_with(10, "<0xZZ>"), "token 10 is marked as a byte"),
    word("G88short", "tokens", texts_with(10, "<0x1>"), "token 10 is marked as a byte"),
    word("G88long", "tokens", texts_with(10, "<0x100>"), "token 10 is marked as a byte"),
    word("G88missing", "token_type", with(TinyGguf::types(), 261, 1), "255 byte tokens"),
    {"G89noSpace", "E_TOKENIZER", "merge 1", [](TinyGguf& m) { use_merges(m, {"a b", "ab"}); },
     true},
    {"G89none", "E_TOKENIZER", "tokenizer.ggml.merges", [](TinyGguf& m) { use_merges(m, {}); },
     true},
    {"G90", "", "", [](TinyGguf& m) { use_merges(m, {"a b", "ab a", "b ab", "ab ab"}); }, true},
    word("G91nan", "scores", with(TinyGguf::scores(), 4, kNan), "score of token 4"),
    word("G91infinite", "scores", with(TinyGguf::scores(), 4, -kInfinity), "score of token 4"),
    word("G92negative", "bos_token_id", -1, "bos_token_id", "E_META"),
    word("G92end", "eos_token_id", 262U, "eos_token_id is 262"),
    word("G92large", "unknown_token_id", ~0U, "unknown_token_id is 4294967295"),
    word("G92string", "padding_token_id", "5", "padding_token_id", "E_META"),
    {"G93", "", "", [](TinyGguf& m) { m.drop("tokenizer.ggml.eos_token_id"); }, true},
    {"G94unknown", "E_PRETOKENIZER", "\"no-such\"",
     [](TinyGguf& m) {
       use_merges(m, {"a b"});
       m.set("tokenizer.ggml.pre", "no-such");
     },
     true},
    {"G94long", "E_PRETOKENIZER", "\"pppp",
     [](TinyGguf& m) {
       use_merges(m, {"a b"});
       m.set("tokenizer.ggml.pre", std::string(10'240, 'p'));
     },
     true},
    {"Charsmap", "E_TOKENIZER", "8388608 bytes",
     [](TinyGguf& m) {
       m.set("tokenizer.ggml.precompiled_charsmap", std::vector<std::uint8_t>(8U << 20));
     },
     true},
};

std::string name_of(const testing::TestParamInfo<Row>& row) {
  return row.param.name;
}

class HostileModel : public testing::TestWithParam<Row> {};

TEST_P(HostileModel, IsHandled) {
  bare_memory();
  const Row& row = GetParam();
  const test::TempDir folder;
  TinyGguf model;
  row.change(model);
  const std::string path = folder.write("m.gguf", model.build());
  const std::vector<std::string> run = {"run", path, "--raw", "--quiet", "-p",     "ab",
                                        "-n",  "3",  "-t",    "1",       "--temp", "0"};
  const std::vector<std::string> tokens = {"inspect", "tokens", path, "-p", "ab"};
  if (*row.kind != '\0') {
    expect_refused(run, path, {row.kind, row.says});
    if (row.text) expect_refused(tokens, path, {row.kind, row.says});
    return;
  }
  const test::Outcome answered = run_program(run);
  EXPECT_EQ(answered.exit_code, 0) << answered.err;
  EXPECT_EQ(run_program(tokens).exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Parameters, HostileModel, testing::ValuesIn(kParameters), name_of);
INSTANTIATE_TEST_SUITE_P(Words, HostileModel, testing::ValuesIn(kWords), name_of);

TEST(HostileVocabulary, OfTheLargestSizeIsRefusedInTime) {
  bare_memory();
  constexpr std::size_t kMost = std::size_t{1} << 20;
  const test::TempDir folder;
  const std::string path = folder.file("m.gguf");
  const std::vector<std::string> tokens = {"inspect", "tokens", path, "-p", "ab"};
  folder.write("m.gguf", largest()
                             .set("tokenizer.ggml.scores",
                                  with(std::vector<float>(kMost, 0.0F), kMost - 1, kNan))
                             .build());
  expect_refused(tokens, path, {"E_TOKENIZER", "score of token 1048575"});
  folder.write("m.gguf", largest()
                             .set("tokenizer.ggml.token_type",
                                  with(std::vector<std::int32_t>(kMost, 1), kMost - 1, 6))
                             .build());
  // Its tables stand before its texts are looked at: 21 bytes a token and the texts.
  Refusal refusal{"E_TOKENIZER", "token 1048575 is marked as a byte"};
  refusal.memory = 40U << 20;
  expect_refused(tokens, path, refusal);
  // A model that is refused for its parameters does not come to them.
  folder.write("m.gguf", largest().set("llama.block_count", 0U).build());
  expect_refused({"run", path, "-p", "ab"}, path, {"E_HPARAM", "block_count is 0"});
}

}  // namespace
}  // namespace orrery::cli
