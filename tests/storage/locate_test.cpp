// Models are found where they are: cache, Hugging Face hub, Ollama store.
#include "storage/locate.hpp"

#include <gtest/gtest.h>

#include <map>

#include "storage/checkpoint.hpp"
#include "storage/model_names.hpp"
#include "storage/sha256.hpp"
#include "support/memory_io.hpp"

namespace orrery::storage {
namespace {

const Environment kHome{.home = "/home/u",
                        .xdg_cache_home = "",
                        .hf_home = "",
                        .hf_hub_cache = "",
                        .ollama_models = ""};
const std::string kDigest = std::string(64, 'a');
const std::string kHub = "/home/u/.cache/huggingface/hub";

std::string manifest(const std::string& digest) {
  return R"({"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.license",)"
         R"("digest":"sha256:00"},{"mediaType":"application/vnd.ollama.image.model","digest":")" +
         digest + R"(","size":3}]})";
}

test::MemoryIo full_home() {
  test::MemoryIo io;
  io.files["/home/u/.cache/orrery/tiny.gguf"] = "GGUF";
  io.files["/home/u/.cache/orrery/folder/model.safetensors"] = "xx";
  io.files["/home/u/.cache/orrery/notes.txt"] = "not a model";
  io.files[kHub + "/models--org--model/refs/main"] = "abc123\n";
  io.files[kHub + "/models--org--model/snapshots/abc123/model.safetensors"] = "12345";
  io.files[kHub + "/models--org--model/snapshots/zzz/model.safetensors"] = "old";
  io.files[kHub + "/models--org--noref/snapshots/r1/m-Q4.gguf"] = "GGUF";
  io.files[kHub + "/models--org--empty/snapshots/r1/README.md"] = "nothing";
  const std::string ollama = "/home/u/.ollama/models";
  io.files[ollama + "/manifests/registry.ollama.ai/library/llama3.2/1b"] =
      manifest("sha256:" + kDigest);
  io.files[ollama + "/manifests/registry.ollama.ai/library/llama3.2/latest"] =
      manifest("sha256:" + kDigest);
  io.files[ollama + "/manifests/hf.co/org/m-GGUF/Q4_K_M"] = manifest("sha256:" + kDigest);
  io.files[ollama + "/manifests/registry.ollama.ai/library/evil/latest"] =
      manifest("sha256:../../../etc/passwd");
  io.files[ollama + "/manifests/registry.ollama.ai/library/broken/latest"] = "{\"layers\": 3}";
  io.files[ollama + "/blobs/sha256-" + kDigest] = "GGUFblob";
  return io;
}

std::string found(std::string_view name) {
  test::MemoryIo io = full_home();
  const auto path = locate(name, io, kHome);
  return path ? *path : std::string(path.error().kind);
}

TEST(Locate, TakesAPathAsItIs) {
  EXPECT_EQ(found("/home/u/.cache/orrery/tiny.gguf"), "/home/u/.cache/orrery/tiny.gguf");
  EXPECT_EQ(found("/home/u/.cache/orrery/folder"), "/home/u/.cache/orrery/folder");
}

TEST(Locate, FindsFilesAndFoldersOfTheCache) {
  EXPECT_EQ(found("tiny"), "/home/u/.cache/orrery/tiny.gguf");
  EXPECT_EQ(found("tiny.gguf"), "/home/u/.cache/orrery/tiny.gguf");
  EXPECT_EQ(found("folder"), "/home/u/.cache/orrery/folder");
}

TEST(Locate, FindsSnapshotsOfTheHub) {
  EXPECT_EQ(found("org/model"), kHub + "/models--org--model/snapshots/abc123");
  EXPECT_EQ(found("org/model/model.safetensors"),
            kHub + "/models--org--model/snapshots/abc123/model.safetensors");
  EXPECT_EQ(found("org/noref"), kHub + "/models--org--noref/snapshots/r1");
  EXPECT_EQ(found("org/empty"), "E_NOMODEL");
  EXPECT_EQ(found("org/model/absent.gguf"), "E_NOMODEL");
}

TEST(Locate, FindsBlobsOfOllama) {
  const std::string blob = "/home/u/.ollama/models/blobs/sha256-" + kDigest;
  EXPECT_EQ(found("llama3.2"), blob);
  EXPECT_EQ(found("llama3.2:1b"), blob);
  EXPECT_EQ(found("hf.co/org/m-GGUF:Q4_K_M"), blob);
  EXPECT_EQ(found("llama3.2:70b"), "E_NOMODEL");
  EXPECT_EQ(found("evil"), "E_NOMODEL");
  EXPECT_EQ(found("broken"), "E_NOMODEL");
}

TEST(Locate, NeverLeavesTheStores) {
  test::MemoryIo io = full_home();
  io.files["/home/u/.cache/secret.gguf"] = "x";
  for (const std::string_view name :
       {"../secret", "a/../../secret", "./../secret", "..", "a//b", "x\\y", "/"}) {
    const auto path = locate(name, io, kHome);
    EXPECT_FALSE(path) << name;
  }
  EXPECT_EQ(locate(std::string(5000, 'a'), io, kHome).error().kind, "E_NOMODEL");
}

TEST(Locate, FollowsTheEnvironment) {
  test::MemoryIo io;
  io.files["/x/orrery/a.gguf"] = "GGUF";
  io.files["/hf/hub/models--o--m/snapshots/r/model.safetensors"] = "x";
  io.files["/ol/manifests/registry.ollama.ai/library/q/latest"] = manifest("sha256:" + kDigest);
  io.files["/ol/blobs/sha256-" + kDigest] = "GGUF";
  const Environment environment{.home = "/home/u",
                                .xdg_cache_home = "/x",
                                .hf_home = "/hf",
                                .hf_hub_cache = "",
                                .ollama_models = "/ol"};
  EXPECT_EQ(*locate("a", io, environment), "/x/orrery/a.gguf");
  EXPECT_EQ(*locate("o/m", io, environment), "/hf/hub/models--o--m/snapshots/r");
  EXPECT_EQ(*locate("q", io, environment), "/ol/blobs/sha256-" + kDigest);
}

