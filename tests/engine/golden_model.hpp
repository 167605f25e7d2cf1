// The tiny golden models, each as safetensors and as GGUF.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/paths.hpp"

namespace orrery::engine::golden {

// Of the project, else of the shared data.
inline std::string folder_of(const std::string& name) {
  const std::string own = test::source_dir() + "/tests/golden/" + name;
  return std::filesystem::exists(own) ? own : test::shared_dir() + "/data/golden/" + name;
}

// Discarded where there is none.
inline nlohmann::json json_of(const std::string& name) {
  std::ifstream file(folder_of(name) + "/golden.json");
  return nlohmann::json::parse(file, nullptr, false);
}

struct Param {
  std::string name;
  bool gguf;
  std::string path() const {
    return folder_of(name) + (gguf ? "/" + name + "-f16.gguf" : std::string());
  }
};

// Each model from both.
inline std::vector<Param> both(std::initializer_list<const char*> names) {
  std::vector<Param> params;
  for (const char* name : names) params.insert(params.end(), {{name, true}, {name, false}});
  return params;
}
inline std::vector<Param> from_safetensors(std::initializer_list<const char*> names) {
  std::vector<Param> params;
  for (const char* name : names) params.push_back({name, false});
  return params;
}

inline std::string print_name(const ::testing::TestParamInfo<Param>& info) {
  std::string name = info.param.name + (info.param.gguf ? "_gguf" : "_safetensors");
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace orrery::engine::golden
