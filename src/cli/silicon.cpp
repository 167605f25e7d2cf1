// orrery silicon: benchmarks of the hardware paths.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/topology.hpp"
#include "cli/app.hpp"
#include "cli/model_arg.hpp"
#include "cli/numbers.hpp"
#include "cli/terminal.hpp"
#include "silicon/arena.hpp"
#include "silicon/matmul.hpp"

namespace orrery::cli {
namespace {

constexpr int kMostThreads = 1024;

struct Options {
  std::string sizes;
  int threads = 0;
  bool json = false;
};

nlohmann::ordered_json to_json(const silicon::MatmulTime& time) {
  return {{"unit", time.unit},
          {"kernels", time.kernels},
          {"path", time.path},
          {"type", silicon::name_of(time.type)},
          {"computed", time.precision == silicon::Precision::f32 ? "f32" : "bf16"},
          {"m", time.size},
          {"n", time.size},
          {"k", time.size},
          {"threads", time.threads},
          {"packing", time.packing},
          {"seconds", time.time.best},
          {"median_seconds", time.time.median},
          {"gflops", time.gflops()},
          {"peak_fraction", time.peak_fraction()}};
}

nlohmann::ordered_json to_json(const silicon::MatmulReport& report) {
  nlohmann::ordered_json document;
  document["products"] = nlohmann::ordered_json::array();
  for (const silicon::MatmulTime& time : report.times)
    document["products"].push_back(to_json(time));
  document["dispatch"] = {{"threads", report.threads},
                          {"seconds", report.dispatch.best},
                          {"median_seconds", report.dispatch.median}};
  document["peaks"] = nlohmann::ordered_json::array();
  for (const silicon::UnitPeak& peak : report.peaks) {
    document["peaks"].push_back({{"unit", peak.unit},
                                 {"kernels", peak.kernels},
                                 {"instruction", peak.instruction},
                                 {"one_thread_gflops", peak.one * 1e-9},
                                 {"gflops", peak.all * 1e-9}});
  }
  document["missing"] = report.missing;
  return document;
}

Status matmul(const Options& options) {
  silicon::MatmulOptions how;
  if (!options.sizes.empty()) {
    ORRERY_TRY(how.sizes, read_numbers("--sizes", options.sizes, silicon::kSmallestProduct,
                                       silicon::kLargestProduct));
  }
  how.threads = options.threads != 0 ? options.threads : physical_cores();
  how.forced_isa = forced_isa();
  ORRERY_TRY(const silicon::MatmulReport report, silicon::run_matmul(how));
  print(options.json ? to_json(report).dump(2) + "\n" : silicon::to_text(report));
  return {};
}

Status arena(bool malloc_alone) {
  silicon::ArenaOptions how;
  if (malloc_alone) {
    print(silicon::malloc_line(how.seconds));
    return {};
  }
  std::error_code unknown;  // then the program is, too
  how.program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  ORRERY_TRY(const silicon::ArenaReport report, silicon::run_arena(how));
  print(silicon::to_text(report));
  return {};
}

}  // namespace

void add_silicon(Command program) {
  Command silicon = program.command("silicon", "measure the units of this machine");
  silicon.requires_command();
  Command command = silicon.command("matmul", "matrix unit, vector unit and BLAS");
  auto options = std::make_shared<Options>();
  command.option("--sizes", options->sizes, "sizes of square products, 16 to 4096: 16,32,...");
  command.option("-t,--threads", options->threads, "threads of the large products")
      .range(1, kMostThreads);
  command.flag("--json", options->json, "every figure, as JSON");
  command.does([options] { return matmul(*options); });

  Command memory = silicon.command("arena", "the arena beside malloc, mmap, jemalloc and mimalloc");
  auto malloc_alone = std::make_shared<bool>(false);
  memory.flag("--malloc", *malloc_alone, "one line: the malloc of this process");
  memory.does([malloc_alone] { return arena(*malloc_alone); });
}

}  // namespace orrery::cli
