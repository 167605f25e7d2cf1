// Split GGUFs, sharded safetensors and folders.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "storage/checkpoint.hpp"
#include "storage/split_name.hpp"
#include "support/gguf_builder.hpp"
#include "support/memory_io.hpp"

namespace orrery::storage {
namespace {

std::string part(std::uint16_t number, std::uint16_t count, const std::string& tensor,
                 std::int32_t tensors = 2) {
  test::GgufBuilder builder;
  if (number == 0) builder.add_kv("general.architecture", "llama");
  return builder.add_kv("split.no", number)
      .add_kv("split.count", count)
      .add_kv("split.tensors.count", tensors)
      .add_tensor(tensor, DType::f32, {8}, std::vector<float>(8, number))
      .build();
}

const std::string kFirst = "d/m-00001-of-00002.gguf";
const std::string kSecond = "d/m-00002-of-00002.gguf";

test::MemoryIo split_model() {
  test::MemoryIo io;
  io.files[kFirst] = part(0, 2, "a");
  io.files[kSecond] = part(1, 2, "b");
  return io;
}

std::string kind_of(test::MemoryIo& io, const std::string& path) {
  const auto opened = Checkpoint::open(path, io);
  return opened ? "opened" : std::string(opened.error().kind);
}

TEST(SplitName, ParsesAndPrints) {
  const auto name = parse_split_name("x/llama-00002-of-00010.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "x/llama");
  EXPECT_EQ(name->number, 2U);
  EXPECT_EQ(name->count, 10U);
  EXPECT_EQ(split_part_path(*name, 10), "x/llama-00010-of-00010.gguf");
  for (const std::string_view bad :
       {"m.gguf", "m-00003-of-00002.gguf", "m-00000-of-00002.gguf", "m-0001-of-0002.gguf",
        "m-0000a-of-00002.gguf", "-00001-of-00002.gguf", "m-00001-of-00002"}) {
    EXPECT_FALSE(parse_split_name(bad)) << bad;
  }
}

TEST(SplitGguf, AnyPartAndTheFolderOpenAllParts) {
  test::MemoryIo io = split_model();
  for (const std::string& path : {kFirst, kSecond, std::string("d")}) {
    const auto opened = Checkpoint::open(path, io);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ((*opened)->path(), path);
    EXPECT_EQ((*opened)->files().size(), 2U);
    ASSERT_EQ((*opened)->tensors().size(), 2U);
    const TensorInfo* second = (*opened)->find("b");
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(second->file, 1U);
    float value = 0;
    std::memcpy(&value, second->data, sizeof(value));
    EXPECT_EQ(value, 1.0F);
    EXPECT_EQ((*opened)->metadata().string("general.architecture").value_or(""), "llama");
  }
}

TEST(SplitGguf, BadSetsAreRefused) {
  test::MemoryIo io = split_model();
  io.files.erase(kSecond);
  EXPECT_EQ(kind_of(io, kFirst), "E_SPLIT");  // missing
  io.files[kSecond] = part(0, 2, "b");
  EXPECT_EQ(kind_of(io, kFirst), "E_SPLIT");  // wrong number
  io.files[kSecond] = part(1, 3, "b");
  EXPECT_EQ(kind_of(io, kFirst), "E_SPLIT");  // wrong count
  io.files[kSecond] = part(1, 2, "a");
  EXPECT_EQ(kind_of(io, kFirst), "E_DUPTENSOR");
  io.files[kSecond] = "GGUF";
  EXPECT_EQ(kind_of(io, kFirst), "E_TRUNC");
  io = split_model();
  io.files[kFirst] = part(0, 2, "a", 3);
  EXPECT_EQ(kind_of(io, kFirst), "E_SPLIT");  // a tensor is missing
  io.files["d/alone.gguf"] = part(0, 2, "a");
  EXPECT_EQ(kind_of(io, "d/alone.gguf"), "E_SPLIT");  // the name gives no other parts
  io.files["d/many.gguf"] = part(0, 65'535, "a");
  EXPECT_EQ(kind_of(io, "d/many.gguf"), "E_SPLIT");
  io.files["d/typed.gguf"] = test::GgufBuilder().add_kv("split.count", "2").build();
  EXPECT_EQ(kind_of(io, "d/typed.gguf"), "E_META");
}

std::string safetensors(const std::string& tensor, int bytes = 8) {
  const std::string json = fmt::format(
      R"({{"{}":{{"dtype":"I8","shape":[{}],"data_offsets":[0,{}]}}}})", tensor, bytes, bytes);
  return test::ByteWriter()
      .number(static_cast<std::uint64_t>(json.size()))
      .raw(json)
      .raw(std::string(static_cast<std::size_t>(bytes), 'x'))
      .bytes();
}

test::MemoryIo sharded_model() {
  test::MemoryIo io;
  io.files["s/model-00001-of-00002.safetensors"] = safetensors("a");
  io.files["s/model-00002-of-00002.safetensors"] = safetensors("b");
  io.files["s/model.safetensors.index.json"] =
      R"({"metadata":{"total_size":16},"weight_map":{"a":"model-00001-of-00002.safetensors",)"
      R"("b":"model-00002-of-00002.safetensors"}})";
  io.files["s/config.json"] = R"({"model_type":"llama"})";
  io.files["s/generation_config.json"] = "{}";
  io.files["s/chat_template.jinja"] = "{{ x }}";
  return io;
}

TEST(Shards, TheFolderTheIndexAndAShardOpenTheModel) {
  test::MemoryIo io = sharded_model();
  for (const std::string path :
       {"s", "s/model.safetensors.index.json", "s/model-00002-of-00002.safetensors"}) {
    const auto opened = Checkpoint::open(path, io);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ((*opened)->tensors().size(), 2U);
    EXPECT_EQ((*opened)->find("b")->file, 1U);
    EXPECT_EQ((*opened)->config_json(), R"({"model_type":"llama"})");
    EXPECT_EQ((*opened)->generation_config_json(), "{}");
    EXPECT_EQ((*opened)->chat_template_jinja(), "{{ x }}");
    EXPECT_EQ((*opened)->tokenizer_json(), "");
    EXPECT_TRUE((*opened)->warnings().empty());
  }
}

TEST(Shards, BadIndexesAreRefused) {
  const std::pair<const char*, const char*> rows[] = {
      {"E_INDEX", R"({"weight_map":{"a":"../model-00001-of-00002.safetensors"}})"},
      {"E_INDEX", R"({"weight_map":{"a":"/etc/passwd"}})"},
      {"E_INDEX", R"({"weight_map":{"a":".."}})"},
      {"E_INDEX", R"({"weight_map":{"a":""}})"},
      {"E_INDEX", R"({"weight_map":{"a":1}})"},
      {"E_INDEX", R"({"weight_map":{"a":{}}})"},
      {"E_INDEX", R"({"weight_map":[]})"},
      {"E_INDEX", R"({"weight_map":{}})"},
      {"E_INDEX", R"([])"},
      {"E_INDEX", R"(1)"},
      {"E_INDEX", R"({})"},
      {"E_JSON", R"({"weight_map":)"},
      {"E_DUPKEY", R"({"weight_map":{},"weight_map":{}})"},
      {"E_DUPTENSOR", R"({"weight_map":{"a":"x","a":"y"}})"},
      {"E_SHARD", R"({"weight_map":{"a":"absent.safetensors"}})"},
      {"E_INDEX", R"({"weight_map":{"b":"model-00001-of-00002.safetensors"}})"},
      {"E_INDEX", R"({"weight_map":{"b":"model-00001-of-00002.safetensors",)"
                  R"("a":"model-00002-of-00002.safetensors"}})"},
  };
  for (const auto& [kind, index] : rows) {
    test::MemoryIo io = sharded_model();
    io.files["s/model.safetensors.index.json"] = index;
    EXPECT_EQ(kind_of(io, "s"), kind) << index;
  }
}

TEST(Shards, OddSetsAreHandled) {
  test::MemoryIo io = sharded_model();
  io.files["s/model-00002-of-00002.safetensors"] = safetensors("a");
  EXPECT_NE(kind_of(io, "s"), "opened");  // the same tensor twice
  io = sharded_model();
  std::string& index = io.files["s/model.safetensors.index.json"];
  index.replace(index.find("16"), 2, "17");
  const auto opened = Checkpoint::open("s", io);
  ASSERT_TRUE(opened);
  ASSERT_EQ((*opened)->warnings().size(), 1U);
  EXPECT_NE((*opened)->warnings()[0].find("total_size is 17"), std::string::npos);
}

TEST(Folder, HoldsOneModel) {
  test::MemoryIo io;
  io.files["f/readme.txt"] = "x";
  EXPECT_EQ(kind_of(io, "f"), "E_NOMODEL");
  io.files["f/a.gguf"] = test::GgufBuilder().add_kv("k", 1).build();
  io.files["f/mmproj-a.gguf"] = "not looked at";
  EXPECT_EQ(kind_of(io, "f"), "opened");
  io.files["f/b.gguf"] = io.files["f/a.gguf"];
  EXPECT_EQ(kind_of(io, "f"), "E_AMBIGUOUS");
  io.files["f/model.safetensors"] = safetensors("a");
  EXPECT_EQ(kind_of(io, "f"), "opened");
  EXPECT_EQ(kind_of(io, "absent"), "E_NOTFOUND");
}

TEST(Folder, FilesWithoutExtensionAreKnownByTheirContent) {
  test::MemoryIo io;
  io.files["sha256-1"] = test::GgufBuilder().add_kv("k", 1).build();
  io.files["sha256-2"] = safetensors("a");
  io.files["sha256-3"] = "neither";
  EXPECT_EQ((*Checkpoint::open("sha256-1", io))->format(), Format::gguf);
  EXPECT_EQ((*Checkpoint::open("sha256-2", io))->format(), Format::safetensors);
  EXPECT_EQ(kind_of(io, "sha256-3"), "E_MAGIC");
}

TEST(Folder, TooBigSideFilesAreRefused) {
  test::MemoryIo io = sharded_model();
  io.files["s/config.json"] = std::string((4U << 20) + 1, ' ');
  EXPECT_EQ(kind_of(io, "s"), "E_TOOBIG");
}

TEST(Faults, EveryFailingCallIsAnErrorAndNothingElse) {
  for (const std::string path : {"s", "d"}) {
    for (int call = 1;; ++call) {
      test::MemoryIo io = path == "s" ? sharded_model() : split_model();
      io.fail_call = call;
      const std::string kind = kind_of(io, path);
      if (io.calls < call) {
        EXPECT_EQ(kind, "opened");
        EXPECT_GT(call, 3);
        break;
      }
      EXPECT_EQ(kind, "E_IO") << path << " call " << call;
    }
  }
}

}  // namespace
}  // namespace orrery::storage
