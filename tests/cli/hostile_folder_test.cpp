// Bad folders of safetensors, chat templates and paths, through the program.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>

#include "cli/refusal.hpp"
#include "support/gguf_builder.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::cli {
namespace {

using test::run_program;

using Files = std::map<std::string, std::string>;

struct Row {
  const char* name;
  const char* kind;
  const char* says;
  std::function<void(Files&)> change;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

std::string name_of(const testing::TestParamInfo<Row>& row) {
  return row.param.name;
}

std::string safetensors(const std::string& json, std::size_t bytes) {
  return test::ByteWriter()
      .number(static_cast<std::uint64_t>(json.size()))
      .raw(json)
      .raw(std::string(bytes, '\0'))
      .bytes();
}

// One tensor of eight bytes.
std::string shard(const std::string& tensor) {
  return safetensors(
      fmt::format(R"({{"{}":{{"dtype":"I8","shape":[8],"data_offsets":[0,8]}}}})", tensor), 8);
}

std::string two_tensors(const std::string& first, const std::string& second) {
  return safetensors(fmt::format(R"({{"{}":{{"dtype":"I8","shape":[8],"data_offsets":[0,8]}},)"
                                 R"("{}":{{"dtype":"I8","shape":[8],"data_offsets":[8,16]}}}})",
                                 first, second),
                     16);
}

std::string config(const std::string& more) {
  return R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1,
             "num_attention_heads": 4, "intermediate_size": 96, "rms_norm_eps": 1e-5,
             "max_position_embeddings": 128)" +
         more + "}";
}

// A folder of two shards; the index and config.json can be read, tensors for a model are missing.
Files two_shards() {
  return {{"model.safetensors.index.json",
           R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})"},
          {"one.safetensors", shard("a")},
          {"two.safetensors", shard("b")},
          {"config.json", config("")}};
}

std::string repeat(std::string_view unit, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += unit;
  return text;
}

void set_config(Files& files, const std::string& more) {
  files["config.json"] = config(more);
}

