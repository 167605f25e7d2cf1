#include "silicon/allocators.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace orrery::silicon {
namespace {

constexpr std::size_t kPieceBytes = 4096;

// A round takes all pieces and frees them in the order in which they came; each part has its own
// time. The first round's touches are those of fresh memory.
template <class Take, class Free>
AllocatorTime time_pieces(double seconds, Take&& take, Free&& free) {
  std::vector<void*> pieces(kArenaPieces);
  std::vector<double> allocate, free_all, touched;
  const double begin = now_seconds();
  while (allocate.size() < 3 || now_seconds() < begin + seconds) {
    const double start = now_seconds();
    for (void*& piece : pieces) keep(piece = take());
    const double taken = now_seconds();
    if (touched.empty()) {
      for (void* piece : pieces) {
        if (piece != nullptr) touch(static_cast<std::byte*>(piece));
      }
      touched.push_back((now_seconds() - taken) / kArenaPieces);
    }
    const double full = now_seconds();
    for (void* piece : pieces) free(piece);
    free_all.push_back(now_seconds() - full);
    allocate.push_back((taken - start) / kArenaPieces);
  }
  return {.allocate = timing_of(std::move(allocate)),
          .free_all = timing_of(std::move(free_all)),
          .touch = timing_of(std::move(touched))};
}

std::string malloc_name() {
  if (::dlsym(RTLD_DEFAULT, "mallctl") != nullptr) return "jemalloc";
  if (::dlsym(RTLD_DEFAULT, "mi_version") != nullptr) return "mimalloc";
  return "malloc";
}

std::string what_malloc_does(const std::string& name) {
  if (name == "malloc") return "cuts the heap, and writes beside each piece";
  return name == "jemalloc" ? "takes a slot of a run, cached by thread"
                            : "takes the next of a list that lies in the pieces";
}

}  // namespace

AllocatorTime time_malloc(double seconds) {
  AllocatorTime time = time_pieces(
      seconds, [] { return std::malloc(kPieceBytes); }, [](void* piece) { std::free(piece); });
  time.name = malloc_name();
  time.does = what_malloc_does(time.name);
  return time;
}

AllocatorTime time_mmap(double seconds) {
  AllocatorTime time = time_pieces(
      seconds,
      [] {
        void* piece = ::mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return piece == MAP_FAILED ? nullptr : piece;
      },
      [](void* piece) {
        if (piece != nullptr) ::munmap(piece, kPieceBytes);
      });
  time.name = "mmap";
  time.does = "asks the kernel each time, and gives all back";
  return time;
}

std::string malloc_line(double seconds) {
  const AllocatorTime time = time_malloc(seconds);
  return fmt::format("{} {} {} {} {} {} {}\n", time.name, time.allocate.best, time.allocate.median,
                     time.free_all.best, time.free_all.median, time.touch.best, time.touch.median);
}

Result<AllocatorTime> parse_malloc_line(std::string_view line) {
  std::istringstream words{std::string(line)};
  AllocatorTime time;
  if (!(words >> time.name >> time.allocate.best >> time.allocate.median >> time.free_all.best >>
        time.free_all.median >> time.touch.best >> time.touch.median)) {
    return fail("E_ALLOCATOR", "it printed something else than times");
  }
  time.does = what_malloc_does(time.name);
  return time;
}

Result<AllocatorTime> time_other(const std::string& program, const std::string& library) {
  const auto missing = [&](std::string_view why) {
    return fail("E_ALLOCATOR", fmt::format("not measured: {}: {}", library, why));
  };
  if (program.empty() || program.find('\'') != std::string::npos) {
    return missing("this program cannot start itself");
  }
  // Loaded into this process, it would measure how well it gets on with another malloc.
  const std::string command = fmt::format(
      "LD_PRELOAD={} '{}' silicon arena --malloc 2>/dev/null </dev/null", library, program);
  std::FILE* process = ::popen(command.c_str(), "r");
  if (process == nullptr) return missing("no process to be had");
  std::array<char, 512> line{};
  const std::size_t bytes = std::fread(line.data(), 1, line.size(), process);
  const int status = ::pclose(process);
  auto time = parse_malloc_line({line.data(), bytes});
  if (status != 0 || !time) return missing("it did not print its times");
  if (time->name == "malloc") return missing("is not installed (libjemalloc2, libmimalloc2.0)");
  return time;
}

}  // namespace orrery::silicon
