#include "silicon/torch.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <sstream>

namespace orrery::silicon {
namespace {

constexpr int kNoTorch = 3;  // what the script ends with where it cannot be imported
constexpr std::size_t kMostOutput = 1 << 16;

// Arguments: small size, threads, seconds of a small and of a large product, sizes. It samples as
// time_calls() does and ends itself after two minutes. No single quotes inside: a shell reads it.
constexpr const char* kScript = R"(
import signal, sys, time
signal.alarm(120)
try:
    import torch
except Exception:
    sys.exit(3)
small, threads = int(sys.argv[1]), int(sys.argv[2])
for size in map(int, sys.argv[5:]):
    torch.set_num_threads(1 if size <= small else threads)
    budget = float(sys.argv[3] if size <= small else sys.argv[4])
    for name, kind in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        a, b = (torch.rand(size, size).to(kind) for _ in range(2))
        out = torch.empty(size, size, dtype=kind)
        torch.mm(a, b.t(), out=out)
        end, calls, samples = time.perf_counter() + budget, 1, []
        while len(samples) < 2 or time.perf_counter() < end:
            start = time.perf_counter()
            for _ in range(calls):
                torch.mm(a, b.t(), out=out)
            spent = time.perf_counter() - start
            if spent < 20e-6:
                calls *= 2
            else:
                samples.append(spent / calls)
        samples.sort()
        print(size, name, samples[0], samples[len(samples) // 2])
)";

}  // namespace

Result<std::vector<TorchTime>> parse_torch(const std::string& output) {
  std::vector<TorchTime> times;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    TorchTime time;
    std::string type;
    if (!(words >> time.size >> type >> time.time.best >> time.time.median) ||
        (type != "f32" && type != "bf16") || time.size <= 0 || !(time.time.best > 0)) {
      return fail("E_TORCH", "its script printed something else than times");
    }
    time.type = type == "f32" ? WeightType::f32 : WeightType::bf16;
    times.push_back(time);
  }
  return times;
}

Result<std::vector<TorchTime>> time_torch(const TorchRequest& request) {
  std::string command = fmt::format("python3 -c '{}' {} {} {} {}", kScript, request.small_size,
                                    request.threads, request.small_seconds, request.large_seconds);
  for (const int size : request.sizes) command += fmt::format(" {}", size);
  command += " 2>/dev/null </dev/null";
  std::FILE* process = popen(command.c_str(), "r");
  if (process == nullptr) return fail("E_TORCH", "no process could be started");
  std::string output;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, process)) > 0;) {
    if (output.size() < kMostOutput) output.append(buffer, n);
  }
  const int status = pclose(process);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 127) return fail("E_TORCH", "python3 is not on this machine");
  if (code == kNoTorch) return fail("E_TORCH", "python3 has no torch on this machine");
  if (code != 0) return fail("E_TORCH", "its script failed or took longer than two minutes");
  return parse_torch(output);
}

}  // namespace orrery::silicon
