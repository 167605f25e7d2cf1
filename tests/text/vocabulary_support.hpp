// Vocabularies and vectors that the tokenizer tests share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "storage/checkpoint.hpp"
#include "support/paths.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text::test {

inline std::string shared_data() {
  return orrery::test::shared_dir() + "/data";
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The tokenizer of a GGUF file, or null with a test failure.
inline std::shared_ptr<const Tokenizer> load_gguf(const std::string& path) {
  auto checkpoint = storage::Checkpoint::open(path, storage::system_io());
  if (!checkpoint) {
    ADD_FAILURE() << path << ": " << checkpoint.error().message;
    return nullptr;
  }
  auto tokenizer = Tokenizer::load(**checkpoint);
  if (!tokenizer) {
    ADD_FAILURE() << path << ": " << tokenizer.error().message;
    return nullptr;
  }
  return *tokenizer;
}

// The tokenizer of a tokenizer.json alone.
inline std::shared_ptr<const Tokenizer> load_json(const std::string& path) {
  auto spec = spec_from_json(read_text(path), "", "");
  if (!spec) {
    ADD_FAILURE() << path << ": " << spec.error().message;
    return nullptr;
  }
  auto tokenizer = build_tokenizer(std::move(*spec));
  if (!tokenizer) {
    ADD_FAILURE() << path << ": " << tokenizer.error().message;
    return nullptr;
  }
  return *tokenizer;
}

inline storage::MetaArray meta_strings(std::vector<std::string_view> texts) {
  storage::MetaArray array;
  array.kind = storage::MetaArray::Kind::strings;
  array.strings = std::move(texts);
  return array;
}

inline storage::MetaArray meta_floats(std::vector<float> numbers) {
  storage::MetaArray array;
  array.kind = storage::MetaArray::Kind::floats;
  array.floats = std::move(numbers);
  return array;
}

inline storage::MetaArray meta_integers(std::vector<std::int64_t> numbers) {
  storage::MetaArray array;
  array.kind = storage::MetaArray::Kind::integers;
  array.integers = std::move(numbers);
  return array;
}

struct Vector {
  std::string text;
  std::vector<TokenId> ids, ids_plain, ids_bos;
  std::string decoded;
};

// One JSON object a line, as the Hugging Face tokenizers gave it.
inline std::vector<Vector> read_vectors(const std::string& path) {
  std::vector<Vector> vectors;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    vectors.push_back({json.at("text"), json.at("ids"), json.at("ids_plain"), json.at("ids_bos"),
                       json.at("decoded")});
  }
  return vectors;
}

}  // namespace orrery::text::test
