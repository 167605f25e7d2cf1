#include "kernels/dispatch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cpu_info.hpp"

namespace orrery::kernels {
namespace {

TEST(Dispatch, EmulationIsAlwaysThereAndNamesAreUnique) {
  std::set<std::string> names;
  for (const KernelSet& set : available_kernels()) {
    EXPECT_TRUE(names.insert(set.name).second) << set.name;
    EXPECT_NE(set.rows, nullptr);
    EXPECT_NE(set.blocks, nullptr);
  }
  EXPECT_TRUE(names.contains("emu"));
  EXPECT_TRUE(names.contains("emu_outer"));
}

TEST(Dispatch, AForcedSetIsTheOneThatRuns) {
  for (const KernelSet& set : available_kernels()) {
    const Result<KernelSet> chosen = choose_kernels(set.name);
    ASSERT_TRUE(chosen) << set.name;
    EXPECT_EQ(chosen->name, set.name);
    // The tables carry the name they were compiled for.
    const std::string rows = set.name == "avx512_bf16" ? "avx512"
                             : set.name == "emu_outer" ? "emu"
                                                       : set.name;
    EXPECT_EQ(chosen->rows->isa, rows);
    const std::string blocks = set.name == "emu" || set.name.starts_with("neon") ? "emu_dot"
                               : set.name == "avx512_asm"                        ? "avx512"
                                                                                 : set.name;
    EXPECT_EQ(chosen->blocks->isa, blocks);
  }
}

// VDPBF16PS is worth choosing only where it does more than FMA.
TEST(Dispatch, Bf16ProductsRankByTheirSpeed) {
  if (!cpu_info().avx512_bf16) GTEST_SKIP() << "needs AVX-512 BF16";
  std::vector<std::string> names;
  for (const KernelSet& set : available_kernels()) names.push_back(set.name);
  const auto bf16 = std::find(names.begin(), names.end(), "avx512_bf16");
  const auto fma = std::find(names.begin(), names.end(), "avx512");
  EXPECT_EQ(bf16 < fma, cpu_info().fast_bf16);
}

// The assembly table differs from the intrinsics one in Q4_0 alone.
TEST(Dispatch, AssemblyIsBesideTheIntrinsics) {
  const Result<KernelSet> assembly = choose_kernels("avx512_asm");
  if (!assembly) GTEST_SKIP() << "needs AVX-512 VNNI";
  const RowKernels& plain = *choose_kernels("avx512")->rows;
  for (int type = 0; type < kMaxDTypeId; ++type) {
    const bool same = assembly->rows->matmul[type] == plain.matmul[type];
    EXPECT_EQ(same, type != static_cast<int>(DType::q4_0)) << type;
  }
}

TEST(Dispatch, NothingForcedTakesTheFirst) {
  const Result<KernelSet> chosen = choose_kernels("");
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->name, available_kernels().front().name);
}

TEST(Dispatch, AnUnknownNameIsAnErrorThatListsTheSets) {
  const Result<KernelSet> chosen = choose_kernels("mmx");
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().kind, "E_ISA");
  EXPECT_NE(chosen.error().message.find("mmx"), std::string::npos);
  EXPECT_NE(chosen.error().message.find("emu"), std::string::npos);
}

TEST(Dispatch, EveryTableIsWhole) {
  for (const RowKernels* table : available_row_kernels()) {
    int types = 0;
    for (const auto kernel : table->matmul) types += kernel != nullptr;
    EXPECT_EQ(types, 17) << table->isa;
    EXPECT_NE(table->quantize_q8, nullptr);
    EXPECT_NE(table->norm, nullptr);
    EXPECT_NE(table->rope, nullptr);
    EXPECT_NE(table->attention_part, nullptr);
    EXPECT_NE(table->attention_merge, nullptr);
    EXPECT_NE(table->activate, nullptr);
    EXPECT_NE(table->glu, nullptr);
    EXPECT_NE(table->add, nullptr);
    EXPECT_NE(table->mul, nullptr);
    EXPECT_NE(table->scale_add, nullptr);
    EXPECT_NE(table->softcap, nullptr);
    EXPECT_NE(table->to_f16, nullptr);
    EXPECT_NE(table->to_bf16, nullptr);
    EXPECT_NE(table->from_f16, nullptr);
  }
}

#if defined(__x86_64__) && defined(__linux__)
// The kernel's own list of flags is an independent witness of cpuid and xgetbv.
TEST(Dispatch, FeaturesAgreeWithTheSystem) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && line.rfind("flags", 0) != 0) {
  }
  if (line.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags line";
  std::istringstream words(line);
  std::set<std::string> flags;
  for (std::string word; words >> word;) flags.insert(word);
  std::istringstream features(cpu_features());
  for (std::string word; features >> word;) EXPECT_TRUE(flags.contains(word)) << word;
  EXPECT_EQ(cpu_info().avx2, flags.contains("avx2") && flags.contains("fma") &&
                                 flags.contains("f16c") && flags.contains("bmi2"));
  EXPECT_EQ(cpu_info().avx512, flags.contains("avx512f") && flags.contains("avx512bw") &&
                                   flags.contains("avx512dq") && flags.contains("avx512vl") &&
                                   flags.contains("avx512_vnni"));
}
#endif

}  // namespace
}  // namespace orrery::kernels
