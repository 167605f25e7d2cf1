// What the writer wrote is read back as it was; a write that fails leaves no file.
#include "storage/gguf_writer.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "storage/checkpoint.hpp"
#include "support/gguf_builder.hpp"
#include "support/memory_io.hpp"
#include "support/temp_dir.hpp"

namespace orrery::storage {
namespace {

std::vector<GgufTensor> two_tensors() {
  return {{"a.weight", DType::q8_0, 2, {32, 3, 1, 1}}, {"b.weight", DType::f32, 1, {5, 1, 1, 1}}};
}

Metadata some_metadata() {
  Metadata metadata;
  metadata.insert("general.architecture", std::string_view("llama"));
  metadata.insert("x.small", std::uint64_t{7});
  metadata.insert("x.large", std::uint64_t{1} << 40);
  metadata.insert("x.negative", std::int64_t{-3});
  metadata.insert("x.float", 0.5);
  metadata.insert("x.double", 0.1);
  metadata.insert("x.flag", true);
  MetaArray texts;
  texts.strings = {"one", "", "three"};
  metadata.insert("x.texts", texts);
  MetaArray numbers{.kind = MetaArray::Kind::integers};
  numbers.integers = {1, -2};
  metadata.insert("x.numbers", numbers);
  numbers.integers.push_back(std::int64_t{1} << 40);
  metadata.insert("x.long_numbers", numbers);
  MetaArray floats{.kind = MetaArray::Kind::floats};
  floats.floats = {1.5F};
  metadata.insert("x.floats", floats);
  MetaArray flags{.kind = MetaArray::Kind::bools};
  flags.bools = {1, 0};
  metadata.insert("x.flags", flags);
  return metadata;
}

Status write_file(const std::string& path, const Metadata& metadata, Io& io) {
  const std::vector<std::byte> data(3 * 34 + 5 * 4, std::byte{9});
  ORRERY_TRY(GgufWriter writer, GgufWriter::create(path, metadata, two_tensors(), io));
  // Pieces that do not end where tensors do.
  ORRERY_TRY_VOID(writer.append(std::span(data).first(10)));
  ORRERY_TRY_VOID(writer.append(std::span(data).subspan(10)));
  return writer.finish();
}

TEST(GgufWriter, WritesWhatIsReadBack) {
  test::MemoryIo io;
  const Metadata metadata = some_metadata();
  ASSERT_TRUE(write_file("m.gguf", metadata, io));
  const auto read = Checkpoint::open("m.gguf", io);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE((*read)->warnings().empty());
  const Metadata& found = (*read)->metadata();
  ASSERT_EQ(found.all().size(), metadata.all().size());
  EXPECT_EQ(*found.u32("x.small"), 7U);
  EXPECT_EQ(*found.i64("x.large"), std::int64_t{1} << 40);
  EXPECT_EQ(*found.i64("x.negative"), -3);
  EXPECT_EQ(std::get<double>(*found.find("x.float")), 0.5);
  EXPECT_EQ(std::get<double>(*found.find("x.double")), 0.1);
  EXPECT_TRUE(*found.boolean("x.flag"));
  for (const std::string key : {"x.texts", "x.numbers", "x.long_numbers", "x.floats", "x.flags"}) {
    const auto& array = std::get<MetaArray>(*metadata.find(key));
    EXPECT_EQ(*found.array(key, array.kind), array) << key;
  }
  ASSERT_EQ((*read)->tensors().size(), 2U);
  const TensorInfo* b = (*read)->find("b.weight");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dims[0], 5U);
  EXPECT_EQ(b->data[19], std::byte{9});
}

TEST(GgufWriter, CopiesPackedArraysAndAlignment) {
  test::MemoryIo io;
  test::GgufBuilder builder;
  builder.set_alignment(64).add_kv("x.bytes", std::vector<std::uint8_t>{1, 2, 250});
  builder.add_kv("x.names", std::vector<std::string>{"p", "", "qr"});
  io.files["in.gguf"] = builder.build();
  const auto in = Checkpoint::open("in.gguf", io);
  ASSERT_TRUE(in) << in.error().message;
  ASSERT_TRUE(write_file("out.gguf", (*in)->metadata(), io));
  const auto out = Checkpoint::open("out.gguf", io);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ((*out)->metadata().all(), (*in)->metadata().all());
  EXPECT_EQ((*out)->find("b.weight")->offset % 64, 0U);
}

TEST(GgufWriter, AnyCallMayFail) {
  const Metadata metadata = some_metadata();
  int failures = 0;
  for (int call = 1;; ++call) {
    test::MemoryIo io;
    io.fail_call = call;
    if (write_file("m.gguf", metadata, io)) break;
    EXPECT_TRUE(io.files.empty()) << call;
    ++failures;
  }
  EXPECT_GE(failures, 6);
}

TEST(GgufWriter, NamesWhatAFileCannotHold) {
  test::MemoryIo io;
  std::vector<GgufTensor> tensors = two_tensors();
  tensors[1].name = std::string(64, 'n');
  const auto refused = GgufWriter::create("m.gguf", some_metadata(), tensors, io);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_META");
  EXPECT_NE(refused.error().message.find("64 bytes"), std::string::npos);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(NewFile, HasItsNameOnlyWhenFinished) {
  const test::TempDir folder;
  const std::string path = folder.file("out");
  const auto bytes = std::as_bytes(std::span("abc", 3));
  {
    auto file = system_io().create(path);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE((*file)->append(bytes));
    EXPECT_FALSE(system_io().exists(path));
  }
  EXPECT_TRUE(system_io().list(folder.path())->empty());
  auto file = system_io().create(path);
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->append(bytes));
  ASSERT_TRUE((*file)->finish());
  EXPECT_EQ(contents(path), "abc");
  EXPECT_EQ(system_io().list(folder.path())->size(), 1U);
}

TEST(NewFile, SaysWhyItCannotBeMade) {
  const test::TempDir folder;
  const auto refused = system_io().create(folder.file("absent/out"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "E_NOTFOUND");
}

TEST(NewFile, LeavesNothingWhereTheNameIsTaken) {
  const test::TempDir folder;
  ASSERT_TRUE(std::filesystem::create_directory(folder.file("out")));
  auto file = system_io().create(folder.file("out"));
  ASSERT_TRUE(file);
  EXPECT_FALSE((*file)->finish());
  file->reset();
  EXPECT_EQ(system_io().list(folder.path())->size(), 1U);
}

}  // namespace
}  // namespace orrery::storage
