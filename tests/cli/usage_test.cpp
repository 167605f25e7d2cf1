// Exit codes, streams and sentences of the commands: 0 done, 1 refused, 2 wrong usage.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace orrery::cli {
namespace {

using test::Outcome;
using test::run_program;

TEST(Usage, HelpAndVersionGoToStdout) {
  for (const char* flag : {"--help", "--version"}) {
    const Outcome outcome = run_program({flag});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_NE(outcome.out.find("orrery"), std::string::npos);
    EXPECT_EQ(outcome.err, "");
  }
  const Outcome help = run_program({"--help"});
  for (const char* command : {"run", "serve", "inspect", "eval", "bench", "silicon", "models",
                              "pull", "quantize", "imatrix"}) {
    EXPECT_NE(help.out.find(command), std::string::npos) << command;
  }
}

TEST(Usage, WrongUsageIsTwoAndSaysSoOnStderr) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"fly"},
      {"--fly"},
      {"inspect", "tokens", "--nonsense"},
      {"run", "-n", "many", "-p", "x"},
      {"run", "--temp", "-1", "-p", "x"},
      {"eval", "perplexity"},
      {"pull"},
      {"silicon"},
      {"silicon", "abacus"},
      {"silicon", "matmul", "-t", "0"},
  };
  for (const auto& arguments : wrong) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << testing::PrintToString(arguments) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err, "");
  }
}

TEST(Usage, CacheTypesAreNamedInTheError) {
  for (const char* types : {"q8_1", "f16,q4_k", "f16,f16,f16", "int", "", ",f16", "f16,"}) {
    const Outcome outcome = run_program({"run", "-p", "x", "--kv-type", types});
    EXPECT_EQ(outcome.exit_code, 2) << types;
    EXPECT_NE(outcome.err.find("f32, f16, bf16, q8_0 and q4_0"), std::string::npos)
        << types << outcome.err;
  }
}

TEST(Usage, ABadFileIsOneSentenceAndOne) {
  const test::TempDir folder;
  const std::string path = folder.path() + "/bad.gguf";
  std::ofstream(path) << "GGUF";
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"inspect", path},
                                             {"inspect", "plan", path},
                                             {"run", path, "-p", "hello"},
                                             {"eval", "logits", path, "--ids", "1 2", "--json"},
                                             {"bench", path}}) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << testing::PrintToString(arguments);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err.rfind("error[E_TRUNC]: ", 0), 0U) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Usage, AMissingModelNamesWhatWasTried) {
  const Outcome outcome = run_program({"inspect", "/nowhere/model.gguf"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("/nowhere/model.gguf"), std::string::npos);
}

TEST(Usage, InspectDeviceNamesTheForcedKernels) {
  const Outcome outcome = run_program({"inspect", "device"}, "", {"ORRERY_ISA=emu"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("chosen: emu"), std::string::npos) << outcome.out;
  const Outcome unknown = run_program({"inspect", "device"}, "", {"ORRERY_ISA=abacus"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_EQ(unknown.err.rfind("error[E_ISA]: ", 0), 0U) << unknown.err;
}

TEST(Usage, NumbersOfSequencesAreBoundedAndSayHow) {
  for (const char* numbers : {"0", "33", "1,,2", "1,", "all"}) {
    const Outcome outcome = run_program({"bench", "--sequences", numbers});
    EXPECT_EQ(outcome.exit_code, 2) << numbers << outcome.err;
    EXPECT_NE(outcome.err.find("--sequences takes numbers from 1 to 32"), std::string::npos)
        << numbers << outcome.err;
  }
}

TEST(Usage, SizesOfProductsAreBoundedAndSayHow) {
  for (const char* sizes : {"15", "4097", "-16", "many", "16,", ",16", "16,,32", "16;32", "1e3",
                            "99999999999999999999"}) {
    const Outcome outcome = run_program({"silicon", "matmul", "--sizes", sizes});
    EXPECT_EQ(outcome.exit_code, 2) << sizes << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("16 to 4096"), std::string::npos) << sizes << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Usage, SiliconMatmulPrintsJson) {
  const Outcome outcome = run_program(
      {"silicon", "matmul", "--sizes", "16,160", "-t", "1", "--json"}, "", {"ORRERY_ISA=emu"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  ASSERT_FALSE(report["products"].empty());
  for (const auto& product : report["products"]) {
    for (const char* number : {"m", "n", "k", "seconds", "median_seconds", "gflops"}) {
      EXPECT_GT(product.at(number).get<double>(), 0) << number << product;
    }
    EXPECT_TRUE(product.at("peak_fraction").is_number());
    EXPECT_TRUE(product.at("packing").is_boolean());
    EXPECT_TRUE((std::set<std::string>{"emulated", "blas", "torch"}.contains(product.at("unit"))))
        << product;
    EXPECT_TRUE(product.at("type").is_string());
    const double m = product["m"], seconds = product["seconds"], gflops = product["gflops"];
    EXPECT_NEAR(gflops * seconds, 2e-9 * m * m * m, 1e-12);
  }
  EXPECT_GT(report["dispatch"]["seconds"].get<double>(), 0);
  EXPECT_EQ(report["dispatch"]["threads"], 1);
  EXPECT_TRUE(report["missing"].is_array());
}

TEST(Usage, InspectTemplateRendersAJinjaFile) {
  const test::TempDir folder;
  const std::string source = folder.path() + "/chat.jinja";
  const std::string variables = folder.path() + "/vars.json";
  std::ofstream(source) << "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
  std::ofstream(variables) << R"({"messages": [{"role": "user", "content": "hi <|x|>"}]})";
  const Outcome outcome = run_program({"inspect", "template", source, "--messages", variables});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "<user>hi <|x|>");
  std::ofstream(variables) << "[1, 2";
  EXPECT_EQ(run_program({"inspect", "template", source, "--messages", variables}).exit_code, 1);
}

}  // namespace
}  // namespace orrery::cli
