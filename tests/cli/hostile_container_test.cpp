// Every broken GGUF and safetensors container of the catalogue, through the program.
#include <gtest/gtest.h>

#include "cli/refusal.hpp"
#include "support/gguf_catalogue.hpp"
#include "support/safetensors_catalogue.hpp"
#include "support/temp_dir.hpp"

namespace orrery::cli {
namespace {

using test::HostileFile;
using test::run_program;

std::string name_of(const testing::TestParamInfo<HostileFile>& row) {
  return row.param.name;
}

void expect_both_refuse(const std::string& path, const Refusal& expected) {
  expect_refused({"inspect", path}, path, expected);
  expect_refused({"run", path, "-p", "x", "-n", "1"}, path, expected);
}

class GgufContainer : public testing::TestWithParam<HostileFile> {};

TEST_P(GgufContainer, IsRefused) {
  const test::TempDir folder;
  expect_both_refuse(folder.write("m.gguf", GetParam().make()),
                     {.kind = GetParam().kind, .says = "m.gguf: at byte "});
}

INSTANTIATE_TEST_SUITE_P(Rows, GgufContainer, testing::ValuesIn(test::gguf_catalogue::kRows),
                         name_of);

class SafetensorsContainer : public testing::TestWithParam<HostileFile> {};

TEST_P(SafetensorsContainer, IsHandled) {
  const test::TempDir folder;
  const HostileFile& row = GetParam();
  const std::string path = folder.write("m.safetensors", row.make());
  if (*row.kind != '\0') {
    // S32 is a matter of policy: it has to be read up to the limit.
    const double limit = std::string_view(row.name) == "S32" ? 1000 : 100;
    return expect_both_refuse(path, {row.kind, "m.safetensors: at byte ", limit});
  }
  const test::Outcome outcome = run_program({"inspect", path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find('\0'), std::string::npos);
  // It is no model: nothing says of which family it is.
  expect_refused({"run", path, "-p", "x", "-n", "1"}, path, {"E_ARCH", "config.json is missing"});
}

INSTANTIATE_TEST_SUITE_P(Rows, SafetensorsContainer,
                         testing::ValuesIn(test::safetensors_catalogue::kRows), name_of);

// Files of many bytes that are refused late: memory grows by what they have, not by a multiple.
std::string array_of_bytes() {
  return test::GgufBuilder().add_kv("k", std::vector<std::uint8_t>(24U << 20)).build();
}
std::string array_of_numbers() {
  return test::GgufBuilder().add_kv("k", std::vector<std::uint64_t>(3U << 20, 7)).build();
}
std::string array_of_strings() {
  return test::GgufBuilder().add_kv("k", std::vector<std::string>(2U << 20)).build();
}
std::string many_keys() {
  test::GgufBuilder builder;
  for (int i = 0; i < 65'536; ++i) builder.add_kv("key." + std::to_string(i), std::uint8_t{1});
  return builder.build();
}
std::string many_tensors() {
  test::GgufBuilder builder;
  builder.set_alignment(1);
  for (std::uint32_t i = 0; i < 65'536; ++i) builder.raw_tensor(std::to_string(i), {1}, 24, i);
  return builder.raw_data(std::string(65'536, 'x')).build();
}
std::string long_text() {
  return test::GgufBuilder().add_kv("general.architecture", std::string(16U << 20, 'a')).build();
}

const HostileFile kLarge[] = {
    {"BytesInAnArray", "E_ARCH", array_of_bytes},
    {"NumbersInAnArray", "E_ARCH", array_of_numbers},
    {"StringsInAnArray", "E_ARCH", array_of_strings},
    {"ManyKeys", "E_ARCH", many_keys},
    {"ManyTensors", "E_ARCH", many_tensors},
    {"LongText", "E_ARCH", long_text},
};

class LargeContainer : public testing::TestWithParam<HostileFile> {};

TEST_P(LargeContainer, CostsNoMoreThanItsSize) {
  bare_memory();
  const test::TempDir folder;
  const std::string path = folder.write("m.gguf", GetParam().make());
  expect_refused({"run", path, "-p", "x", "-n", "1"}, path, {GetParam().kind, "rchitecture"});
  if (std::string_view(GetParam().name) == "ManyTensors") return;  // printing them is no refusal
  EXPECT_EQ(run_program({"inspect", path}).exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Rows, LargeContainer, testing::ValuesIn(kLarge), name_of);

}  // namespace
}  // namespace orrery::cli