const Row kFolders[] = {
    {"NoTensorOfAModel", "E_TENSOR", "model.embed_tokens.weight is missing", [](Files&) {}},
    {"Empty", "E_NOMODEL", "holds no model", [](Files& f) { f.clear(); }},
    {"IndexNoJson", "E_JSON", "model.safetensors.index.json",
     [](Files& f) { f["model.safetensors.index.json"] = "{"; }},
    {"IndexPath", "E_INDEX", "model.safetensors.index.json",
     [](Files& f) {
       f["model.safetensors.index.json"] = R"({"weight_map": {"a": "../one.safetensors"}})";
     }},
    {"IndexFolder", "E_INDEX", "model.safetensors.index.json",
     [](Files& f) {
       f["model.safetensors.index.json"] = R"({"weight_map": {"a": "x/one.safetensors"}})";
     }},
    {"IndexDeep", "E_JSON", "model.safetensors.index.json",
     [](Files& f) { f["model.safetensors.index.json"] = repeat(R"({"a":)", 100'000); }},
    {"ShardMissing", "E_SHARD", "two.safetensors", [](Files& f) { f.erase("two.safetensors"); }},
    {"ShardsShare", "E_DUPTENSOR", "\"c\" is already in one.safetensors",
     [](Files& f) {
       f["one.safetensors"] = two_tensors("a", "c");
       f["two.safetensors"] = two_tensors("b", "c");
     }},
    {"ShardLacks", "E_INDEX", "tensor \"b\" is in \"two.safetensors\"",
     [](Files& f) { f["two.safetensors"] = shard("c"); }},
    {"ShardCut", "E_TRUNC", "two.safetensors: at byte",
     [](Files& f) { f["two.safetensors"].resize(7); }},
    {"ConfigMissing", "E_ARCH", "config.json is missing", [](Files& f) { f.erase("config.json"); }},
    {"ConfigNoJson", "E_HPARAM", "config.json is no JSON object",
     [](Files& f) { f["config.json"] = "{"; }},
    {"ConfigNan", "E_HPARAM", "config.json is no JSON object",
     [](Files& f) { set_config(f, R"(, "rope_theta": NaN)"); }},
    {"ConfigLarge", "E_TOOBIG", "config.json",
     [](Files& f) { f["config.json"] = std::string(100U << 20, ' '); }},
    {"ConfigDeep", "E_HPARAM", "config.json",
     [](Files& f) { set_config(f, R"(, "text_config": {"x": )" + repeat("[", 200'000)); }},
    {"ConfigDeepAndWhole", "E_HPARAM", "config.json",
     [](Files& f) {
       set_config(f,
                  R"(, "text_config": {"x": )" + repeat("[", 200'000) + repeat("]", 200'000) + "}");
     }},
    {"ConfigOfNumbers", "E_HPARAM", "config.json",
     [](Files& f) { set_config(f, R"(, "x": [)" + repeat("0,", 500'000) + "0]"); }},
    {"ConfigOfTexts", "E_HPARAM", "config.json",
     [](Files& f) { set_config(f, R"(, "x": [)" + repeat("\"\",", 300'000) + "0]"); }},
    {"ConfigText", "E_HPARAM", "config.json: num_attention_heads is the string \"32\"",
     [](Files& f) { set_config(f, R"(, "num_attention_heads": "32")"); }},
    {"ConfigActivation", "E_HPARAM", "config.json: hidden_act is \"odd\", supported are silu",
     [](Files& f) { set_config(f, R"(, "hidden_act": "odd")"); }},
    {"ConfigCode", "E_TENSOR", "model.embed_tokens.weight is missing",
     [](Files& f) {
       set_config(f, R"(, "auto_map": {"AutoModel": "x.Y"}, "torch_dtype": "float3")");
     }},
    {"ConfigUnknown", "E_ARCH", "\"rwkv\" is not supported, these are: ",
     [](Files& f) { f["config.json"] = R"({"model_type": "rwkv"})"; }},
};

class HostileFolder : public testing::TestWithParam<Row> {};

TEST_P(HostileFolder, IsRefused) {
  bare_memory();
  const test::TempDir folder;
  Files files = two_shards();
  GetParam().change(files);
  for (const auto& [name, bytes] : files) folder.write(name, bytes);
  expect_refused({"run", folder.path(), "-p", "x", "-n", "1"}, folder.path(),
                 {GetParam().kind, GetParam().says});
}

INSTANTIATE_TEST_SUITE_P(Rows, HostileFolder, testing::ValuesIn(kFolders), name_of);

// tokenizer.json is read without a look at the model.
const Row kTokenizers[] = {
    {"Missing", "E_TOKENIZER", "tokenizer", [](Files& f) { f.erase("tokenizer.json"); }},
    {"Empty", "E_TOKENIZER", "byte", [](Files& f) { f["tokenizer.json"] = " "; }},
    {"Deep", "E_TOKENIZER", "64 levels",
     [](Files& f) { f["tokenizer.json"] = repeat("[", 100'000); }},
    {"IdNegative", "E_TOKENIZER", "id",
     [](Files& f) {
       f["tokenizer.json"] = R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}})";
     }},
    {"IdLarge", "E_TOKENIZER", "id",
     [](Files& f) {
       f["tokenizer.json"] = R"({"model": {"type": "BPE", "vocab": {"a": 4294967295}}})";
     }},
    {"Kind", "E_TOKENIZER", "WordLevel",
     [](Files& f) { f["tokenizer.json"] = R"({"model": {"type": "WordLevel", "vocab": {}}})"; }},
    {"Numbers", "E_TOKENIZER", "",
     [](Files& f) {
       f["tokenizer.json"] =
           R"({"x": [)" + repeat("0,", 4'000'000) + R"(0], "model": {"type": "Odd", "vocab": {}}})";
     }},
    {"Texts", "E_TOKENIZER", "",
     [](Files& f) {
       f["tokenizer.json"] = R"({"x": [)" + repeat("\"\",", 2'000'000) +
                             R"(0], "model": {"type": "Odd", "vocab": {}}})";
     }},
    {"ManyMerges", "E_TOKENIZER", "1048576",
     [](Files& f) {
       f["tokenizer.json"] = R"({"model": {"type": "BPE", "merges": [)" +
                             repeat("\"a b\",", 2'000'000) + R"("a b"], "vocab": {"a": 0}}})";
     }},
    {"ConfigNumbers", "E_TOKENIZER", "",
     [](Files& f) {
       f["tokenizer_config.json"] = R"({"x": [)" + repeat("0,", 4'000'000) + "0]}";
       f["tokenizer.json"] = R"({"model": {"type": "Odd", "vocab": {}}})";
     }},
};

class HostileTokenizer : public testing::TestWithParam<Row> {};

TEST_P(HostileTokenizer, IsRefused) {
  bare_memory();
  const test::TempDir folder;
  Files files = two_shards();
  files["tokenizer.json"] = "{}";
  GetParam().change(files);
  for (const auto& [name, bytes] : files) folder.write(name, bytes);
  Refusal refusal{GetParam().kind, GetParam().says};
  // Up to the limit of 2^20 merges each takes its 32 bytes, six of which the file has.
  if (GetParam().name == std::string_view("ManyMerges")) refusal.memory = 40U << 20;
  expect_refused({"inspect", "tokens", folder.path(), "-p", "x"}, folder.path(), refusal);
}

INSTANTIATE_TEST_SUITE_P(Rows, HostileTokenizer, testing::ValuesIn(kTokenizers), name_of);

struct Template {
  const char* name;
  const char* kind;
  std::string source;
};

void PrintTo(const Template& row, std::ostream* out) {
  *out << row.name;
}

const Template kTemplates[] = {
    {"T01", "E_RENDER", "{% for i in range(10**9) %}{% endfor %}"},
    {"T02", "E_RENDER",
     "{% for i in range(25000) %}{% for j in range(25000) %}{% endfor %}{% endfor %}"},
    {"T03", "E_RENDER", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
    {"T04", "E_TEMPLATE", repeat("{% if true %}", 10'000) + repeat("{% endif %}", 10'000)},
    {"T05", "E_RENDER", "{{ 'a' * 10**10 }}"},
    {"T06", "E_RENDER", "{% set x = 'ab' %}" + repeat("{% set x = x ~ x %}", 60)},
    {"T07", "E_RENDER", "{{ cycler.__init__.__globals__ }}"},
    {"T08", "E_TEMPLATE", "{% include '/etc/passwd' %}"},
    {"T09expression", "E_TEMPLATE", "{{ x"},
    {"T09statement", "E_TEMPLATE", "{% if x"},
    {"T09comment", "E_TEMPLATE", "{# x"},
    {"T10", "E_RENDER", "{{ raise_exception('x' * 10000000) }}"},
    {"T15", "E_RENDER", "{{ 1 | join }}"},
    {"T17", "E_RENDER", "{% set n = namespace() %}{% set n.n = n %}{{ n | tojson }}"},
    {"Unbalanced", "E_TEMPLATE", "{% if x %}{% endfor %}"},
    {"Large", "E_TEMPLATE", std::string((1U << 20) + 1, 'x')},
};

class HostileTemplate : public testing::TestWithParam<Template> {};

// G97: the model loads and goes on with raw text; only a chat is refused.
TEST_P(HostileTemplate, RefusesTheChatAlone) {
  bare_memory();
  const Template& row = GetParam();
  const test::TempDir folder;
  const std::string path =
      folder.write("m.gguf", test::TinyGguf().set("tokenizer.chat_template", row.source).build());
  const std::string messages = folder.write("messages", R"({"messages": []})");
  // A template that runs has budgets of its own: its steps, 16 MiB a string, 64 MiB in all.
  Refusal refusal{row.kind, "m.gguf"};
  if (refusal.kind == "E_RENDER") {
    refusal.milliseconds = 250;
    refusal.memory = 64U << 20;
  }
  expect_refused({"inspect", "template", path, "--messages", messages}, path, refusal);
  expect_refused({"run", path, "-p", "x", "-n", "1"}, path, refusal);
  const test::Outcome raw = run_program({"run", path, "--raw", "-p", "x", "-n", "1", "-t", "1"});
  EXPECT_EQ(raw.exit_code, 0) << raw.err;
  const std::string file = folder.write("t.jinja", row.source);
  refusal.says = "t.jinja";
  expect_refused({"inspect", "template", file, "--messages", messages}, file, refusal);
}

INSTANTIATE_TEST_SUITE_P(Rows, HostileTemplate, testing::ValuesIn(kTemplates),
                         [](const auto& row) { return std::string(row.param.name); });

// G101
TEST(HostilePath, IsRefused) {
  const test::TempDir folder;
  const test::TempDir empty;
  const std::string fifo = folder.file("fifo.gguf");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string loop = folder.file("loop.gguf");
  std::filesystem::create_symlink(loop, loop);
  const std::string longer = folder.file(std::string(5'000, 'n'));
  const std::pair<std::string, const char*> rows[] = {
      {fifo, "E_NOTFILE"},         {loop, "E_NOMODEL"},
      {longer, "E_NOMODEL"},       {folder.file("gone.gguf"), "E_NOMODEL"},
      {"/dev/zero", "E_NOTFILE"},  {"/dev/random", "E_NOTFILE"},
      {empty.path(), "E_NOMODEL"}, {"/proc/self/mem", "E_TRUNC"},
  };
  for (const auto& [path, kind] : rows) {
    expect_refused({"inspect", path}, path, {kind, ""});
    expect_refused({"run", path, "-p", "x", "-n", "1"}, path, {kind, ""});
  }
}

// G98: a split model whose other part is gone or belongs to another model.
TEST(HostileSplit, IsRefused) {
  const test::TempDir folder;
  const auto part = [](std::uint16_t number, const char* tensor) {
    return test::GgufBuilder()
        .add_kv("split.no", number)
        .add_kv("split.count", std::uint16_t{2})
        .add_tensor(tensor, DType::f32, {8}, std::string(32, '\0'))
        .build();
  };
  const std::string first = folder.write("m-00001-of-00002.gguf", part(0, "a"));
  const auto refused = [&](const char* kind, const char* says) {
    expect_refused({"inspect", first}, folder.path(), {kind, says});
  };
  refused("E_SPLIT", "part 2 of 2 is missing");
  folder.write("m-00002-of-00002.gguf", part(0, "b"));
  refused("E_SPLIT", "says it is part 1 of 2, part 2 of 2 is needed");
  folder.write("m-00002-of-00002.gguf", part(1, "a"));
  refused("E_DUPTENSOR", "m-00002-of-00002.gguf");
  folder.write("m-00002-of-00002.gguf", "GGUF");
  refused("E_TRUNC", "m-00002-of-00002.gguf: at byte 4");
}

}  // namespace
}  // namespace orrery::cli
