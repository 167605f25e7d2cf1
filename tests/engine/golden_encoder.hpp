// The tiny encoders of tests/golden, each as safetensors and as GGUF.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/paths.hpp"

namespace orrery::engine::golden {

inline std::string folder_of(const std::string& name) {
  return test::source_dir() + "/tests/golden/" + name;
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

inline std::string print_name(const ::testing::TestParamInfo<Param>& info) {
  std::string name = info.param.name + (info.param.gguf ? "_gguf" : "_safetensors");
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace orrery::engine::golden