TEST(Locate, SaysWhatWasTriedAndWhatIsClose) {
  test::MemoryIo io = full_home();
  const auto missing = locate("smolm2-135m", io, kHome);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, "E_NOMODEL");
  for (const std::string_view part : {"/home/u/.cache/orrery", "huggingface", ".ollama/models",
                                      "did you mean \"smollm2-135m\""}) {
    EXPECT_NE(missing.error().message.find(part), std::string::npos) << missing.error().message;
  }
  EXPECT_NE(locate("tin", io, kHome).error().message.find("\"tiny\""), std::string::npos);
}

TEST(Locate, VerifiesTheDefaultModel) {
  test::MemoryIo io;
  const auto absent = locate("", io, kHome);
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().message.find("orrery pull smollm2-135m"), std::string::npos);
  io.files["/home/u/.cache/orrery/SmolLM2-135M-Instruct.Q4_1.gguf"] = "damaged";
  for (const std::string_view name : {"", "smollm2-135m", "smollm2-135m-instruct"}) {
    const auto damaged = locate(name, io, kHome);
    ASSERT_FALSE(damaged);
    EXPECT_EQ(damaged.error().kind, "E_CHECKSUM");
  }
}

TEST(Locate, ListsAllModelsWithTheirSource) {
  test::MemoryIo io = full_home();
  std::vector<std::string> lines;
  for (const ModelEntry& entry : list_models(io, kHome)) {
    lines.push_back(std::string(source_name(entry.source)) + " " + entry.name + " " +
                    std::to_string(entry.bytes));
    EXPECT_EQ(locate(entry.name, io, kHome).value_or("none"), entry.path) << entry.name;
  }
  const std::vector<std::string> expected = {"cache folder 2",
                                             "cache tiny 4",
                                             "Hugging Face org/model 5",
                                             "Hugging Face org/noref 4",
                                             "Ollama hf.co/org/m-GGUF:Q4_K_M 8",
                                             "Ollama llama3.2:1b 8",
                                             "Ollama llama3.2:latest 8"};
  EXPECT_EQ(lines, expected);
}

TEST(Locate, ListsOneFolderAndCountsAllPartsOfAModel) {
  test::MemoryIo io;
  io.files["/m/a.gguf"] = "1234";
  io.files["/m/big-00001-of-00002.gguf"] = "123";
  io.files["/m/big-00002-of-00002.gguf"] = "12345";
  io.files["/m/folder/model.safetensors"] = "12";
  io.files["/m/notes.txt"] = "no model";
  std::map<std::string, std::uint64_t> found;
  for (const ModelEntry& entry : list_folder("/m", io)) found[entry.name] = entry.bytes;
  EXPECT_EQ(found, (std::map<std::string, std::uint64_t>{
                       {"a", 4}, {"big-00001-of-00002", 8}, {"folder", 2}}));
  EXPECT_TRUE(list_folder("/nothing", io).empty());
  EXPECT_EQ(model_bytes("/m/big-00001-of-00002.gguf", io), 8U);
  EXPECT_EQ(model_bytes("/m/nothing.gguf", io), 0U);
}

TEST(Locate, ImagesAreListedAndFoundByTheirName) {
  test::MemoryIo io;
  const std::string images = "/home/u/.cache/orrery/images/";
  io.files[images + "m.Q8_0.packed.gguf"] = "GGUF";
  io.files[images + "m.gguf.1-0.tmp"] = "half";
  const auto all = list_models(io, kHome);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "images/m.Q8_0.packed");
  EXPECT_EQ(all[0].path, images + "m.Q8_0.packed.gguf");
  EXPECT_EQ(all[0].bytes, 4U);
  EXPECT_EQ(source_name(all[0].source), "image");
  EXPECT_EQ(*locate(all[0].name, io, kHome), all[0].path);
}

TEST(Sha256, KnownVectors) {
  const auto hash = [](std::string_view text) {
    return sha256(std::as_bytes(std::span(text.data(), text.size())));
  };
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, TheStampSparesTheSecondReading) {
  test::MemoryIo io;
  io.files["m"] = "abc";
  const std::string expected = *sha256_file("m", io);
  ASSERT_TRUE(verify_file("m", expected, io));
  EXPECT_TRUE(io.files.contains("m.verified"));
  io.files["m"] = "abd";  // same size and time: only the stamp can make this pass
  EXPECT_TRUE(verify_file("m", expected, io));
  io.files["m"] = "abcd";
  EXPECT_EQ(verify_file("m", expected, io).error().kind, "E_CHECKSUM");
  EXPECT_EQ(verify_file("absent", expected, io).error().kind, "E_NOTFOUND");
}

TEST(Locate, TheRealDefaultModelOpens) {
  const Environment environment = Environment::of_process();
  const std::string file(find_model_name(kDefaultModel)->file);
  if (!system_io().exists(cache_folder(environment) + "/" + file)) {
    GTEST_SKIP() << "the default model is not in " << cache_folder(environment);
  }
  const auto path = locate("", system_io(), environment);
  ASSERT_TRUE(path) << path.error().message;
  const auto model = Checkpoint::open(*path, system_io());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->metadata().string("general.architecture").value_or(""), "llama");
  EXPECT_EQ((*model)->tensors().size(), 272U);
  EXPECT_EQ((*model)->find("token_embd.weight")->dims[0], 576U);
}

}  // namespace
}  // namespace orrery::storage
