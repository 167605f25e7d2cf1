// Numbers of latent attention and of its router that do not fit the tensors, through the program.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/refusal.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace orrery::cli {
namespace {

struct Row {
  const char* key;  // of a uint32
  std::uint32_t value;
  const char *kind, *says;
};

class HostileLatent : public testing::TestWithParam<Row> {};

TEST_P(HostileLatent, IsRefusedInOneLine) {
  const std::string golden = test::shared_dir() + "/data/golden/deepseek-v3/deepseek-v3-f16.gguf";
  if (!std::filesystem::exists(golden)) GTEST_SKIP() << golden << " is absent";
  const Row& row = GetParam();
  std::ifstream in(golden, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::string key = std::string("deepseek2.") + row.key;
  // The key's length, the key, its type, its value.
  std::string entry(8, '\0');
  entry[0] = static_cast<char>(key.size());
  entry += key;
  const std::size_t at = bytes.find(entry);
  ASSERT_NE(at, std::string::npos);
  std::memcpy(bytes.data() + at + entry.size() + 4, &row.value, 4);
  const test::TempDir folder;
  const std::string path = folder.write("m.gguf", bytes);
  expect_refused({"run", path, "-p", "ab"}, path, {row.kind, row.says});
}

INSTANTIATE_TEST_SUITE_P(
    Numbers, HostileLatent,
    testing::Values(
        Row{"attention.kv_lora_rank", 0, "E_HPARAM", "is 0, expected an integer from 1 to 1022"},
        Row{"attention.kv_lora_rank", 63, "E_SHAPE",
            "tensor blk.0.attn_kv_a_mqa.weight has shape (80, 128), the parameters ask for (79, "
            "128)"},
        Row{"attention.q_lora_rank", 47, "E_SHAPE", "blk.0.attn_q_a.weight has shape (48, 128)"},
        Row{"attention.key_length_mla", 16, "E_HPARAM",
            "which leaves nothing beside the 16 elements that rotate"},
        Row{"attention.key_length_mla", 49, "E_SHAPE", "the parameters ask for (196, 48)"},
        Row{"attention.value_length_mla", 31, "E_SHAPE",
            "tensor blk.0.attn_v_b.weight has shape (4, 32, 64), the parameters ask for (4, 31, "
            "64)"},
        Row{"rope.dimension_count", 15, "E_HPARAM", "15 elements of a head rotate"},
        Row{"attention.head_count", 1025, "E_HPARAM", "is 1025, expected an integer from 1 to"},
        Row{"expert_group_count", 3, "E_HPARAM", "is 3, no divisor of the 8 experts"},
        Row{"expert_shared_count", 2, "E_SHAPE", "ffn_gate_shexp.weight has shape (48, 128)"},
        Row{"expert_gating_func", 9, "E_HPARAM", "is 9, supported are 1 (softmax)"},
        Row{"leading_dense_block_count", 4, "E_HPARAM", "is 4, expected an integer from 0 to 3"}));

}  // namespace
}  // namespace orrery::cli
